"""The exam on mixtures: rivals are tuned until no best weight lies at an end of its grid."""

import math

import numpy as np
import pytest

from bcdm.assessment.grids import MORE
from bcdm.benchmark.instances import FULL_CASES, load_instances, make_instances
from bcdm.benchmark.mixture import SOLVERS, Contestant, _Bench


class Bowl(_Bench):
    """Distances that are least at a weight of 20, or fall for ever."""

    lowest = 20.0

    def score(self, method, *_, **__):  # type: ignore[no-untyped-def]
        return np.array([abs(math.log(method / self.lowest))])


def tune(bowl: _Bench, weights: tuple[float, ...]) -> tuple[float | None, tuple[float, ...]]:
    one = Contestant("one", lambda _, weight: weight, weights)
    found = bowl.tune(one, SOLVERS, weights, [], [])
    return found.weight, found.grid


@pytest.mark.parametrize("weights", [(0.5, 1.0, 2.0), (256.0, 64.0, 512.0), (8.0, 16.0, 32.0)])
def test_grids_go_on_until_the_best_weight_lies_inside(weights: tuple[float, ...]) -> None:
    weight, grid = tune(Bowl(None), weights)  # type: ignore[arg-type]
    assert weight == pytest.approx(16.0)
    assert grid[0] < 16 < grid[-1]
    assert set(weights) <= set(grid)


def test_grids_end_somewhere() -> None:
    class Slope(Bowl):
        lowest = 1e9

    weight, grid = tune(Slope(None), (1.0, 2.0))  # type: ignore[arg-type]
    assert len(grid) == 2 + MORE
    assert weight == grid[-1] == 2.0 ** (1 + MORE)
    assert tune(Slope(None), (3.0,)) == (3.0, (3.0,))  # type: ignore[arg-type]


def test_shipped_instances_are_those_of_their_law() -> None:
    drawn = make_instances()
    for dimension, measured in FULL_CASES:
        for k, one in enumerate(load_instances(dimension, measured)):
            name = f"{dimension}/{measured}"
            assert np.allclose(one.matrix, drawn[f"{name}/matrix"][k])
            assert one.noise_std == pytest.approx(drawn[f"{name}/noise_std"][k])
