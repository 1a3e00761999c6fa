"""What a calibration is fitted on."""

from math import inf, nan

import pytest

from bcdm.errors import ModelError
from bcdm.reconstruction.calibrating import _tabulate


def test_tables_are_sorted_and_hold_what_could_be_scored() -> None:
    rows = [{"residual": 3.0, "typicality": 1.0}, {"residual": -1.0}, {"residual": 2.0}]
    assert _tabulate(rows) == {"residual": [-1.0, 2.0, 3.0], "typicality": [1.0]}


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_a_model_whose_scores_are_no_numbers_is_not_calibrated(value: float) -> None:
    """Among numbers that are none nothing has a rank."""
    with pytest.raises(ModelError, match=r"right measurements are not finite: residual$"):
        _tabulate([{"residual": 1.0, "typicality": 1.0}, {"residual": value}])
