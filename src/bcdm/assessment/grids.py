"""Weights that are tuned: a best one at the end of its grid is no best one."""

import math
from collections.abc import Callable, Sequence

__all__ = ["MORE", "search_grid"]

MORE = 8  # weights that a grid may go on by


def search_grid(
    grid: Sequence[float], find_cost: Callable[[float], float], more: int = MORE
) -> dict[float, float]:
    """The cost of each weight; a grid goes on beyond its end while the best one lies there.

    A single weight was chosen by someone, and stays. Where no cost is finite, there is no best one.

    Args:
        grid: Weights > 0, about equal ratios apart.
        find_cost: Of one weight; it need not be finite.
        more: At most so many weights are added.

    Returns:
        Costs by weight, in ascending order of the weights.

    >>> costs = search_grid([1, 2, 4], lambda weight: abs(weight - 15))
    >>> min(costs, key=costs.get), max(costs)
    (16.0, 32.0)
    """
    costs = {float(weight): find_cost(weight) for weight in sorted(set(grid))}
    for _ in range(more if len(costs) > 1 else 0):
        weights = sorted(costs)
        best = min(weights, key=costs.__getitem__)
        if not math.isfinite(costs[best]):
            break
        if best == weights[0]:
            beyond = weights[0] ** 2 / weights[1]
        elif best == weights[-1]:
            beyond = weights[-1] ** 2 / weights[-2]
        else:
            break
        costs[beyond] = find_cost(beyond)
    return {weight: costs[weight] for weight in sorted(costs)}
