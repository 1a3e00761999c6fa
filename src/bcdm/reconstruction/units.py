"""From a file's numbers to a model's, and back."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.checkpoint.calibration import Calibration
from bcdm.measurement import Measurement
from bcdm.scans import Scan
from bcdm.trust.matching import UnfitError, is_near

__all__ = ["Units", "choose_units", "find_range", "take_scale"]

# Whose integers fill as much of their type as a scanner likes.
_ARBITRARY = ("DICOM", "NIfTI")


@dataclass(frozen=True)
class Units:
    """model = gain x file + offset.

    Attributes:
        gain: See above.
        offset: See above.
        name: Of the file's unit, if it has one.
        source: How they were found, in words.
        taken: Whether they were taken from the data, because nobody stated them.
    """

    gain: float = 1.0
    offset: float = 0.0
    name: str = ""
    source: str = ""
    taken: bool = False

    def to_file(self, x: Tensor) -> np.ndarray:
        """Images of the model in the file's units."""
        restored: np.ndarray = ((x - self.offset) / self.gain).cpu().numpy()
        return restored.astype(np.complex64 if x.is_complex() else np.float32, copy=False)

    def to_file_size(self, std: Tensor) -> np.ndarray:
        """Sizes (standard deviations) of the model in the file's units."""
        restored: np.ndarray = (std / self.gain).cpu().float().numpy()
        return restored


def find_range(scan: Scan) -> tuple[float, float] | None:
    """The numbers of black and white of stored pictures; None where nothing fixes them."""
    if "bits" in scan.facts:
        return 0.0, 2.0 ** int(scan.facts["bits"]) - 1
    stored = np.dtype(str(scan.facts.get("stored type", "float32")))
    if scan.format not in _ARBITRARY and stored.kind == "u" and stored.itemsize <= 2:
        return 0.0, float(np.iinfo(stored).max)
    return None


def choose_units(
    scan: Scan, model: Model, back: Iterable[Tensor], noise_std: float | None = None
) -> Units:
    """Pictures of 8 or 16 bits have a range. All else has a noise level and a brightness.

    Images are taken in the units of the training data, if they are then as bright as usual.
    Otherwise, and for k-space, black is zero: a model of one noise level is given that one, if
    the image is then as bright as usual; or else the image is made as bright as is typical.

    Args:
        scan: In the file's units.
        model: What is to reconstruct it.
        back: The scan as images (C, H, W), slice by slice, black where nothing was measured.
        noise_std: In the file's units; None if there is none to match.
    """
    low, high = model.config.data.value_range
    name = str(scan.facts.get("unit", ""))
    fixed = find_range(scan) if scan.kind == "image" else None
    if fixed is not None:
        return _to_units(fixed, (low, high), name, "as the number type says")
    calibration = Calibration.of(model)
    if calibration is None:
        raise UnfitError(f"{model.config.name} has no calibration: run bcdm calibrate first")
    least, _, most = calibration.brightness
    dark, bright = _find_extremes(back)
    trained = _find_level(model)
    if scan.kind == "image":
        black, white = model.preparation.source_range
        units = _to_units((black, white), (low, high), name, "those of the training data")
        noisy = trained is None or noise_std is None or is_near(units.gain * noise_std, trained)
        if noisy and least <= (bright - black) / (white - black) <= most:
            return units
        if bright < 0 or dark < -bright / 2:
            raise UnfitError(
                f"{scan.path.name} has its black far below 0: shift it so that black is 0"
            )
    if bright <= 0:
        hint = ": is its k-space centred?" if scan.kind == "k-space" else ""
        raise UnfitError(f"{scan.path.name} shows no image{hint}")
    return _take_units(model, calibration.brightness, bright, noise_std, name)


def take_scale(
    model: Model, measurement: Measurement, brightness: tuple[float, float, float]
) -> Measurement:
    """K-space in the model's units, as if nobody had stated them: the data tell their scale.

    Each measurement of the batch as `choose_units` takes a file of one slice.

    Args:
        model: What is to reconstruct it.
        measurement: K-space, complex.
        brightness: As of a calibration; the model's own need not be fitted yet.
    """
    low, size = model.config.data.value_range[0], measurement.back_projection.shape
    white = torch.ones(1, *size[1:], dtype=measurement.back_projection.dtype)
    parts, stds = [], []
    for row in range(len(measurement.y)):
        one = measurement.select(torch.tensor([row]))
        blank = one.operator.forward(white.to(one.y.device))
        raw, std = one.y - low * blank, float(one.std[0])
        back = one.operator.adjoint(raw)
        _, bright = _find_extremes(back.abs() if back.is_complex() else back)
        if bright <= 0:
            raise UnfitError("a measurement shows no image: nothing tells its scale")
        units = _take_units(model, brightness, bright, std)
        parts.append(units.gain * raw + units.offset * blank)
        stds.append(units.gain * std)
    return Measurement(torch.cat(parts), measurement.operator, torch.tensor(stds).double())


def _take_units(
    model: Model,
    brightness: tuple[float, float, float],
    bright: float,
    noise_std: float | None,
    name: str = "",
) -> Units:
    """By the noise level, if the image is then as bright as usual; else as bright as is typical.

    Args:
        model: What is to reconstruct it.
        brightness: As of a calibration.
        bright: The 99 % quantile of the image, in the file's units.
        noise_std: In the file's units.
        name: Of the file's unit.
    """
    low, high = model.config.data.value_range
    least, typical, most = brightness
    trained, share = _find_level(model), bright / (high - low)
    if trained is not None and noise_std:
        gain = trained / noise_std
        if least <= gain * share <= most:
            return Units(gain, low, name, "by the noise level", taken=True)
    return Units(typical / share, low, name, "by the brightness that is typical", taken=True)


def _find_level(model: Model) -> float | None:
    """The noise level of a model of one level."""
    return None if isinstance(model.config.noise_std, tuple) else model.noise_std


def _to_units(
    stored: tuple[float, float], value_range: tuple[float, float], name: str, source: str
) -> Units:
    (black, white), (low, high) = stored, value_range
    gain = (high - low) / (white - black)
    return Units(gain, low - gain * black, name, source)


def _find_extremes(back: Iterable[Tensor]) -> tuple[float, float]:
    """The 1 % and 99 % quantiles of an image, of the median slice."""
    grey = (one.mean(0).flatten() for one in back)
    found = [(float(one.quantile(0.01)), float(one.quantile(0.99))) for one in grey]
    dark, bright = np.median(found, 0)
    return float(dark), float(bright)
