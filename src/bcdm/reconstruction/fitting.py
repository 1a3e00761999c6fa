"""From a scan in its own units to a measurement in a model's, or a reason why it does not fit."""

from dataclasses import dataclass

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

__all__ = ["Fitted", "UnfitError", "Units", "estimate_noise", "find_range", "fit_scan"]


class UnfitError(InputError):
    """A scan that a model was not made for; the message says why."""


@dataclass(frozen=True)
class Units:
    """model = gain x file + offset.

    Attributes:
        gain: See above.
        offset: See above.
        name: Of the file's unit, if it has one.
    """

    gain: float = 1.0
    offset: float = 0.0
    name: str = ""

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
    """

    scan: Scan
    operator: LinearOperator
    noise: NoiseEstimate
    units: Units

    def measure(self, number: int) -> Measurement:
        """One slice as a measurement in the model's units."""
        y = torch.from_numpy(np.ascontiguousarray(self.scan.data[number]))[None]
        blank = torch.ones(self.operator.image_shape(tuple(y.shape[1:])))[None]
        shifted = self.units.gain * y + self.units.offset * self.operator.forward(blank)
        return Measurement(shifted, self.operator, self.units.gain * self.noise.std)


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
    if scan.kind == "k-space":
        scan = remove_oversampling(scan)
    operator = operator or _choose_operator(scan, model)
    _check_shape(scan, model, operator)
    if noise_std is None:
        noise = estimate_noise(scan)
    else:
        noise = NoiseEstimate(noise_std, 0.0, "stated", 0)
    return Fitted(scan, operator, noise, _choose_units(scan, model, operator, noise))


def find_range(scan: Scan, model: Model) -> tuple[float, float]:
    """The numbers of black and white: those of stored integers, else those of the training data."""
    if "bits" in scan.facts:
        return 0.0, 2.0 ** int(scan.facts["bits"]) - 1
    stored = np.dtype(str(scan.facts.get("stored type", "float32")))
    if stored.kind == "u" and stored.itemsize <= 2:
        return 0.0, float(np.iinfo(stored).max)
    return model.preparation.source_range


def _choose_operator(scan: Scan, model: Model) -> LinearOperator:
    trained = model.trained_operator
    if scan.kind == "k-space":
        if scan.data.shape[1] > 1:
            raise UnfitError(
                f"{scan.path.name} has {scan.data.shape[1]} coils and {model.config.name} takes "
                "one: combine them first"
            )
        assert scan.mask is not None
        found: LinearOperator = FourierMask(torch.from_numpy(scan.mask), real=True)
        kind: type[LinearOperator] = FourierMask
    elif scan.mask is not None:
        found, kind = PixelMask(torch.from_numpy(scan.mask)), PixelMask
    elif trained is not None and not isinstance(trained, (FourierMask, PixelMask)):
        return trained
    else:
        raise UnfitError(f"{scan.path.name} does not say how it was measured: give --operator")
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


def _choose_units(
    scan: Scan, model: Model, operator: LinearOperator, noise: NoiseEstimate
) -> Units:
    """Stored pictures have a range. K-space has a noise level and a brightness.

    A model of one noise level is given that one, if the image is then as bright as usual;
    otherwise the image is made as bright as is typical.
    """
    low, high = model.config.data.value_range
    name = str(scan.facts.get("unit", ""))
    if scan.kind == "image":
        black, white = find_range(scan, model)
        gain = (high - low) / (white - black)
        return Units(gain, low - gain * black, name)
    calibration = Calibration.of(model)
    if calibration is None:
        raise UnfitError(f"{model.config.name} has no calibration: run bcdm calibrate first")
    back = operator.adjoint(torch.from_numpy(scan.data))
    bright = float(np.median([float(one.flatten().quantile(0.99)) for one in back])) / (high - low)
    if bright <= 0:
        raise UnfitError(f"{scan.path.name} shows no image: is its k-space centred?")
    least, typical, most = calibration.brightness
    if not isinstance(model.config.noise_std, tuple) and noise.std > 0:
        gain = model.noise_std / noise.std
        if least <= gain * bright <= most:
            return Units(gain, low, name)
    return Units(typical / bright, low, name)
