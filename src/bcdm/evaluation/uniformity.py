"""Tests of ranks and p-values for the uniform law that they have if the model is right."""

import torch
from torch import Tensor

from bcdm.errors import InputError

__all__ = ["ks_uniformity", "rank_uniformity"]


def rank_uniformity(ranks: Tensor, count: int, *, bins: int | None = None) -> float:
    r"""Tests ranks for uniformity on $0 \dots S$: p-value of Pearson's chi-square (upper tail).

    Ranks are pooled into bins; a bin's expectation is its exact share of the $S + 1$ ranks, so
    the number of bins need not divide it.

    Args:
        ranks: Ranks of independent cases, integers, any shape.
        count: $S$, the samples per case.
        bins: Number of bins; by default as many as leave about 5 cases in each.
    """
    if ranks.numel() == 0 or int(ranks.min()) < 0 or int(ranks.max()) > count:
        raise InputError(f"ranks must be non-empty and lie in 0..{count}, the number of samples")
    bins = min(count + 1, max(2, ranks.numel() // 5)) if bins is None else bins
    if not 2 <= bins <= count + 1:
        raise InputError(f"bins must lie between 2 and {count + 1}, got {bins}")
    bin_of_rank = torch.arange(count + 1) * bins // (count + 1)
    share = torch.bincount(bin_of_rank, minlength=bins).double() / (count + 1)
    observed = torch.bincount(bin_of_rank[ranks.flatten().long().cpu()], minlength=bins)
    expected = share * ranks.numel()
    statistic = ((observed - expected).square() / expected).sum()
    half_dof = torch.tensor((bins - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(half_dof, statistic / 2))


def ks_uniformity(values: Tensor) -> float:
    r"""Tests values for uniformity on $[0, 1]$: two-sided p-value of Kolmogorov and Smirnov.

    By scipy, so it is exact for few values, too. Use it on p-values and, with $u$ uniform, on
    smoothed ranks $(r + u) / (S + 1)$.

    Args:
        values: Independent values in [0, 1], any shape.
    """
    try:
        from scipy.stats import kstest
    except ImportError:
        raise InputError("this test needs scipy: pip install 'bcdm[baselines]'") from None
    flat = values.detach().flatten().double().cpu()
    if not len(flat) or not bool(((flat >= 0) & (flat <= 1)).all()):
        raise InputError("values must be non-empty and lie in [0, 1]: divide ranks by S + 1")
    return float(kstest(flat.numpy(), "uniform").pvalue)
