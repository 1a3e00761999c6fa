"""Are ranks and p-values uniform?"""

import pytest
import torch
from scipy import stats
from torch import Generator

from bcdm.evaluation import ks_uniformity, rank_uniformity


@pytest.mark.parametrize("bins", [2, 4, 7, 20])
def test_rank_uniformity_equals_scipy(bins: int) -> None:
    ranks = torch.randint(20, (300,), generator=Generator().manual_seed(25))
    bin_of = [rank * bins // 20 for rank in range(20)]
    observed = [sum(bin_of[r] == b for r in ranks.tolist()) for b in range(bins)]
    expected = [300 * bin_of.count(b) / 20 for b in range(bins)]
    p_value = stats.chisquare(observed, expected).pvalue
    assert rank_uniformity(ranks, 19, bins=bins) == pytest.approx(p_value, abs=1e-9)


def test_ks_uniformity_is_exact_for_one_value() -> None:
    """Of one value u the statistic is max(u, 1 - u), so the p-value is 2 min(u, 1 - u)."""
    assert ks_uniformity(torch.tensor([0.1])) == pytest.approx(0.2)
    assert ks_uniformity(torch.tensor([0.7])) == pytest.approx(0.6)


def test_ks_uniformity_of_a_perfect_grid_is_one() -> None:
    assert ks_uniformity((torch.arange(1000) + 0.5) / 1000) == 1.0
