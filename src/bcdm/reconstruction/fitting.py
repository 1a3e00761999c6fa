"""From a scan in its own units to a measurement in a model's, or a reason why it does not fit."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.coils import read_maps
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.noise import (
    NoiseEstimate,
    estimate_from_image,
    estimate_from_k_space,
    estimate_from_noise_scan,
    find_phase,
)
from bcdm.operators import FourierMask, LinearOperator, PixelMask, Sense
from bcdm.reconstruction.progress import Bar
from bcdm.reconstruction.receiving import find_noise, receive
from bcdm.reconstruction.units import Units, choose_units, find_range
from bcdm.scans import Scan, find_sampled, remove_oversampling
from bcdm.spool import release
from bcdm.trust.matching import UnfitError, check_operator, check_size

__all__ = ["Fitted", "UnfitError", "check_noise", "estimate_noise", "fit_scan"]


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
        weights: Of several coils, what images are multiplied by to be those of the file,
            (slices, rows, columns); see `Received`. None: nothing.
    """

    scan: Scan
    operator: LinearOperator
    noise: NoiseEstimate
    units: Units
    white: float = 1.0
    weights: NDArray[np.float32] | None = None

    @property
    def noise_std(self) -> float:
        """The noise level of its measurements."""
        return self.units.gain * self.white * self.noise.std

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Channels, rows and columns of its images, with the oversampling that is left."""
        return tuple(self.operator.image_shape(tuple(self.scan.data.shape[1:])))

    def measure(self, number: int) -> Measurement:
        """One slice as a measurement in the model's units."""
        y = torch.from_numpy(np.array(self.scan.data[number]))[None]
        release(self.scan.data)
        if isinstance(self.operator, Sense):
            # Black is zero; and every slice has maps of its own.
            own = self.operator.select(torch.tensor([number]))
            release(self.operator.maps.numpy())
            return Measurement(self.units.gain * y, own, self.noise_std)
        blank = torch.ones(self.operator.image_shape(tuple(y.shape[1:])))[None]
        gain = self.units.gain * self.white
        shifted = gain * y + self.units.offset * self.operator.forward(blank)
        return Measurement(shifted, self.operator, self.noise_std)

    def to_file(self, images: Tensor, number: int) -> np.ndarray:
        """Images of a slice (..., H, W) in the file's units."""
        return self.units.to_file(self.weigh(images, number))

    def to_file_size(self, std: Tensor, number: int) -> np.ndarray:
        """Sizes (standard deviations) of a slice in the file's units."""
        return self.units.to_file_size(self.weigh(std, number))

    def weigh(self, images: Tensor, number: int) -> Tensor:
        """Images of a slice (..., H, W), each pixel as the file's coils together see it."""
        if self.weights is None:
            return images
        weights = torch.from_numpy(np.array(self.weights[number]))
        release(self.weights)
        return images * weights.to(images.device)


def estimate_noise(scan: Scan) -> NoiseEstimate:
    """The noise of a scan, from a noise scan where there is one, else from the data."""
    if scan.noise is not None:
        found = estimate_from_noise_scan(scan.noise)
        return found.estimate
    if scan.kind == "k-space" and scan.data.shape[1] > 1:
        return find_noise(scan).estimate
    if scan.kind == "k-space":
        return estimate_from_k_space(scan.data, scan.mask)
    return estimate_from_image(scan.data, scan.mask)


