"""From a scan in its own units to a measurement in a model's, or a reason why it does not fit."""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.noise import (
    NoiseEstimate,
    estimate_from_image,
    estimate_from_k_space,
    estimate_from_noise_scan,
)
from bcdm.operators import FourierMask, LinearOperator, PixelMask
from bcdm.reconstruction.calibration import Calibration
from bcdm.scans import Scan, remove_oversampling

__all__ = [
    "NOISE_FACTOR",
    "Fitted",
    "UnfitError",
    "Units",
    "check_noise",
    "check_operator",
    "choose_units",
    "estimate_noise",
    "find_unfamiliar",
    "fit_scan",
]

NOISE_FACTOR = 1.5  # between noise levels that count as the same
# Whose integers fill as much of their type as a scanner likes.
_ARBITRARY = ("DICOM", "NIfTI")
_ROUNDING = 1e-4


class UnfitError(InputError):
    """A scan that a model was not made for; the message says why."""


@dataclass(frozen=True)
class Units:
    """model = gain x file + offset.

    Attributes:
        gain: See above.
        offset: See above.
        name: Of the file's unit, if it has one.
        source: How they were found, in words.
    """

    gain: float = 1.0
    offset: float = 0.0
    name: str = ""
    source: str = ""

    def to_file(self, x: Tensor) -> np.ndarray:
        """Images of the model in the file's units."""
        restored: np.ndarray = ((x - self.offset) / self.gain).cpu().float().numpy()
        return restored

    def to_file_size(self, std: Tensor) -> np.ndarray:
        """Sizes (standard deviations) of the model in the file's units."""
        restored: np.ndarray = (std / self.gain).cpu().float().numpy()
        return restored


@dataclass(frozen=True, eq=False)
class Fitted:
    """A scan that a model can take.

    Attributes:
        scan: Without oversampling.
        operator: What it was measured with.
        noise: Its noise level in the file's units.
        units: From the file's numbers to the model's.
        white: What the operator makes of a white image, in units of the file's white. A stored
            picture is as bright as its scene, whatever the operator's scaling.
    """

    scan: Scan
    operator: LinearOperator
    noise: NoiseEstimate
    units: Units
    white: float = 1.0

    @property
    def noise_std(self) -> float:
        """The noise level of its measurements."""
        return self.units.gain * self.white * self.noise.std

    def measure(self, number: int) -> Measurement:
        """One slice as a measurement in the model's units."""
        y = torch.from_numpy(np.ascontiguousarray(self.scan.data[number]))[None]
        blank = torch.ones(self.operator.image_shape(tuple(y.shape[1:])))[None]
        gain = self.units.gain * self.white
        shifted = gain * y + self.units.offset * self.operator.forward(blank)
        return Measurement(shifted, self.operator, self.noise_std)


def estimate_noise(scan: Scan) -> NoiseEstimate:
    """The noise of a scan, from a noise scan where there is one, else from the data."""
    if scan.noise is not None:
        found = estimate_from_noise_scan(scan.noise)
        return found.estimate
    if scan.kind == "k-space":
        return estimate_from_k_space(scan.data, scan.mask)
    return estimate_from_image(scan.data, scan.mask)


def fit_scan(
    scan: Scan,
    model: Model,
    *,
    noise_std: float | None = None,
    operator: LinearOperator | None = None,
) -> Fitted:
    """Finds operator, units and noise level.

    Args:
        scan: As it was read.
        model: What is to reconstruct it.
        noise_std: In the file's units; estimated when left out.
        operator: What it was measured with, if the file does not say.
    """
    check_noise(noise_std)
    if scan.kind == "k-space":
        scan = remove_oversampling(scan)
    if operator is None:
        operator = _choose_operator(scan, model)
    else:
        check_operator(operator, model)
        _check_kind(scan, model, operator)
    _check_shape(scan, model, operator)
    if scan.kind == "image":
        scan = replace(scan, size=(model.shape[-2], model.shape[-1]))
    if noise_std is None:
        noise = estimate_noise(scan)
    else:
        noise = NoiseEstimate(noise_std, 0.0, "stated", 0)
    units = choose_units(scan, model, _project_back(scan, operator), noise.std)
    white = 1.0
    if scan.kind == "image" and _find_range(scan) is not None:
        white = float(operator.forward(torch.ones(1, *model.shape)).max())
    return Fitted(scan, operator, noise, units, white)


