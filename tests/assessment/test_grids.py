"""Grids of weights go on until the best one lies inside."""

import math

import pytest

from bcdm.assessment.grids import MORE, search_grid


@pytest.mark.parametrize("lowest", [1e-3, 0.9, 3.0, 700.0])
def test_the_best_lies_inside(lowest: float) -> None:
    costs = search_grid([0.3, 3.0, 1.0], lambda weight: abs(math.log(weight / lowest)))
    best = min(costs, key=costs.__getitem__)
    assert min(costs) < best < max(costs)
    assert abs(math.log(best / lowest)) <= 0.61  # half of a step, a ratio of 3.3
    assert list(costs) == sorted(costs)


def test_a_grid_ends_somewhere_and_one_weight_stays() -> None:
    assert len(search_grid([1, 2], lambda weight: -weight)) == 2 + MORE
    assert search_grid([7], lambda weight: -weight) == {7.0: -7.0}
    # Where all chains leave the numbers, there is nothing to follow.
    assert len(search_grid([1, 2, 4], lambda _: math.inf)) == 3