def fit_scan(
    scan: Scan,
    model: Model,
    *,
    noise_std: float | None = None,
    operator: LinearOperator | None = None,
    maps: Path | None = None,
    body: Scan | None = None,
    cache: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> Fitted:
    """Finds operator, units and noise level.

    K-space goes to a model of complex images as coils see it, one or several.

    Args:
        scan: As it was read.
        model: What is to reconstruct it.
        noise_std: In the file's units; estimated when left out.
        operator: What it was measured with, if the file does not say.
        maps: A file with what each coil sees; estimated from the scan when left out.
        body: The same slices by a body coil, if maps are to be estimated by it.
        cache: A folder where estimated maps are kept.
        say: Hears now and then how far a volume is.
    """
    check_noise(noise_std)
    if scan.kind == "k-space":
        scan = remove_oversampling(scan)
    if scan.kind == "k-space" and model.config.data.phase and operator is None:
        return _fit_coils(scan, model, noise_std, maps, body, cache, say)
    if maps is not None or body is not None:
        raise UnfitError(
            f"maps of coils are for k-space and models of complex images: {scan.path.name} holds "
            f"{scan.kind}, {model.config.name} makes real images"
        )
    if operator is None:
        operator = _choose_operator(scan, model)
    else:
        _check_mask(scan, operator)
        if not model.is_prior:
            check_operator(operator, model)
        _check_kind(scan, model, operator)
    _check_shape(scan, model, operator)
    if scan.kind == "image":
        rows, columns = operator.image_shape(scan.data.shape[1:])[-2:]
        scan = replace(scan, size=(rows, columns))
    back = _project_back(scan, operator)
    if scan.kind == "k-space" and not back.is_complex():
        _check_phase(scan, model)
    if noise_std is None:
        noise = estimate_noise(scan)
    else:
        noise = NoiseEstimate(noise_std, 0.0, "stated", 0)
    seen = back.abs() if model.config.data.phase else back
    units = choose_units(scan, model, seen, noise.std)
    white = 1.0
    if scan.kind == "image" and find_range(scan) is not None:
        shape = operator.image_shape(scan.data.shape[1:])
        white = float(operator.forward(torch.ones(1, *shape)).max())
    return Fitted(scan, operator, noise, units, white)


def _fit_coils(
    scan: Scan,
    model: Model,
    noise_std: float | None,
    maps: Path | None,
    body: Scan | None,
    cache: Path | None,
    say: Callable[[str], None] | None,
) -> Fitted:
    """K-space of one or several coils, for a model of complex images."""
    slices, coils, rows, columns = scan.data.shape
    check_size(model, (1, rows, columns), scan.path.name)
    known = None if maps is None else read_maps(maps, (slices, coils, rows, columns))
    with Bar(slices, say, "slice") if say is not None else nullcontext() as progress:
        done = None if progress is None else progress.advance
        seen = None if body is None else _fit_body(body, (slices, rows, columns))
        found = receive(scan, noise_std=noise_std, maps=known, body=seen, cache=cache, done=done)
    plain = Fitted(found.scan, found.operator, found.noise, Units(), weights=found.weights)
    back = (plain.measure(number).back_projection[0].abs() for number in range(slices))
    return replace(plain, units=choose_units(found.scan, model, back, found.noise.std))


def _fit_body(body: Scan, needed: tuple[int, int, int]) -> NDArray[np.complex64]:
    """K-space of a body coil (slices or 1, channels, rows, columns), as large as the coils'."""
    slices, *size = needed
    # A mask in the same file is of the coils' own array.
    if body.kind != "k-space" or not bool(find_sampled(body.data).all()):
        raise UnfitError(f"{body.path.name} is no fully sampled k-space: give that of a body coil")
    data: NDArray[np.complex64] = remove_oversampling(body).data
    if len(data) not in (1, slices) or list(data.shape[2:]) != size:
        raise UnfitError(
            f"{body.path.name} holds {data.shape}, and the scan {slices} slices of "
            f"{size[0]} x {size[1]}: give the same slices by the body coil"
        )
    return data


def check_noise(noise_std: float | None) -> None:
    """Refuses a noise level that is none."""
    if noise_std is not None and not 0 < noise_std < math.inf:
        raise InputError(f"noise_std must be a number above 0, got {noise_std}")


def _check_mask(scan: Scan, operator: LinearOperator) -> None:
    """Refuses an operator that takes for data what the mask of an image hides."""
    if scan.kind != "image" or scan.mask is None:
        return
    known = operator.find_data(torch.from_numpy(scan.data[:1]))
    hidden = torch.from_numpy(~scan.mask)
    if known is None or known.shape[-2:] != hidden.shape or bool((known & hidden).any()):
        raise UnfitError(
            f"{scan.path.name} comes with a mask, and {type(operator).__name__} takes for data "
            "what it hides: give an operator that holds the mask, or leave out the mask"
        )


def _check_kind(scan: Scan, model: Model, operator: LinearOperator) -> None:
    number = model.config.data.dtype
    shape = operator.image_shape(scan.data.shape[1:])
    measured = operator.forward(torch.zeros(1, *shape, dtype=number))
    if measured.is_complex() != (scan.kind == "k-space"):
        kind = "k-space" if measured.is_complex() else "images"
        raise UnfitError(
            f"{scan.path.name} holds {scan.kind}, and {type(operator).__name__} gives {kind}"
        )


def _choose_operator(scan: Scan, model: Model) -> LinearOperator:
    """What the scan says it was measured with, or the only one that the model knows."""
    found = _read_operator(scan, model)
    trained = None if model.is_prior else model.trained_operator
    if found is None:
        # Only what measures everything can be taken for granted: a hole is not seen in an image.
        if trained is None or _has_holes(trained, model):
            raise UnfitError(
                f"{scan.path.name} does not say how it was measured: bcdm reconstruct needs "
                "--operator or --mask"
            )
        return trained
    if trained is None:
        return found
    if type(trained) is not type(found):
        raise UnfitError(
            f"{model.config.name} is made for {type(trained).__name__}, and {scan.path.name} was "
            f"measured by {type(found).__name__}: choose another model"
        )
    own, other = (one.find_data(torch.from_numpy(scan.data[:1])) for one in (trained, found))
    assert own is not None
    assert other is not None
    if own.shape[-2:] == other.shape[-2:] and not torch.equal(own, other.expand_as(own)):
        away = int((own != other).sum())
        raise UnfitError(
            f"{model.config.name} is made for one mask, and that of {scan.path.name} differs in "
            f"{away} places: choose a model of a family"
        )
    return trained


def _has_holes(operator: LinearOperator, model: Model) -> bool:
    """Whether some entries of a measurement carry no data."""
    return operator.find_data(operator.forward(torch.zeros(1, *model.shape))) is not None


def _read_operator(scan: Scan, model: Model) -> LinearOperator | None:
    """What a scan says it was measured with; None if it does not say."""
    if scan.mask is None:
        return None
    mask = torch.from_numpy(scan.mask)
    if scan.kind == "image":
        return PixelMask(mask)
    if scan.data.shape[1] > 1:
        read = f" (read as: {scan.facts['read as']})" if "read as" in scan.facts else ""
        raise UnfitError(
            f"{scan.path.name} has {scan.data.shape[1]} coils and {model.config.name} takes "
            f"one: choose a model of complex images{read}"
        )
    return FourierMask(mask, real=True)


def _check_shape(scan: Scan, model: Model, operator: LinearOperator) -> None:
    check_size(model, operator.image_shape(tuple(scan.data.shape[1:])), scan.path.name)


def _check_phase(scan: Scan, model: Model) -> None:
    """Refuses k-space of a complex image, for a model of real ones."""
    angle = find_phase(scan.data, scan.mask)
    if angle is None:
        return
    if math.isnan(angle):
        raise UnfitError(
            f"the image of {scan.path.name} has a phase that varies, and {model.config.name} makes "
            "real images: choose a model of complex images"
        )
    raise UnfitError(
        f"the image of {scan.path.name} has a phase of {math.degrees(angle):.1f} degrees, and "
        f"{model.config.name} makes real images: choose a model of complex ones, or multiply the "
        f"k-space by exp({-angle:.5g}j)"
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