def check_noise(noise_std: float | None) -> None:
    """Refuses a noise level that is none."""
    if noise_std is not None and not 0 < noise_std < math.inf:
        raise InputError(f"noise_std must be a number above 0, got {noise_std}")


def find_unfamiliar(fitted: Fitted, model: Model) -> str:
    """Why operator or noise level are none of those a model of a family was trained for, or ""."""
    if model.familiarity is None:
        return ""
    return model.familiarity.judge(fitted.measure(0))[0].reason


def _check_kind(scan: Scan, model: Model, operator: LinearOperator) -> None:
    measured = operator.forward(torch.zeros(1, *model.shape))
    if measured.is_complex() != (scan.kind == "k-space"):
        kind = "k-space" if measured.is_complex() else "images"
        raise UnfitError(
            f"{scan.path.name} holds {scan.kind}, and {type(operator).__name__} gives {kind}"
        )


def check_operator(operator: LinearOperator, model: Model) -> None:
    """Refuses an operator that a model of one was not made for, give or take rounding."""
    trained = model.trained_operator
    if trained is None:
        return
    probe = torch.randn(1, *model.shape, generator=torch.Generator().manual_seed(0))
    own, other = trained.forward(probe), operator.forward(probe)
    if own.shape == other.shape and own.is_complex() == other.is_complex():
        away = float((own - other).abs().square().sum().sqrt())
        if away <= _ROUNDING * float(own.abs().square().sum().sqrt()):
            return
    raise UnfitError(
        f"{model.config.name} is made for one operator, {type(trained).__name__}, and the one "
        "given measures something else: choose a model of a family"
    )


def _choose_operator(scan: Scan, model: Model) -> LinearOperator:
    trained = model.trained_operator
    if scan.kind == "k-space":
        if scan.data.shape[1] > 1:
            read = f" (read as: {scan.facts['read as']})" if "read as" in scan.facts else ""
            raise UnfitError(
                f"{scan.path.name} has {scan.data.shape[1]} coils and {model.config.name} takes "
                f"one: combine them first{read}"
            )
        assert scan.mask is not None
        found: LinearOperator = FourierMask(torch.from_numpy(scan.mask), real=True)
        kind: type[LinearOperator] = FourierMask
    elif scan.mask is not None:
        found, kind = PixelMask(torch.from_numpy(scan.mask)), PixelMask
    elif trained is not None and not isinstance(trained, (FourierMask, PixelMask)):
        return trained
    else:
        raise UnfitError(
            f"{scan.path.name} does not say how it was measured: bcdm reconstruct needs "
            "--operator or --mask"
        )
    if trained is None:
        return found
    if not isinstance(trained, kind):
        raise UnfitError(
            f"{model.config.name} is made for {type(trained).__name__}, and {scan.path.name} was "
            f"measured by {kind.__name__}: choose another model"
        )
    assert isinstance(found, (FourierMask, PixelMask))
    assert isinstance(trained, (FourierMask, PixelMask))
    own, other = trained.mask != 0, found.mask
    if own.shape[-2:] == other.shape[-2:] and not torch.equal(own, other.expand_as(own)):
        away = int((own != other).sum())
        raise UnfitError(
            f"{model.config.name} is made for one mask, and that of {scan.path.name} differs in "
            f"{away} places: choose a model of a family"
        )
    return trained


