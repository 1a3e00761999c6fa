"""Where a score lies among those of measurements that are right."""

from math import nan

import pytest

from bcdm.checkpoint.calibration import Calibration


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
