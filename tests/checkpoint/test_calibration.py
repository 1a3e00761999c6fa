"""Where a score lies among those of measurements that are right."""

import json
from dataclasses import replace
from math import nan
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bcdm.checkpoint import Model
from bcdm.checkpoint.calibration import (
    Calibration,
    LocalFactors,
    Typicality,
    describe_factors,
    find_factors,
)
from bcdm.checkpoint.discriminant import Discriminant
from bcdm.checkpoint.usual import Usual
from bcdm.errors import ModelError


@pytest.mark.parametrize(
    ("score", "tail"),
    [(0.5, 1.0), (1.0, 1.0), (1.5, 0.8), (3.0, 0.6), (4.0, 0.4), (4.5, 0.2), (nan, 0.2)],
)
def test_tails_count_the_measurement_itself(score: float, tail: float) -> None:
    """Of n right ones and itself every rank is equally likely: no tail is 0, none above 1."""
    table = [1.0, 2.0, 3.0, 4.0]
    usual = Usual({"residual": table})
    assert usual.find_tails({"residual": score, "unknown": 1.0}) == {"residual": tail}


def test_tails_of_right_measurements_are_uniform() -> None:
    table = [float(k) for k in range(9)]
    usual = Usual({"residual": table})
    tails = [usual.find_tails({"residual": k - 0.5})["residual"] for k in range(10)]
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


