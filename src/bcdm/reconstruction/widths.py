"""By how much intervals must grow or shrink to hold what they promise: over all, and by signal."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint.widths import LocalFactors
from bcdm.evaluation.signal import OBJECT, find_signal
from bcdm.reconstruction.posterior import Posterior, as_shown

__all__ = ["exceed", "fit_factor", "fit_widths"]

EDGES = (OBJECT, 0.3, 0.5, 0.7, 0.9)  # of the local signal; below the first is air
LEAST = 500  # pixels that a factor is fitted on


def fit_widths(
    known: Iterable[tuple[Posterior, Tensor]], levels: Sequence[float]
) -> tuple[dict[float, float], LocalFactors | None]:
    """The factors of intervals on images whose truth is known.

    Each bin of the signal is fitted alone, so that air, which intervals of any width hold, does not
    pay for the object (conformal prediction within groups).

    Args:
        known: Posteriors, and the truth behind each, (B, C, H, W).
        levels: Of the intervals.

    Returns:
        The factor of each level over all pixels, and by the local signal; None without levels.
    """
    ratios: dict[float, list[Tensor]] = {level: [] for level in levels}
    bins: list[Tensor] = []
    edges = torch.tensor(EDGES)
    for posterior, truth in known:
        black = posterior.black
        signal = find_signal(posterior.image, black).expand(truth.shape)
        bins.append(torch.bucketize(signal.float().contiguous(), edges, right=True).flatten())
        for level in levels:
            ratios[level].append(exceed(posterior, truth, level))
    place = torch.cat(bins)
    whole, local = {}, {}
    for level, parts in ratios.items():
        column = torch.cat(parts)
        whole[level] = fit_factor(column, level)
        local[level] = [fit_factor(column[_choose(place, k)], level) for k in range(len(EDGES) + 1)]
    return whole, LocalFactors(EDGES, local) if local else None


def exceed(posterior: Posterior, truth: Tensor, level: float) -> Tensor:
    """How far the truth is from the middle of its interval, in half widths, for every pixel."""
    low, high = posterior.interval(level, calibrated=False)
    width = (high - low).clamp_min(1e-12) / 2
    return ((as_shown(truth) - (low + high) / 2).abs() / width).flatten().float()


def fit_factor(ratios: Tensor, level: float) -> float:
    """The factor by which half widths must grow for a fraction `level` of pixels to be inside."""
    return float(np.quantile(ratios.numpy(), level))


def _choose(place: Tensor, number: int) -> Tensor:
    """The pixels of a bin; together with those of its neighbours where it holds few."""
    for reach in range(len(EDGES) + 1):
        chosen = (place - number).abs() <= reach
        if int(chosen.sum()) >= LEAST:
            break
    return chosen
