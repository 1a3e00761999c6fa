"""Confidence intervals by resampling."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from bcdm.evaluation import wilson

__all__ = ["bootstrap", "bootstrap_rate"]

FEWEST = 5  # values or groups: resampling fewer gives intervals that are far too short


def bootstrap(
    values: ArrayLike,
    over: ArrayLike | None = None,
    *,
    groups: Sequence[str] | None = None,
    statistic: Callable[..., np.ndarray] = np.mean,
) -> tuple[float, float] | None:
    """The 95 % interval of a statistic, or of its ratio over that of paired values.

    Args:
        values: (n,) numbers.
        over: (n,) paired numbers of the ratio's denominator.
        groups: Which numbers belong together (one subject's images): whole groups are resampled.
        statistic: Taken over the last axis; `np.mean` or `np.median`.

    Returns:
        The interval; None where a value is not finite, or fewer than five values or groups are
        given.
    """
    numbers = np.asarray(values, np.float64)
    below = None if over is None else np.asarray(over, np.float64)
    if not np.isfinite(numbers).all() or (below is not None and not np.isfinite(below).all()):
        return None
    if len(numbers if groups is None else set(groups)) < FEWEST:
        return None
    rng = np.random.default_rng(0)
    if groups is not None:
        names = np.array(groups)
        members = [np.flatnonzero(names == name) for name in np.unique(names)]
        drawn = rng.integers(0, len(members), (1000, len(members)))
        rows = [np.concatenate([members[k] for k in draw]) for draw in drawn]
        results = np.array([statistic(numbers[row]) for row in rows])
        if below is not None:
            results = results / np.array([statistic(below[row]) for row in rows])
    else:
        index = rng.integers(0, len(numbers), (1000, len(numbers)))
        results = statistic(numbers[index], axis=1)
        if below is not None:
            results = results / statistic(below[index], axis=1)
    low, high = np.quantile(results, [0.025, 0.975])
    return float(low), float(high)


def bootstrap_rate(
    holds: ArrayLike, *, groups: Sequence[str] | None = None
) -> tuple[float, float] | None:
    """The 95 % interval of how often something holds.

    Where it always or never does, resampling would say that this is certain: Wilson's interval
    then, of as many cases as there are groups.

    >>> bootstrap_rate([1, 1, 1, 1])[0] < 0.6
    True
    """
    values = np.asarray(holds, np.float64)
    rate = float(values.mean())
    if rate not in (0.0, 1.0):
        return bootstrap(values, groups=groups)
    return wilson(rate, len(values) if groups is None else len(set(groups)))
