"""What a report refuses, with a word on what to change."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.report.content import Interval
from bcdm.report.html import Check, Curve, Report, Slice, Trust

LINE = np.linspace(0, 1, 4)


@pytest.mark.parametrize("name", ["linear", "mean", "std", "samples", "reference"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_slice_refuses_what_is_not_finite(
    make_slice: Callable[..., Slice], name: str, value: float
) -> None:
    array = np.array(getattr(make_slice(), name))
    array.flat[3] = value
    with pytest.raises(InputError, match=f"{name} holds nan or infinity"):
        make_slice(**{name: array})


@pytest.mark.parametrize(
    "changes",
    [
        {"mean": np.zeros(5)},
        {"mean": np.zeros((24, 20, 4))},
        {"mean": np.zeros((0, 20))},
        {"linear": np.zeros((20, 24))},
        {"std": np.zeros((24, 20, 3))},
        {"samples": np.zeros((24, 20))},
        {"samples": np.zeros((0, 24, 20))},
        {"interval": Interval(np.zeros((20, 24)), np.zeros((24, 20)), 0.8)},
        {"interval": Interval(np.zeros((24, 20)), np.zeros((20, 24)), 0.8)},
        {"operator": np.zeros((2, 3, 3))},
    ],
)
def test_a_slice_refuses_shapes_that_do_not_fit(
    make_slice: Callable[..., Slice], changes: dict[str, Any]
) -> None:
    with pytest.raises(ShapeError, match="slice 0"):
        make_slice(**changes)


def test_a_slice_refuses_complex_values_and_negative_deviations(
    make_slice: Callable[..., Slice],
) -> None:
    with pytest.raises(DtypeError, match="magnitude"):
        make_slice(linear=np.zeros((24, 20), complex))
    with pytest.raises(InputError, match="negative"):
        make_slice(std=-make_slice().std)


@pytest.mark.parametrize(
    "changes",
    [{"window": (1.0, 1.0)}, {"window": (0.0, np.nan)}, {"slices": ()}, {"simulated": False}],
)
def test_a_report_refuses_what_it_cannot_show(
    make_report: Callable[..., Report], changes: dict[str, Any]
) -> None:
    with pytest.raises(InputError):
        make_report(**changes)


@pytest.mark.parametrize(
    "series",
    [
        {},
        {"a": (LINE, LINE[:2])},
        {"a": (LINE[:0], LINE[:0])},
        {"a": (LINE, LINE + np.inf)},
        {"a": (LINE + np.nan, LINE)},
        {"a": (LINE, LINE + np.nan)},
    ],
)
def test_a_curve_refuses_series_without_points(series: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Curve("Coverage", "x", "y", series)


def test_judgements_and_lights_are_a_closed_list() -> None:
    with pytest.raises(InputError, match="judgement"):
        Check("fit", "1", "fine", "")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="light"):
        Trust("blue", "")  # type: ignore[arg-type]
