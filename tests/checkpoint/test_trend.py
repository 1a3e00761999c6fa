"""What a score usually is, by mask and noise."""

import json

import pytest
import torch
from torch import Tensor

from bcdm.checkpoint.trend import Trend


def draw(count: int) -> tuple[Tensor, Tensor]:
    """Conditions in a square, and scores that bend with one and spread with the other."""
    generator = torch.Generator().manual_seed(0)
    where = 4 * torch.rand(count, 2, generator=generator, dtype=torch.float64)
    noise = torch.randn(count, generator=generator, dtype=torch.float64)
    return where, where[:, 0] ** 2 - where[:, 1] + (0.5 * where[:, 1]).exp() * noise


def test_what_is_left_has_the_same_law_everywhere() -> None:
    where, scores = draw(4000)
    left = Trend.fit(where, scores).standardise(where, scores)
    for corner in ((where < 2), (where >= 2)):
        own = left[corner.all(1)]
        assert float(own.mean()) == pytest.approx(0, abs=0.1)
        assert float(own.std()) == pytest.approx(1, abs=0.1)
    # Unlike before.
    assert float(scores[(where >= 2).all(1)].std() / scores[(where < 2).all(1)].std()) > 2


def test_the_location_is_what_is_usual() -> None:
    trend = Trend.fit(*draw(4000))
    where = torch.tensor([[1.0, 3.0], [3.0, 1.0]], dtype=torch.float64)
    assert trend.locate(where).tolist() == pytest.approx([-2.0, 8.0], abs=0.4)


def test_beyond_what_was_seen_nothing_is_extrapolated() -> None:
    trend = Trend.fit(*draw(400))
    ends = torch.stack([trend.low, trend.high])
    far = torch.stack([trend.low - 9, trend.high + 9])
    assert torch.equal(trend.locate(far), trend.locate(ends))
    one = torch.ones(2, dtype=torch.float64)
    assert torch.equal(trend.standardise(far, one), trend.standardise(ends, one))


def test_a_trend_is_read_as_it_was_stored() -> None:
    where, scores = draw(100)
    trend = Trend.fit(where, scores)
    again = Trend.from_plain(json.loads(json.dumps(trend.to_plain())))
    assert torch.equal(again.standardise(where, scores), trend.standardise(where, scores))


def test_conditions_that_do_not_differ_explain_nothing() -> None:
    where = torch.full((60, 2), 3.0, dtype=torch.float64)
    scores = draw(60)[1]
    left = Trend.fit(where, scores).standardise(where, scores)
    assert float(left.mean()) == pytest.approx(0, abs=0.1)
    assert bool(left.isfinite().all())
