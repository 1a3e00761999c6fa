"""k-space masks as scanners take them: no frequency knows of its mirror image.

Each is a boolean tensor (H, W) with its origin in the middle, a function of its seed.
"""

import math
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bcdm.errors import InputError
from bcdm.problems.patterns import Seed

__all__ = ["draw_equispaced", "draw_poisson_disc", "draw_random_lines"]

Flags = NDArray[np.bool_]

# Samples per squared radius where random throws leave no more room.
_FILLING = 0.59
_INNER = 0.5  # radius of a disc at the origin, in frequencies
_SURPLUS = 1.04  # thrown beyond what is wanted, and then dropped
_TIGHTER = 0.93  # of the slope, where a throw gave too little


def draw_random_lines(
    size: tuple[int, int], acceleration: float, *, centre: float, seed: Seed, rows: bool = False
) -> Tensor:
    """Whole lines: the middle ones, and others uniformly at random, as fastMRI draws them.

    fastMRI tosses a coin for each line, so that their number varies; here it is exactly
    `lines / acceleration`. Given the number, the laws are the same.

    Args:
        size: Rows and columns.
        acceleration: All lines over those measured.
        centre: The fully sampled middle, as a fraction of all lines.
        seed: Of the draw.
        rows: The lines are rows; columns otherwise.
    """
    lines, count = _take_centre(size, acceleration, centre, rows)
    others = np.flatnonzero(~lines)
    rng = np.random.default_rng(seed)
    lines[rng.choice(others, count - int(lines.sum()), replace=False)] = True
    return _spread(lines, size, rows)


def draw_equispaced(
    size: tuple[int, int], acceleration: float, *, centre: float, seed: Seed, rows: bool = False
) -> Tensor:
    """Whole lines: the middle ones, and others at equal distances from a drawn first one.

    The distance is what brings all of them to `lines / acceleration`; it need not be an integer,
    and lines that fall into the middle are there already.

    Args:
        size: Rows and columns.
        acceleration: All lines over those measured.
        centre: The fully sampled middle, as a fraction of all lines.
        seed: Of the draw.
        rows: The lines are rows; columns otherwise.
    """
    lines, count = _take_centre(size, acceleration, centre, rows)
    missing = count - int(lines.sum())
    if missing:
        spacing = (~lines).sum() / missing
        first = np.random.default_rng(seed).uniform(0, spacing)
        places = np.floor(np.arange(first, len(lines), spacing)).astype(int)
        lines[places] = True
    return _spread(lines, size, rows)


def draw_poisson_disc(
    size: tuple[int, int], acceleration: float, *, centre: float, seed: Seed
) -> Tensor:
    r"""Single frequencies that keep a distance which grows from the middle outwards.

    Frequencies are tried in a random order; each one taken closes a disc of radius
    $1/2 + s \lvert k \rvert$ around it, with $k$ in units of half a side: up to a radius of 1 a
    disc closes nothing else. The slope $s$ is what brings the number to `H * W / acceleration`,
    which is met exactly.

    Args:
        size: Rows and columns.
        acceleration: All frequencies over those measured.
        centre: Side of the fully sampled middle, as a fraction of each side.
        seed: Of the draw.
    """
    count = round(size[0] * size[1] / acceleration)
    middle = np.outer(*(_mark_middle(side, round(centre * side)) for side in size))
    if middle.sum() > count:
        raise InputError(f"the centre alone holds {middle.sum()} of {count} samples: shrink it")
    rng = np.random.default_rng(seed)
    order = rng.permutation(size[0] * size[1])
    slope = _find_slope(size, min(count * _SURPLUS, size[0] * size[1]), int(middle.sum()))
    taken = _throw(middle, slope, order)
    while taken.sum() < count:
        slope *= _TIGHTER
        taken = _throw(middle, slope, order)
    spare = np.flatnonzero(taken & ~middle)
    taken.flat[rng.choice(spare, int(taken.sum()) - count, replace=False)] = False
    return torch.from_numpy(taken)


def _take_centre(
    size: tuple[int, int], acceleration: float, centre: float, rows: bool
) -> tuple[Flags, int]:
    """Flags of lines with the middle taken, and how many are to be taken in all."""
    whole = size[0] if rows else size[1]
    count = max(1, round(whole / acceleration))
    lines = _mark_middle(whole, max(1, round(centre * whole)))
    if lines.sum() > count:
        raise InputError(f"the centre alone holds {lines.sum()} of {count} lines: shrink it")
    return lines, count


def _mark_middle(side: int, count: int) -> Flags:
    """Flags of the `count` places around the origin, which is at side // 2."""
    flags = np.zeros(side, bool)
    first = side // 2 - count // 2
    flags[first : first + count] = True
    return flags


def _spread(lines: Flags, size: tuple[int, int], rows: bool) -> Tensor:
    whole = np.broadcast_to(lines[:, None] if rows else lines, size)
    return torch.from_numpy(np.ascontiguousarray(whole))


def _measure_distance(size: tuple[int, int]) -> NDArray[np.float64]:
    """Of each frequency from the origin, 1 at the middle of a border."""
    row, column = ((np.arange(side) - side // 2) / (side / 2) for side in size)
    return np.hypot(row[:, None], column)


@lru_cache(maxsize=4096)
def _find_slope(size: tuple[int, int], count: float, middle: int) -> float:
    """The slope whose discs leave room for about `count` frequencies."""
    distance = _measure_distance(size)
    low, high = 0.0, float(max(size))
    for _ in range(20):
        slope = (low + high) / 2
        room = np.minimum(1, _FILLING / (_INNER + slope * distance) ** 2).sum()
        low, high = (slope, high) if room > count - middle / 2 else (low, slope)
    return low


def _throw(middle: Flags, slope: float, order: NDArray[np.int64]) -> Flags:
    """Takes frequencies in this order, each unless an earlier one closed its place."""
    rows, columns = middle.shape
    radius = _INNER + slope * _measure_distance((rows, columns))
    # Radii by squared distances that a grid has: as many stamps as are needed, a few dozen.
    squares = np.ceil(radius**2).astype(int)
    reach = math.isqrt(int(squares.max())) + 1
    grid = np.arange(-reach, reach + 1) ** 2
    away = grid[:, None] + grid
    stamps = {int(s): away < s for s in np.unique(squares)}
    closed = np.zeros((rows + 2 * reach, columns + 2 * reach), bool)
    taken = middle.copy()
    width, side, flat = columns, 2 * reach + 1, squares.ravel().tolist()
    closed[reach : reach + rows, reach : reach + columns] = middle
    for place in order.tolist():
        row, column = divmod(place, width)
        if not closed[row + reach, column + reach]:
            taken[row, column] = True
            closed[row : row + side, column : column + side] |= stamps[flat[place]]
    return taken
