"""Noise of k-space, from what the object cannot be the cause of."""

from dataclasses import replace
from math import ceil, hypot, isfinite

import numpy as np
from numpy.typing import ArrayLike

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.noise.estimate import NoiseEstimate, choose
from bcdm.noise.floor import Array, fit_decaying_floor, fit_floor
from bcdm.noise.image import estimate_from_image
from bcdm.noise.symmetry import Complex, Mask, estimate_from_symmetry, find_angle

__all__ = ["check_kspace", "estimate_from_k_space", "find_phase", "transform", "transform_back"]

_FEWEST_ENERGIES = 16
_ENERGIES = 500  # of outer k-space, about: more take longer and tell no more
_SQUARES = 16  # in an energy of outer k-space, at least
_OUTER = 0.12  # cycles per pixel: below it spectra do not follow a power of the frequency
_EDGES = (1 / 16, 1 / 8)  # of a side, at each end, may lie in the receiver's filter
_QUIETER = 0.15  # than the rest, and the ends are taken as filtered
_DOUBT = 2.0  # standard errors
_FURTHER = 2.5  # times as much noise, beyond which a wider cut has reached the object
_VAGUE = 0.25  # of the noise level: an error beyond which the floor may as well be signal


def estimate_from_k_space(kspace: ArrayLike, mask: ArrayLike | None = None) -> NoiseEstimate:
    """Estimates white noise of one level from Cartesian k-space itself.

    Three sources: the first if it serves, else the better of the others.

    - symmetry: opposite frequencies of a real object, or after a rotation of one of constant phase,
      are conjugate, so their difference is noise; used if the difference is as small where the
      signal is strong as where it is weak;
    - air: where rows or columns or both are fully sampled, the part of the image, or of its lines,
      that holds no object;
    - outer k-space: a floor under the decay of the spectrum.

    Symmetry is as good at every noise level. Air needs some empty rows, or flat parts. Outer
    k-space needs noise that is stronger there than the signal: else the result is too high.

    Args:
        kspace: Complex (slices, coils, rows, columns) with the origin in the middle, in one unit
            and of one noise level: prewhiten coils that differ, see `estimate_from_noise_scan`.
        mask: True where it was measured, (rows, columns). Left out: where anything is not zero.

    >>> noise = np.random.default_rng(0).normal(size=(2, 1, 1, 64, 64))
    >>> round(estimate_from_k_space(noise[0] + 1j * noise[1]).std, 1)
    1.0
    """
    data, taken = check_kspace(kspace, mask)
    symmetry = estimate_from_symmetry(data, taken)
    if symmetry is None:
        angle = find_angle(data, taken)
        if angle is not None and isfinite(angle):
            symmetry = estimate_from_symmetry(data * np.exp(-1j * angle), taken)
    if symmetry is not None:
        return symmetry
    air, outskirts = (find(data, taken) for find in (_estimate_from_air, _estimate_from_outskirts))
    return choose(
        [air, outskirts],
        "the signal hides the noise of the measured k-space (has its image a phase?)",
    )


def _estimate_from_air(data: Complex, taken: Mask) -> NoiseEstimate | None:
    """The flattest part of the image, or of lines that were sampled fully along one axis.

    A receiver's filter may take the noise away at the ends of the readout. Where they are much
    quieter than the rest, they are left out, and what lies beside them, too, unless that leaves
    little but the object.
    """
    whole, inner = (_estimate_from_positions(data, taken, edge) for edge in (0.0, _EDGES[0]))
    if whole is None or inner is None:
        return whole
    doubt = _DOUBT * hypot(whole.standard_error, inner.standard_error)
    if inner.std - whole.std <= max(doubt, _QUIETER * inner.std):
        return whole
    further = _estimate_from_positions(data, taken, _EDGES[1])
    if further is None or not inner.std < further.std < _FURTHER * inner.std:
        return inner
    return further


