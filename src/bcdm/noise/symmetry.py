"""Opposite frequencies: those of a real object are conjugate, so their difference is noise."""

from math import pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bcdm.errors import InputError
from bcdm.noise.estimate import NoiseEstimate
from bcdm.noise.floor import Array

__all__ = ["Complex", "Mask", "estimate_from_symmetry", "find_angle"]

Complex = NDArray[np.complex128]
Mask = NDArray[np.bool_]

_FEWEST_PAIRS = 32
_ROUNDING = 3e-7  # of the strongest signal, in single precision
_DOUBT = 3.0  # standard errors
_CERTAIN = 5.0  # standard errors
_TRACE = 1e-3  # of the energy: a phase of two degrees, below which an image is as good as real


class _Pairs(NamedTuple):
    """Opposite frequencies, those nearest to the origin first.

    Attributes:
        first: Measured at a frequency, (planes, pairs).
        second: Measured at its opposite, and conjugated.
    """

    first: Complex
    second: Complex

    @property
    def inner(self) -> int:
        """How many pairs lie near the origin, where every object is strong."""
        return self.first.shape[1] // 8

    @property
    def energies(self) -> tuple[Array, Array]:
        r"""Of the parts that a real object has and has not, (planes, pairs) each.

        $$ |k_\pm(f)|^2 = \bigl|k(f) \pm \overline{k(-f)}\bigr|^2 / 2 $$

        Each part has the noise of the data.
        """
        even, odd = self.first + self.second, self.first - self.second
        return np.abs(even) ** 2 / 2, np.abs(odd) ** 2 / 2

    def rotate(self, angle: float) -> "_Pairs":
        """Those of the image with its phase turned back by an angle."""
        turn = np.exp(-1j * angle)
        return _Pairs(self.first * turn, self.second * np.conj(turn))


def _find_pairs(data: Complex, taken: Mask) -> _Pairs:
    """All pairs that were measured; frequencies that are their own opposite are left out."""
    rows, columns = taken.shape
    row, column = np.indices(taken.shape)
    here = row * columns + column
    there = (2 * (rows // 2) - row) % rows * columns + (2 * (columns // 2) - column) % columns
    pairs = taken & taken.ravel()[there] & (here < there)
    distance = np.hypot((row - rows // 2) / rows, (column - columns // 2) / columns)[pairs]
    order = np.argsort(distance, kind="stable")
    flat = data.reshape(-1, rows * columns)
    return _Pairs(flat[:, here[pairs][order]], flat[:, there[pairs][order]].conj())


def estimate_from_symmetry(data: Complex, taken: Mask) -> NoiseEstimate | None:
    """The root mean square of what a real object has not, if the object is real."""
    pairs = _find_pairs(data, taken)
    signal, rest = pairs.energies
    if rest.size < _FEWEST_PAIRS:
        return None
    if rest.mean() <= _ROUNDING**2 * signal.max():
        raise InputError(
            "opposite frequencies are copies, no noise is seen: give noise_std (--noise-std)"
        )
    # An object that is not quite real leaks most where it is strongest. One that is not real at
    # all leaks all of itself, and is then strongest near the origin.
    strong = np.zeros(rest.size, bool)
    strong[np.argsort(signal.ravel())[-(rest.size // 8) :]] = True
    near = np.zeros(rest.shape, bool)
    near[:, : pairs.inner] = True
    for chosen in (strong, near.ravel()):
        if bool(chosen.any()) and _exceeds(rest.ravel()[chosen], rest.ravel()[~chosen], _DOUBT):
            return None
    samples = 2 * rest.size
    std = sqrt(rest.mean() / 2)
    return NoiseEstimate(std, std / sqrt(2 * samples), "symmetry of k-space", samples)


def _exceeds(some: Array, others: Array, doubt: float) -> bool:
    """Whether energies, each of two squares, are larger than others by more than chance."""
    error = sqrt(1 / some.size + 1 / others.size)
    return float(np.log(max(some.mean(), 1e-300) / max(others.mean(), 1e-300))) > doubt * error


def find_angle(data: Complex, taken: Mask) -> float | None:
    """The phase of the image in radians; nan if it varies.

    Opposite frequencies of an image of constant phase are conjugate after a rotation. An image
    counts as real where its phase is too small to be seen or to matter, and where too few pairs of
    opposite frequencies were measured to tell. The sign of an image is not told.

    Returns:
        None if the image is real.
    """
    pairs = _find_pairs(data, taken)
    if pairs.inner < _FEWEST_PAIRS // 8 or not _has_phase(pairs):
        return None
    # Of opposite frequencies of x exp(i angle), the product is |X|^2 exp(2 i angle).
    angle = float(np.angle((pairs.first * pairs.second.conj())[:, : pairs.inner].sum())) / 2
    middle = data[..., data.shape[-2] // 2, data.shape[-1] // 2].sum()
    if (middle * np.exp(-1j * angle)).real < 0:
        angle = angle - pi if angle > 0 else angle + pi
    return float("nan") if _has_phase(pairs.rotate(angle)) else angle


def _has_phase(pairs: _Pairs) -> bool:
    """Whether what a real object has not is signal near the origin, in any plane."""
    for even, odd in zip(*pairs.energies, strict=True):
        near, far, own = odd[: pairs.inner], odd[pairs.inner :], even[: pairs.inner]
        excess = near.mean() - far.mean()
        share = _TRACE * (own.mean() + near.mean() - 2 * far.mean())
        if excess > max(share, 0.0) and _exceeds(near, far, _CERTAIN):
            return True
    return False