def test_distances_are_those_of_mahalanobis_per_number() -> None:
    """Of what it was fitted on the mean is (N - 1) / N, but for the ridge."""
    root = torch.tensor([[2.0, 0.0, 0.0], [1.0, 0.5, 0.0], [0.3, -0.2, 0.1]], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(50, 3, generator=generator, dtype=torch.float64) @ root.mT + 7
    typical = Typicality.fit(drawn)
    torch.testing.assert_close(typical.centre, drawn.mean(0))
    covariance = drawn.mT.cov()
    covariance = covariance + 1e-4 * covariance.diag().diag()
    torch.testing.assert_close(typical.precision, torch.linalg.inv(covariance))
    away = drawn - drawn.mean(0)
    expected = (away * torch.linalg.solve(covariance, away.mT).mT).sum(1) / 3
    torch.testing.assert_close(typical.find_distance(drawn), expected)
    assert float(typical.find_distance(drawn).mean()) == pytest.approx(49 / 50, rel=1e-2)


def test_one_description_is_enough_to_compare_with() -> None:
    typical = Typicality.fit(torch.ones(1, 2, dtype=torch.float64))
    assert float(typical.find_distance(typical.centre[None])) == 0
    assert float(typical.find_distance(typical.centre[None] + 1)) == pytest.approx(1e12)


def make_model(**facts: object) -> SimpleNamespace:
    return SimpleNamespace(facts=facts)


def test_a_calibration_is_read_as_it_was_stored() -> None:
    typical = Typicality(torch.tensor([1.0, 2.0]).double(), torch.eye(2).double() / 3)
    telling = Discriminant(*(torch.ones(2 + k).double() for k in (0, 0, 3)))
    stored = Calibration(
        {"image": typical, "grey levels": telling},
        Usual({"residual": [0.1234567, 2.0]}, 0.01),
        {0.5: 1.1, 0.9: 1.3},
        (0.1, 0.5, 0.9),
        "ten images",
    )
    plain = json.loads(json.dumps(stored.to_plain()))
    found = Calibration.of(make_model(calibration=plain))
    assert found is not None
    assert found.usual.tables == {"residual": [0.123457, 2.0]}
    assert (found.usual.threshold, found.factors) == (0.01, {0.5: 1.1, 0.9: 1.3})
    assert (found.brightness, found.on) == ((0.1, 0.5, 0.9), "ten images")
    image, greys = found.looks["image"], found.looks["grey levels"]
    assert isinstance(image, Typicality)
    assert isinstance(greys, Discriminant)
    assert torch.equal(image.precision, typical.precision)
    assert torch.equal(image.centre, typical.centre)
    assert torch.equal(greys.weights, telling.weights)
    # Earlier versions read every look as a distance: they find none that they do not know.
    assert list(plain["looks"]) == ["image"]
    earlier = {name: part for name, part in plain.items() if name != "discriminants"}
    before = Calibration.of(make_model(calibration=earlier))
    assert before is not None
    assert list(before.looks) == ["image"]
    assert Calibration.of(make_model()) is None
    # One of before there was a brightness.
    assert Calibration.of(make_model(calibration=plain | {"brightness": 0.5})) is None


@pytest.mark.parametrize(
    ("level", "factor"), [(0.2, 1.1), (0.5, 1.1), (0.7, 1.2), (0.9, 1.3), (0.99, 1.3)]
)
def test_factors_are_interpolated(level: float, factor: float) -> None:
    plain = Calibration({}, Usual(), {0.9: 1.3, 0.5: 1.1}, (0.0, 0.5, 1.0), "").to_plain()
    assert describe_factors(make_model(calibration=plain), level) == pytest.approx(factor)
    assert describe_factors(make_model(calibration=plain | {"factors": {}}), level) == 1.0
    assert describe_factors(make_model(), level) == 1.0


def test_local_factors_are_where_the_image_is() -> None:
    factors = LocalFactors((0.5,), {0.9: [1.0, 2.0]})
    assert factors.find(0.9, torch.tensor([0.1, 0.5, 0.9])).tolist() == [1.0, 2.0, 2.0]
    assert factors.find(0.9, torch.zeros(3, device="meta")).device.type == "meta"


def test_a_calibration_of_an_earlier_version_has_one_factor_for_all(masked_model: Model) -> None:
    calibration = Calibration.of(masked_model)
    assert calibration is not None
    assert calibration.local is not None
    plain = calibration.to_plain()
    again = Calibration.of(replace(masked_model, facts={"calibration": plain}))
    assert again is not None
    assert again.local == LocalFactors.from_plain(plain["local"])
    del plain["local"]
    older = replace(masked_model, facts={"calibration": plain})
    found = Calibration.of(older)
    assert found is not None
    assert found.local is None
    mean = torch.zeros(2, *masked_model.shape)
    assert float(find_factors(older, 0.8, mean)) == pytest.approx(calibration.factors[0.8])
    assert describe_factors(older, 0.8) == calibration.factors[0.8]
    assert find_factors(masked_model, 0.8, mean).shape == (2, 1, 16, 16)
    assert describe_factors(masked_model, 0.8) == {
        "signal": list(calibration.local.edges),
        "factors": calibration.local.factors[0.8],
    }
    unknown = replace(masked_model, facts={})
    assert float(find_factors(unknown, 0.8, mean)) == describe_factors(unknown, 0.8) == 1


WHOLE = {
    "looks": {"data": {"centre": [0.0], "precision": [[1.0]]}},
    "tables": {"residual": [1.0, 2.0]},
    "threshold": 0.1,
    "factors": {"0.8": 1.1},
    "brightness": [0.1, 0.5, 0.9],
    "on": "images",
}


def read(plain: object) -> Calibration | None:
    return Calibration.of(SimpleNamespace(facts={"name": "tiny", "calibration": plain}))  # type: ignore[arg-type]


def test_what_is_stored_is_read() -> None:
    found = read(WHOLE)
    assert found is not None
    assert found.to_plain() == WHOLE
    assert read(None) is None
    # Of an earlier kind.
    assert read(WHOLE | {"brightness": 0.5}) is None


TAKEN = {"tables": {"residual": [3.0, 4.0]}, "threshold": 0.2, "shares": {"residual": 2.0}}


@pytest.mark.parametrize(
    ("stored", "scale_taken", "limit"),
    [
        (WHOLE | {"taken": TAKEN}, True, 0.4),
        (WHOLE | {"taken": TAKEN}, False, 0.1),
        # Of before there was such a table: compared as if the scale were stated.
        (WHOLE, True, 0.1),
        (WHOLE, False, 0.1),
    ],
)
def test_a_scale_that_was_taken_is_compared_with_such(
    stored: dict[str, object], scale_taken: bool, limit: float
) -> None:
    found = read(stored)
    assert found is not None
    assert found.to_plain() == stored
    usual = found.find_usual(scale_taken=scale_taken)
    assert usual.find_limit("residual") == pytest.approx(limit)
    assert usual.tables == (TAKEN if limit == 0.4 else WHOLE)["tables"]


@pytest.mark.parametrize(
    "plain",
    [
        1,
        [],
        WHOLE | {"brightness": [1.0]},
        WHOLE | {"brightness": ["a", 1, 2]},
        WHOLE | {"factors": []},
        WHOLE | {"factors": {"x": 1.0}},
        WHOLE | {"tables": {"residual": "x"}},
        WHOLE | {"tables": {"residual": {}}},
        WHOLE | {"threshold": None},
        WHOLE | {"local": {"edges": ["a"], "factors": {}}},
        WHOLE | {"local": {"edges": [0.5], "factors": {"0.8": 1.0}}},
        WHOLE | {"looks": {"data": {"centre": [[], 1]}}},
        WHOLE | {"discriminants": {"grey levels": {"centre": [1.0]}}},
        WHOLE | {"discriminants": [1.0]},
        {name: value for name, value in WHOLE.items() if name != "on"},
        WHOLE | {"taken": {}},
        WHOLE | {"taken": 1},
        WHOLE | {"taken": TAKEN | {"threshold": "x"}},
    ],
)
def test_what_is_damaged_is_one_line(plain: object) -> None:
    with pytest.raises(ModelError, match="the calibration of tiny cannot be used") as caught:
        read(plain)
    assert "\n" not in str(caught.value)
