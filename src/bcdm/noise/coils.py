r"""Noise of several coils and between them, from a scan itself.

A coil's signal is that of all others times something smooth, so that at one place the signals of
$C$ coils fill few of $C$ directions, and noise fills them all. So noise is seen at every place,
also where the object is: in the directions of the smaller eigenvalues of what is measured there.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bcdm.errors import InputError
from bcdm.noise.floor import Array
from bcdm.noise.kspace import check_kspace, estimate_from_k_space, transform, transform_back
from bcdm.noise.scan import NoiseScan
from bcdm.noise.symmetry import Complex, Mask

__all__ = ["counts_signal", "estimate_from_coils", "find_filter", "undo_filter"]

_SHARED = "what coils do not share"
_OUTER = "outer k-space, with what signal is there: at most so much noise"
_MIDDLE = 1 / 16  # cycles per pixel: below it lines and samples are signal in every direction
_EDGE = 1 / 8  # of a side at each end, that a receiver's filter may make quieter
_PER_COIL = 4  # numbers at a place for each coil, at least: so many tell eigenvalues apart
_ENOUGH = 50  # numbers for each coil, at places without signal
_ROUNDS = 8
_QUIET = 0.25  # of the places are quieter than the level that is taken
_TELLING = 4  # coils, at least, whose noise is told from what they share
_POSITIONS = 16  # along lines, at least, to follow a filter
_SILENT = 4  # of them beside the object, at each end
_FILTERED = 0.75  # of the noise is left at both ends: more may be chance
_FLAT = 0.9  # of the outer quarters have less noise than where no filter acts
_LEAST_LEFT = 0.2  # what is less is not brought back


def estimate_from_coils(kspace: ArrayLike, mask: ArrayLike | None = None) -> NoiseScan:
    """Estimates the covariance of the coils' noise from Cartesian k-space itself.

    Places are parts of the image where everything was sampled; positions along lines that were
    sampled fully; else patches of outer k-space, where places of the image are not told apart and
    signal counts as noise: up to three times too much, as `source` says. The ends of the image are
    left out, because a receiver's filter takes noise away at the ends of the readout.

    Args:
        kspace: Complex (slices, coils, rows, columns) with the origin in the middle.
        mask: True where it was measured, (rows, columns). Left out: where anything is not zero.

    >>> parts = np.random.default_rng(0).normal(size=(2, 1, 3, 64, 64))
    >>> estimate_from_coils(parts[0] + 1j * parts[1]).std.round(1)
    array([1., 1., 1.])
    """
    data, taken = check_kspace(kspace, mask)
    if data.shape[1] == 1:
        alone = estimate_from_k_space(data, taken)
        one = np.full((1, 1), alone.std**2, np.complex128)
        return NoiseScan(one, max(alone.samples // 2, 2), alone.source)
    places, source = _find_places(data, taken)
    covariance, levels, _ = _separate(places)
    level = float(np.quantile(levels, _QUIET))
    return NoiseScan(level * covariance, round(_QUIET * len(levels) * places.shape[-1]), source)


def counts_signal(mask: Mask) -> bool:
    """Whether `estimate_from_coils` takes signal for noise: no line was sampled fully."""
    empty = np.zeros((1, 1, *mask.shape), np.complex128)
    return not any(mask.all() or _find_lines(empty, mask, axis) is not None for axis in (0, 1))


def find_filter(kspace: ArrayLike, mask: ArrayLike | None = None) -> tuple[int, Array] | None:
    """What a receiver's filter leaves of signal and noise along the readout, if it has one.

    A filter acts on both alike, and the noise alone shows it: beside the object that of every coil
    gets weaker to the ends of lines. Only the outer quarters are looked at.

    Args:
        kspace: Complex (slices, coils, rows, columns) with the origin in the middle.
        mask: True where it was measured, (rows, columns). Left out: where anything is not zero.

    Returns:
        The axis, -2 or -1, and the part that is left at each position along it, 1 in the middle;
        None where no axis was sampled fully, or neither is filtered.
    """
    data, taken = check_kspace(kspace, mask)
    if data.shape[1] < _TELLING:
        return None
    for axis in (0, 1):
        along = _find_lines(data, taken, axis)
        if along is None:
            continue
        places = _join(along, _PER_COIL * data.shape[1])
        if places.shape[1] < _POSITIONS:
            continue
        _, levels, silent = _separate(places)
        if len(levels) < places.shape[1]:
            continue  # somewhere nothing at all was received
        left = _follow(np.where(silent, np.sqrt(levels), np.nan), taken.shape[axis])
        if left is not None and left[[0, -1]].max() < _FILTERED:
            return axis - 2, left
    return None


def undo_filter(kspace: Complex, axis: int, left: Array) -> Complex:
    """K-space (..., rows, columns) as it would be without a filter, its noise of one level."""
    shape = (-1, 1) if axis == -2 else (-1,)
    lines = transform(kspace, axis) / left.reshape(shape)
    return np.asarray(transform_back(lines, axis), kspace.dtype)


def _follow(levels: Array, length: int) -> Array | None:
    """From noise at even distances along lines, what is left of it: falling to both ends, <= 1.

    Where there is signal the noise is not a number; None where there is nearly everywhere.
    """
    half = len(levels) // 2
    # Filters are even: the two ends tell the same.
    outwards = (levels[:half][::-1] + levels[-half:]) / 2
    inner = half - half // 2
    if np.isfinite(outwards[inner:]).sum() < _SILENT:
        return None
    relative = outwards / np.nanquantile(outwards[inner:], _FLAT)
    relative[:inner] = 1.0
    known = np.isfinite(relative)
    relative = np.interp(np.arange(half), np.flatnonzero(known), relative[known])
    padded = np.pad(relative, 1, mode="reflect", reflect_type="odd")
    smooth = (padded[:-2] + padded[1:-1] + padded[2:]) / 3
    falling = np.minimum.accumulate(smooth).clip(_LEAST_LEFT, 1.0)
    whole = np.ones(len(levels))
    whole[:half], whole[-half:] = falling[::-1], falling
    centres = (np.arange(len(levels)) + 0.5) * length / len(levels) - 0.5
    return np.interp(np.arange(length), centres, whole)


def _separate(places: Complex) -> tuple[Complex, Array, NDArray[np.bool_]]:
    """The covariance of coils' noise, of unit mean level; its level at places; which are silent."""
    numbers = places.shape[-1]
    products = np.einsum("cpn,dpn->pcd", places, places.conj(), optimize=True) / (2 * numbers)
    energies = np.einsum("pcc->p", products).real
    if not (np.einsum("pcc->c", products).real > 0).all():
        raise InputError("a coil is silent: leave it out")
    products = products[energies > 0]
    quiet = np.argsort(energies[energies > 0])[: max(1, len(products) // 4)]
    covariance = products[quiet].mean(0)
    for _ in range(_ROUNDS):
        covariance, levels, silent = _refine(covariance, products, numbers)
    return covariance, levels, silent


def _refine(
    covariance: Complex, products: Complex, numbers: int
) -> tuple[Complex, Array, NDArray[np.bool_]]:
    """One step: which directions of each place are noise, by what is known of it; its covariance.

    Returns:
        The covariance of unit mean level, the level of each place, and which are silent.
    """
    coils = len(covariance)
    factor = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(factor)
    values, vectors = np.linalg.eigh(inverse @ products @ inverse.conj().T)
    half = max(1, coils // 2)
    levels = values[:, :half].mean(1) / _expect_smaller(coils, numbers)
    # No larger eigenvalue comes from noise alone (Marchenko and Pastur).
    edge = 1.1 * (1 + math.sqrt(coils / numbers)) ** 2
    is_noise = values <= edge * levels[:, None]
    cleaned = np.where(is_noise, values / levels[:, None], 1.0)
    # Places without any signal tell most, of others those with few directions of it.
    silent = is_noise.all(1)
    weights = is_noise.mean(1) ** 4
    if silent.sum() * numbers >= _ENOUGH * coils:
        weights = silent.astype(np.float64)
    parts = np.einsum("pck,pk,pdk,p->cd", vectors, cleaned, vectors.conj(), weights, optimize=True)
    mean = parts / weights.sum()
    return factor @ mean @ factor.conj().T, levels, silent


@cache
def _expect_smaller(coils: int, numbers: int) -> float:
    """The mean of the smaller half of the eigenvalues where the noise is white, of unit level."""
    rng = np.random.default_rng(0)
    shape = (2, max(8, 2000 // coils**2), coils, numbers)
    real, imaginary = rng.standard_normal(shape, np.float32)
    noise = real + 1j * imaginary
    values = np.linalg.eigvalsh(noise @ noise.conj().swapaxes(-1, -2) / (2 * numbers))
    return float(values[:, : max(1, coils // 2)].mean())


def _find_places(data: Complex, taken: Mask) -> tuple[Complex, str]:
    """Numbers (coils, places, numbers) that belong together by where they come from, and where."""
    least = _PER_COIL * data.shape[1]
    if taken.all():
        image = _cut_edges(_cut_edges(transform(transform(data, -2), -1), -2), -1)
        side = min(math.ceil(math.sqrt(least)), *image.shape[-2:])
        rows, columns = (extent // side for extent in image.shape[-2:])
        cut = image[..., : rows * side, : columns * side]
        blocks = cut.reshape(*data.shape[:2], rows, side, columns, side)
        return _gather(blocks.transpose(1, 0, 2, 4, 3, 5), 3), _SHARED
    for axis in (0, 1):
        along = _find_lines(data, taken, axis, cut=True)
        if along is not None:
            return _join(along, least), _SHARED
    axes = [(np.arange(side) - side // 2) / side for side in taken.shape]
    radius = np.hypot(axes[0][:, None], axes[1])
    where = taken & (radius > _MIDDLE)
    outwards = np.argsort(radius[where])
    samples = data[..., where][..., outwards]
    return _join(samples.transpose(1, 0, 2).reshape(len(samples[0]), -1, 1), least), _OUTER


def _find_lines(data: Complex, taken: Mask, axis: int, *, cut: bool = False) -> Complex | None:
    """Numbers (coils, places, numbers) by the position along lines; None where none are full.

    Lines are full where nothing was measured beyond their ends, too: echoes are asymmetric, and
    files padded. Places of all slices follow each other where the ends are cut; else slices are
    together.
    """
    ends = np.flatnonzero(taken.any(1 - axis))
    span = range(ends[0], ends[-1] + 1)
    data, taken = data.take(span, axis - 2), taken.take(span, axis)
    lines = np.asarray(taken.all(axis))
    if not np.array_equal(taken, np.broadcast_to(np.expand_dims(lines, axis), taken.shape)):
        return None
    lines &= np.abs(np.arange(len(lines)) / len(lines) - 0.5) > _MIDDLE
    if lines.sum() < 4:
        return None
    along = np.moveaxis(transform(data, axis - 2), axis - 2, -2)[..., lines]
    if cut:
        return _gather(_cut_edges(along, -2).transpose(1, 0, 2, 3), 2)
    return _gather(along.transpose(1, 2, 0, 3), 1)


def _cut_edges(image: Complex, axis: int) -> Complex:
    length = image.shape[axis]
    return image.take(range(round(_EDGE * length), length - round(_EDGE * length)), axis)


def _gather(numbers: Complex, axes: int) -> Complex:
    """Coils first, then one axis of places where there were `axes`, then one of numbers."""
    coils, *rest = numbers.shape
    return numbers.reshape(coils, math.prod(rest[:axes]), -1)


def _join(places: Complex, least: int) -> Complex:
    """Neighbours together, until there are enough numbers at a place."""
    coils, count, numbers = places.shape
    together = min(max(1, math.ceil(least / numbers)), count)
    kept = count // together
    return places[:, : kept * together].reshape(coils, kept, together * numbers)
