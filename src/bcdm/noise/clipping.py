r"""Noise of a ground that lies at the bound of the values, where half of it is cut off.

Noise about a bound $b$ that values cannot pass leaves $y - b = \max(n, 0)$, so that

$$ 2 \, E[(y - b)^2] = \sigma_0^2, \qquad P(y = b) = \tfrac12. $$

Values on a grid of step $\Delta$ add $\Delta^2 / 12$ to the first and reach the bound up to
$n < \Delta / 2$. Both must hold, and clipped pixels must lie about at random: a ground that was
painted or padded is constant, and tells nothing.
"""

from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bcdm.noise.estimate import NoiseEstimate
from bcdm.noise.floor import Array, fit_floor

__all__ = ["estimate_from_clipped_ground", "find_repeated", "find_step"]

_SIDE = 6
_TILE = 16
_FEWEST = 200  # windows
_SLACK = 0.06  # of the fractions that must hold


def estimate_from_clipped_ground(
    pixels: Array, seen: NDArray[np.bool_], bound: float, step: float
) -> NoiseEstimate | None:
    """Estimates the noise of a ground at a bound; None if there is none of that kind.

    Args:
        pixels: (slices, channels, rows, columns).
        seen: True for known pixels, of that shape.
        bound: The least or greatest value.
        step: Of the grid of values, 0 without one.
    """
    if min(pixels.shape[-2:]) < _SIDE:
        return None
    cut = sliding_window_view(np.where(seen, pixels, np.nan), (_SIDE, _SIDE), (-2, -1))
    cut = cut[:, :, ::2, ::2]
    at_bound = (cut == bound).mean((-2, -1))
    # A window is of the ground if a good part of it, and not all, is clipped.
    places = np.nonzero((at_bound > 0.2) & (at_bound < 0.95) & ~np.isnan(cut).any((-2, -1)))
    if len(places[0]) < _FEWEST:
        return None
    windows = cut[places]
    energies = 2 * ((windows - bound) ** 2).mean((-2, -1))
    # The law of squares of half a normal: five times the spread of a mean, not twice.
    dof = _SIDE**2 * 2 / 5
    tiles = places[0] + 7 * places[1] + 31 * (2 * places[2] // _TILE) + 2 * places[3] // _TILE
    floor = fit_floor(energies, dof, tiles % 64, overlap=_SIDE**2 / 4)
    if not _is_random(windows[energies < 2 * floor.variance] == bound, floor.variance, step):
        return None
    std, error, samples = floor.estimate
    return NoiseEstimate(std, error, "clipped ground of the image", samples)


def _is_random(clipped: NDArray[np.bool_], variance: float, step: float) -> bool:
    """Whether as many pixels (windows, side, side) are clipped as should, and independently."""
    own = max(variance - step**2 / 12, 1e-4 * variance)
    expected = NormalDist().cdf(step / 2 / sqrt(own))
    share = float(clipped.mean())
    pairs = float((clipped[..., 1:] & clipped[..., :-1]).mean())
    return abs(share - expected) < _SLACK and abs(pairs - share**2) < _SLACK


def find_repeated(values: Array, step: float) -> Array:
    """Values that many pixels have exactly: measured values never do, but clipped or painted ones.

    On a grid all values repeat: there the least and the greatest alone are given.

    >>> find_repeated(np.array([0.0] * 9 + [0.3, 0.5, 0.1]), 0)
    array([0.])
    """
    distinct, counts = np.unique(values, return_counts=True)
    if step > 0:
        distinct, counts = distinct[[0, -1]], counts[[0, -1]]
    return distinct[counts >= max(8, len(values) // 1000)]


def find_step(values: Array) -> float:
    """The step of values on a grid, 0 without one.

    >>> find_step(np.arange(40) % 7 * 0.5)
    0.5
    """
    distinct = np.unique(values)
    if len(distinct) < 3 or len(distinct) > len(values) / 4:
        return 0.0
    gaps = np.diff(distinct)
    step = float(gaps.min())
    small = gaps[gaps < 8.5 * step] / step
    return step if bool((abs(small - small.round()) < 0.02).all()) else 0.0