def _estimate_from_positions(data: Complex, taken: Mask, edge: float) -> NoiseEstimate | None:
    if taken.all():
        image = _cut_edges(transform(transform(data, -2), -1), (-2, -1), edge)
        planes = np.stack([image.real, image.imag], 2).reshape(-1, 2, *image.shape[-2:])
        try:
            return replace(estimate_from_image(planes), source="flat parts and air of the image")
        except InputError:
            return None
    for axis in (0, 1):
        lines = np.asarray(taken.all(axis))
        if not np.array_equal(taken, np.broadcast_to(np.expand_dims(lines, axis), taken.shape)):
            continue
        # A constant background is not zero in the line through the origin.
        lines[len(lines) // 2] = False
        if lines.sum() >= 2:
            along = _cut_edges(transform(data, axis - 2), (axis - 2,), edge)
            profile = np.moveaxis(along, axis - 2, -2)[..., lines]
            return _estimate_from_profile(np.abs(profile) ** 2 / 2)
    return None


def _cut_edges(image: Complex, axes: tuple[int, ...], edge: float) -> Complex:
    for axis in axes:
        length = image.shape[axis]
        image = image.take(range(round(edge * length), length - round(edge * length)), axis)
    return image


def _estimate_from_profile(power: Array) -> NoiseEstimate | None:
    """The floor of the positions along fully sampled lines; power (..., positions, lines)."""
    dof = 2 * power.shape[-1]
    energies = power.mean(-1).reshape(-1, power.shape[-2])
    plane, position = np.indices(energies.shape)
    used = energies > 0
    if used.sum() < _FEWEST_ENERGIES:
        return None
    floor = fit_floor(energies[used], dof, (plane + position // 4)[used] % 64)
    std, error, samples = floor.estimate
    return NoiseEstimate(std, error, "air beyond the object", samples)


def _estimate_from_outskirts(data: Complex, taken: Mask) -> NoiseEstimate | None:
    """The floor under the decay of the spectrum."""
    axes = [(np.arange(side) - side // 2) / side for side in taken.shape]
    radius = np.hypot(axes[0][:, None], axes[1])
    where = taken & (radius > _OUTER)
    angle = np.arctan2(axes[0][:, None], axes[1])[where] % np.pi
    radius = radius[where]
    if len(radius) < _FEWEST_ENERGIES:
        return None
    power = (np.abs(data[..., where]) ** 2 / 2).reshape(-1, len(radius))
    # Neighbours on an annulus share a spectrum, so they may share an energy.
    share = max(ceil(_SQUARES / (2 * len(power))), len(radius) // _ENERGIES)
    order = np.lexsort((angle, np.round(radius * 24)))[::-1]
    order = order[: len(order) // share * share].reshape(-1, share)
    energies = power.mean(0)[order].mean(1)
    used = energies > 0
    if used.sum() < _FEWEST_ENERGIES:
        return None
    dof = 2 * len(power) * share
    floor = fit_decaying_floor(energies[used], dof, radius[order].mean(1)[used])
    if floor.error / 2 > _VAGUE:
        return None
    std, error, samples = floor.estimate
    return NoiseEstimate(std, error, "outer k-space", samples)


def find_phase(kspace: ArrayLike, mask: ArrayLike | None = None) -> float | None:
    """The phase of the image behind k-space, in radians; nan if it varies, None if there is none.

    Args:
        kspace: As in `estimate_from_k_space`.
        mask: As there.

    >>> image = np.outer(np.hanning(32), np.hanning(32))
    >>> kspace = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(image)))[None, None]
    >>> print(find_phase(kspace), round(find_phase(1j * kspace), 4))
    None 1.5708
    """
    return find_angle(*check_kspace(kspace, mask))


def transform(data: Complex, axis: int) -> Complex:
    """From frequency to position along one axis, both centred."""
    inner = np.fft.ifftshift(data, axis)
    return np.asarray(np.fft.fftshift(np.fft.ifft(inner, axis=axis, norm="ortho"), axis))


def transform_back(data: Complex, axis: int) -> Complex:
    """From position to frequency along one axis, both centred."""
    inner = np.fft.ifftshift(data, axis)
    return np.asarray(np.fft.fftshift(np.fft.fft(inner, axis=axis, norm="ortho"), axis))


def check_kspace(kspace: ArrayLike, mask: ArrayLike | None) -> tuple[Complex, Mask]:
    """K-space as complex128, zero where it was not measured, and where it was."""
    data = np.asarray(kspace)
    if data.ndim != 4:
        raise ShapeError(f"give k-space (slices, coils, rows, columns), got {data.shape}")
    if not np.iscomplexobj(data):
        raise DtypeError(f"k-space is complex, got {data.dtype}: join real and imaginary part")
    taken = np.asarray(data.any((0, 1)) if mask is None else mask, bool)
    # A zero or two in full data were measured.
    taken = taken | (mask is None and taken.size > 0 and taken.mean() > 0.999)
    if taken.shape != data.shape[-2:]:
        raise ShapeError(
            f"mask {taken.shape} does not fit k-space {data.shape}: give (rows, columns)"
        )
    if not np.isfinite(data[..., taken]).all():
        raise InputError("k-space holds non-finite values: leave them out of the mask")
    return np.where(taken, data, 0).astype(np.complex128), taken
