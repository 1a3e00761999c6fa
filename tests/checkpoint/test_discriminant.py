"""What tells right from wrong: exact where the odds are known."""

import json

import pytest
import torch
from torch import Tensor

from bcdm.checkpoint.discriminant import Discriminant


def draw(count: int, seed: int, shift: float = 0.0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    return numbers * torch.tensor([scale, 1.0]) + torch.tensor([0.0, shift])


def test_log_odds_of_normal_numbers() -> None:
    """Right N(0, 1), wrong N(1, 1) in the second number: the log-odds are x - 1 / 2."""
    found = Discriminant.fit(draw(20000, 0), draw(20000, 1, shift=1.0))
    at = torch.tensor([[0.0, 0.5], [0.0, 2.0], [2.0, 0.5]], dtype=torch.float64)
    assert found.score(at).tolist() == pytest.approx([0.0, 1.5, 0.0], abs=0.1)


def test_a_spread_tells_too_and_counts_do_not() -> None:
    """Wrong ones are N(0, 2^2) in the first: the log-odds are 3 x^2 / 8 - log 2."""
    found = Discriminant.fit(draw(40000, 0), draw(10000, 1, scale=2.0))
    at = torch.tensor([[0.0, 0.0], [2.0, 0.0], [-2.0, 0.0]], dtype=torch.float64)
    assert found.score(at).tolist() == pytest.approx([-0.693, 0.807, 0.807], abs=0.12)


def test_farther_away_is_no_more_wrong_and_nan_stays() -> None:
    found = Discriminant.fit(draw(500, 0), draw(500, 1, shift=3.0))
    far = torch.tensor([[0.0, 50.0], [0.0, 5000.0], [0.0, torch.nan]], dtype=torch.float64)
    near, farther, none = found.score(far)
    assert near == farther
    assert bool(none.isnan())


def test_what_never_varies_and_what_is_told_apart_at_once_stay_finite() -> None:
    right, wrong = draw(50, 0), draw(50, 1, shift=100.0)
    right[:, 0], wrong[:, 0] = 1.0, 1.0
    found = Discriminant.fit(right, wrong)
    assert bool(found.weights.isfinite().all())
    assert float(found.score(right).max()) < 0 < float(found.score(wrong).min())


def test_it_is_the_same_from_a_file_and_again() -> None:
    right, wrong = draw(100, 0), draw(100, 1, shift=1.0)
    found = Discriminant.fit(right, wrong)
    again = Discriminant.from_plain(json.loads(json.dumps(found.to_plain())))
    assert torch.equal(again.score(wrong), found.score(wrong))
    assert torch.equal(Discriminant.fit(right, wrong).weights, found.weights)
