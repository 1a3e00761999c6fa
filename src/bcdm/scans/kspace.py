"""K-space: what was sampled, and how readout oversampling is taken out of it."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcdm.errors import ShapeError
from bcdm.scans.complaints import refusal
from bcdm.scans.scan import Scan
from bcdm.spool import each, stack

__all__ = [
    "CHANCE",
    "crop_kspace",
    "find_sampled",
    "has_origin_in_corner",
    "have_one_mask",
    "remove_oversampling",
]

CHANCE = 0.05  # of samples that may be zero in one slice and not in others


def find_sampled(kspace: NDArray[Any]) -> NDArray[np.bool_]:
    """Entries (rows, columns) that were sampled: those not zero in some slice and coil.

    A receiver counts in whole numbers, so that a sample may be zero by chance. Then many more have
    a zero in their real part alone, and as many in their imaginary part; unless zeros outnumber
    either, they are taken as samples, except where they fill a row or column.
    """
    sampled = np.zeros(kspace.shape[-2:], bool)
    halves = np.zeros(2, np.int64)
    for coils in each(kspace):
        is_real, is_imaginary = coils.imag == 0, coils.real == 0
        sampled |= ~(is_real & is_imaginary).all(0)
        halves += (is_real & ~is_imaginary).sum(), (is_imaginary & ~is_real).sum()
    lines = np.logical_and.outer(sampled.any(1), sampled.any(0))
    zeros = int((lines & ~sampled).sum()) * kspace.shape[0] * kspace.shape[1]
    return lines if zeros <= halves.min() else sampled


def has_origin_in_corner(coils: NDArray[Any]) -> bool:
    """Whether most of the energy of k-space (coils, rows, columns) lies in its four corners.

    That is where a Fourier transform puts the origin which nobody moved to the middle.
    """
    reach = [side // 16 for side in coils.shape[-2:]]
    if min(reach) == 0:
        return False
    power = (np.abs(coils) ** 2).sum(0)
    corners = np.roll(power, reach, (0, 1))[: 2 * reach[0], : 2 * reach[1]]
    return bool(corners.sum() > power.sum() / 2)


def have_one_mask(kspace: NDArray[Any], mask: NDArray[np.bool_]) -> bool:
    """Whether all slices were sampled where any was.

    They were not if a slice lacks a whole line of the mask, or more of its entries than may be
    zero by chance: as many as have a zero in their real or imaginary part alone, or a few. A slice
    of zeros alone tells nothing.
    """
    box = np.logical_and.outer(mask.any(1), mask.any(0))
    # Lines along which everything was sampled that was sampled along any.
    full = [(mask == box).all(axis) & mask.any(axis) for axis in (0, 1)]
    for coils in each(kspace):
        is_real, is_imaginary = coils.imag == 0, coils.real == 0
        found = ~(is_real & is_imaginary).all(0)
        if not bool(found.any()):
            continue
        if any(bool((lines & ~found.any(axis)).any()) for axis, lines in enumerate(full)):
            return False
        missing = int((mask & ~found).sum())
        halves = min(int((is_real & ~is_imaginary).sum()), int((is_imaginary & ~is_real).sum()))
        if missing > CHANCE * int(mask.sum()) and missing * len(coils) > halves:
            return False
    return True


def crop_kspace(kspace: NDArray[np.complex64], length: int, axis: int) -> NDArray[np.complex64]:
    """The k-space of the image's central part: inverse transform along one axis, crop, transform.

    All transforms are orthonormal, so that the image keeps its units and white noise its level.

    Args:
        kspace: Centred k-space, fully sampled along the axis.
        length: How much of the image to keep.
        axis: The axis to crop, such as that of the readout.
    """
    whole = kspace.shape[axis]
    if not 1 <= length <= whole:
        raise ShapeError(f"cannot crop {whole} to {length}: give a length from 1 to {whole}")
    image = np.fft.ifft(np.fft.ifftshift(kspace, axes=axis), axis=axis, norm="ortho")
    start = whole // 2 - length // 2
    centred = np.fft.fftshift(image, axes=axis)
    part = np.fft.ifftshift(np.take(centred, range(start, start + length), axis), axes=axis)
    cropped = np.fft.fftshift(np.fft.fft(part, axis=axis, norm="ortho"), axes=axis)
    return cropped.astype(np.complex64)


def remove_oversampling(scan: Scan) -> Scan:
    """Crops k-space to `scan.size` along each axis on which that is exact.

    It is exact where every line along the axis was sampled wholly or not at all: along the
    readout always, along phase encoding only without acceleration. Where it is not, the image
    has to be made at full size and cropped to `scan.size` in the end.
    """
    if scan.kind != "k-space" or scan.mask is None:
        raise refusal(scan.path, "holds no k-space: only k-space has oversampling")
    data, mask, calibration = scan.data, scan.mask, scan.calibration
    for axis, length in zip((-2, -1), scan.size, strict=True):
        lines = mask.any(axis)
        if data.shape[axis] == length or not bool((mask.all(axis) == lines).all()):
            continue
        # Slice by slice, because a transform takes several times the memory of its input.
        data = stack((crop_kspace(coils, length, axis) for coils in each(data)), len(data))
        mask = np.repeat(np.expand_dims(lines, axis), length, axis)
        if calibration is not None:
            calibration = _crop_calibration(calibration, length, axis)
    return replace(scan, data=data, mask=mask, calibration=calibration)


def _crop_calibration(
    calibration: NDArray[np.complex64], length: int, axis: int
) -> NDArray[np.complex64] | None:
    """The same of lines beside a measurement; None where it is not exact, or they are not needed.

    Along their rows a measurement is cropped only if it has them all.
    """
    found = find_sampled(calibration)
    whole = bool((found.all(-1) == found.any(-1)).all())
    return crop_kspace(calibration, length, axis) if axis == -1 and whole else None
