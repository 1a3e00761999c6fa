"""Where a score lies among those of measurements that are right."""

from math import nan

import numpy as np
import pytest
import torch

from bcdm.checkpoint.calibration import Calibration, Typicality


@pytest.mark.parametrize(
    ("score", "tail"),
    [(0.5, 1.0), (1.0, 1.0), (1.5, 0.8), (3.0, 0.6), (4.0, 0.4), (4.5, 0.2), (nan, 0.2)],
)
def test_tails_count_the_measurement_itself(score: float, tail: float) -> None:
    """Of n right ones and itself every rank is equally likely: no tail is 0, none above 1."""
    table = [1.0, 2.0, 3.0, 4.0]
    calibration = Calibration({}, {"residual": table}, 0.0, {}, (0.0, 0.5, 1.0), "nothing")
    assert calibration.find_tails({"residual": score, "unknown": 1.0}) == {"residual": tail}


def test_tails_of_right_measurements_are_uniform() -> None:
    table = [float(k) for k in range(9)]
    calibration = Calibration({}, {"residual": table}, 0.0, {}, (0.0, 0.5, 1.0), "nothing")
    tails = [calibration.find_tails({"residual": k - 0.5})["residual"] for k in range(10)]
    assert tails == [k / 10 for k in range(10, 0, -1)]


def test_what_is_typical_is_a_distance_in_units_of_its_spread() -> None:
    """Of normal numbers with any covariance the mean squared distance is 1 a number."""
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    numbers = torch.from_numpy(rng.standard_normal((4000, 3)) @ mixing + [1, 2, 3])
    found = Typicality.fit(numbers)
    assert float(found.find_distance(numbers).mean()) == pytest.approx(1, rel=1e-2)
    far = numbers.mean(0) + torch.from_numpy(np.array([[2.0, 0, 0]]) @ mixing)
    assert float(found.find_distance(far)) == pytest.approx(4 / 3, rel=0.1)
    again = Typicality.from_plain(found.to_plain())
    assert torch.equal(again.find_distance(far), found.find_distance(far))