def _check_shape(scan: Scan, model: Model, operator: LinearOperator) -> None:
    shape = operator.image_shape(tuple(scan.data.shape[1:]))
    if tuple(shape) != tuple(model.shape):
        raise UnfitError(
            f"{scan.path.name} is of images {'x'.join(map(str, shape))} and {model.config.name} "
            f"makes {'x'.join(map(str, model.shape))}: crop or resample, or choose another model"
        )


def _project_back(scan: Scan, operator: LinearOperator) -> Tensor:
    """The data as images, as bright as what was measured."""
    y = torch.from_numpy(scan.data)
    back = operator.adjoint(y)
    if scan.kind == "k-space":
        return back
    blank = torch.ones(1, *back.shape[1:])
    # Of block means, the adjoint is darker than the image.
    white = float(operator.adjoint(operator.forward(blank)).max())
    return back / white if white > 0 else back


def _find_range(scan: Scan) -> tuple[float, float] | None:
    """The numbers of black and white of stored pictures; None where nothing fixes them."""
    if "bits" in scan.facts:
        return 0.0, 2.0 ** int(scan.facts["bits"]) - 1
    stored = np.dtype(str(scan.facts.get("stored type", "float32")))
    if scan.format not in _ARBITRARY and stored.kind == "u" and stored.itemsize <= 2:
        return 0.0, float(np.iinfo(stored).max)
    return None


def choose_units(scan: Scan, model: Model, back: Tensor, noise_std: float | None = None) -> Units:
    """Pictures of 8 or 16 bits have a range. All else has a noise level and a brightness.

    Images are taken in the units of the training data, if they are then as bright as usual.
    Otherwise, and for k-space, black is zero: a model of one noise level is given that one, if
    the image is then as bright as usual; or else the image is made as bright as is typical.

    Args:
        scan: In the file's units.
        model: What is to reconstruct it.
        back: The scan as images (slices, C, H, W), black where nothing was measured.
        noise_std: In the file's units; None if there is none to match.
    """
    low, high = model.config.data.value_range
    name = str(scan.facts.get("unit", ""))
    fixed = _find_range(scan) if scan.kind == "image" else None
    if fixed is not None:
        return _to_units(fixed, (low, high), name, "as the number type says")
    calibration = Calibration.of(model)
    if calibration is None:
        raise UnfitError(f"{model.config.name} has no calibration: run bcdm calibrate first")
    least, typical, most = calibration.brightness
    dark, bright = _find_extremes(back)
    trained = None if isinstance(model.config.noise_std, tuple) else model.noise_std
    if scan.kind == "image":
        black, white = model.preparation.source_range
        units = _to_units((black, white), (low, high), name, "those of the training data")
        noisy = trained is None or noise_std is None or _is_near(units.gain * noise_std, trained)
        if noisy and least <= (bright - black) / (white - black) <= most:
            return units
        if bright <= 0 or dark < -bright / 2:
            raise UnfitError(
                f"{scan.path.name} has its black far below 0: shift it so that black is 0"
            )
    if bright <= 0:
        raise UnfitError(f"{scan.path.name} shows no image: is its k-space centred?")
    bright /= high - low
    if trained is not None and noise_std:
        gain = trained / noise_std
        if least <= gain * bright <= most:
            return Units(gain, low, name, "by the noise level")
    return Units(typical / bright, low, name, "by the brightness that is typical")


def _to_units(
    stored: tuple[float, float], value_range: tuple[float, float], name: str, source: str
) -> Units:
    (black, white), (low, high) = stored, value_range
    gain = (high - low) / (white - black)
    return Units(gain, low - gain * black, name, source)


def _is_near(one: float, other: float) -> bool:
    return other / NOISE_FACTOR <= one <= other * NOISE_FACTOR


def _find_extremes(back: Tensor) -> tuple[float, float]:
    """The 1 % and 99 % quantiles of an image, of the median slice."""
    grey = back.mean(1).flatten(1)
    found = [[float(one.quantile(q)) for one in grey] for q in (0.01, 0.99)]
    return float(np.median(found[0])), float(np.median(found[1]))
