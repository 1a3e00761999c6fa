"""Noise of k-space, from what the object cannot be the cause of."""

from dataclasses import replace
from math import ceil, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.noise.estimate import NoiseEstimate, choose
from bcdm.noise.floor import Array, fit_decaying_floor, fit_floor
from bcdm.noise.image import estimate_from_image

__all__ = ["estimate_from_k_space"]

Complex = NDArray[np.complex128]
Mask = NDArray[np.bool_]

_FEWEST_PAIRS = 32
_FEWEST_ENERGIES = 16
_ENERGIES = 500  # of outer k-space, about: more take longer and tell no more
_SQUARES = 16  # in an energy of outer k-space, at least
_OUTER = 0.12  # cycles per pixel: below it spectra do not follow a power of the frequency
_ROUNDING = 3e-7  # of the strongest signal, in single precision
_DOUBT = 3.0  # standard errors
_VAGUE = 0.25  # of the noise level: an error beyond which the floor may as well be signal


def estimate_from_k_space(kspace: ArrayLike, mask: ArrayLike | None = None) -> NoiseEstimate:
    """Estimates white noise of one level from Cartesian k-space itself.

    Three sources: the first if it serves, else the better of the others.

    - symmetry: opposite frequencies of a real object are conjugate, so their difference is noise;
      used if the difference is as small where the signal is strong as where it is weak;
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
    data, taken = _check(kspace, mask)
    symmetry = _estimate_from_symmetry(*_fold(data, taken))
    if symmetry is not None:
        return symmetry
    air, outskirts = (find(data, taken) for find in (_estimate_from_air, _estimate_from_outskirts))
    return choose(
        [air, outskirts],
        "the signal hides the noise of the measured k-space (has its image a phase?)",
    )


def _fold(data: Complex, taken: Mask) -> tuple[Complex, Complex]:
    r"""Parts of opposite frequencies that a real object has and has not, (planes, pairs) each.

    $$ k_\pm(f) = \bigl(k(f) \pm \overline{k(-f)}\bigr) / \sqrt 2 $$

    Each has the noise of the data. Frequencies that are their own opposite are left out.
    """
    rows, columns = taken.shape
    row, column = np.indices(taken.shape)
    here = row * columns + column
    there = (2 * (rows // 2) - row) % rows * columns + (2 * (columns // 2) - column) % columns
    pairs = taken & taken.ravel()[there] & (here < there)
    flat = data.reshape(-1, rows * columns)
    first, second = flat[:, here[pairs]], flat[:, there[pairs]].conj()
    return (first + second) / sqrt(2), (first - second) / sqrt(2)


def _estimate_from_symmetry(even: Complex, odd: Complex) -> NoiseEstimate | None:
    """The root mean square of what a real object has not, if the object is real."""
    signal, rest = (np.abs(part).ravel() ** 2 for part in (even, odd))
    if len(rest) < _FEWEST_PAIRS:
        return None
    if rest.mean() <= _ROUNDING**2 * signal.max():
        raise InputError("opposite frequencies are copies, no noise is seen: give noise_std")
    # An object that is not quite real leaks most where it is strongest.
    strong = np.zeros(len(rest), bool)
    strong[np.argsort(signal)[-(len(rest) // 8) :]] = True
    counts = strong.sum(), (~strong).sum()
    excess = np.log(rest[strong].mean() / rest[~strong].mean())
    if excess > _DOUBT * sqrt(1 / counts[0] + 1 / counts[1]):
        return None
    samples = 2 * len(rest)
    std = sqrt(rest.mean() / 2)
    return NoiseEstimate(std, std / sqrt(2 * samples), "symmetry of k-space", samples)


def _estimate_from_air(data: Complex, taken: Mask) -> NoiseEstimate | None:
    """The flattest part of the image, or of lines that were sampled fully along one axis."""
    if taken.all():
        image = _transform(_transform(data, -2), -1)
        planes = np.stack([image.real, image.imag], 2).reshape(-1, 2, *taken.shape)
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
            profile = np.moveaxis(_transform(data, axis - 2), axis - 2, -2)[..., lines]
            return _estimate_from_profile(np.abs(profile) ** 2 / 2)
    return None


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


def _transform(data: Complex, axis: int) -> Complex:
    """From frequency to position along one axis, both centred."""
    inner = np.fft.ifftshift(data, axis)
    return np.asarray(np.fft.fftshift(np.fft.ifft(inner, axis=axis, norm="ortho"), axis))


def _check(kspace: ArrayLike, mask: ArrayLike | None) -> tuple[Complex, Mask]:
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
