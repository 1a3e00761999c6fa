r"""Are posterior samples what they claim to be? CRPS, coverage, spread-skill, SBC, TARP.

One fact carries most of this file: if truth and $S$ samples are exchangeable (samples drawn from
the true posterior), the truth's rank, the number of samples below it, is uniform on $0 \dots S$.
Every level becomes a score for each rank, whose mean over the ranks is the level exactly, for every
finite $S$. Ties (clipped or quantised values) take the mean score of the ranks they share, which
keeps the property. Samples are (S, B, ...), the truth is (B, ...), both real.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from bcdm.errors import DtypeError, InputError, ShapeError

__all__ = [
    "ChiSquare",
    "Coverage",
    "SpreadSkill",
    "TarpCurve",
    "chi_square",
    "compare_spread",
    "count_samples_needed",
    "coverage",
    "crps",
    "sbc_ranks",
    "spread_skill",
    "tarp",
]


FEWEST_GROUPS = 5  # that tell how much groups differ


class Coverage(NamedTuple):
    """Nominal levels (L,) and observed coverage per image (B, L); nan: not resolvable."""

    levels: Tensor
    observed: Tensor


class SpreadSkill(NamedTuple):
    """Ratio (scalar) and curve: rms spread (bins,) and rms error (bins,) by rising spread."""

    ratio: Tensor
    spread: Tensor
    skill: Tensor


class TarpCurve(NamedTuple):
    """Expected coverage by level, and what chance alone would do to it.

    Attributes:
        levels: (L,).
        coverage: (L,).
        lower: The lower edge of the bootstrap band at each level alone, (L,).
        upper: The upper edge, (L,).
        band: How far the whole curve may be from the diagonal: the largest distance over levels
            stays below it as often as the confidence says. Not a number below five groups, which
            tell too little of how much they differ.
    """

    levels: Tensor
    coverage: Tensor
    lower: Tensor
    upper: Tensor
    band: float


class ChiSquare(NamedTuple):
    """Chi-square per degree of freedom, degrees of freedom, two-sided p-value, each (B,)."""

    reduced: Tensor
    dof: Tensor
    p_value: Tensor


def crps(samples: Tensor, truth: Tensor) -> Tensor:
    r"""Computes the fair continuous ranked probability score, per image; lower is better.

    $$ \mathrm{CRPS} = \frac1S \sum_i |x_i - y|
       - \frac{1}{2 S (S - 1)} \sum_{i,j} |x_i - x_j| $$

    averaged over pixels. $S (S - 1)$ in place of $S^2$ makes it unbiased: its mean is the CRPS of
    the samples' distribution at every $S \ge 2$ (Ferro 2014). Single values may be negative.

    Args:
        samples: Posterior samples, (S, B, ...).
        truth: True images, (B, ...).

    Returns:
        Scores in the unit of the images, (B,).
    """
    count = _check_samples(samples, truth)
    # Sorting gives the sum over pairs: x_(k) is the larger one k - 1 times, the smaller S - k.
    error = (samples - truth).sort(0).values
    order = torch.arange(1 - count, count, 2, dtype=error.dtype, device=error.device)
    pairs = torch.tensordot(order, error, dims=1) / (count * (count - 1))
    return (error.abs().mean(0) - pairs).reshape(len(truth), -1).mean(1)


def count_samples_needed(level: float) -> int:
    r"""Counts the samples that resolve a central interval: $S \ge (1 + c) / (1 - c)$.

    >>> [count_samples_needed(level) for level in (0.5, 0.8, 0.9, 0.95)]
    [3, 9, 19, 39]
    """
    _check_levels([level])
    return math.ceil((1 + level) / (1 - level) - 1e-9)


def coverage(
    samples: Tensor,
    truth: Tensor,
    levels: Sequence[float] = (0.5, 0.8, 0.9, 0.95),
    mask: Tensor | None = None,
) -> Coverage:
    r"""Computes how often central per-pixel intervals hold the truth, per image.

    The interval $I_j = [x_{(j)}, x_{(S+1-j)}]$ between order statistics holds an exchangeable truth
    with probability $p_j = (S + 1 - 2j) / (S + 1)$, whatever the distribution. A level $c$ between
    $p_{j+1} \le c \le p_j$ uses $I_j$ with probability
    $w = (c - p_{j+1}) / (p_j - p_{j+1})$ and $I_{j+1}$ otherwise; the coin is not tossed but
    averaged,

    $$ w\,[y \in I_j] + (1 - w)\,[y \in I_{j+1}], $$

    so the expectation is $c$ exactly at every $S$ and no random number is used. (Plain sample
    quantiles hold the truth too rarely: about 0.71 for $c = 0.8$ at $S = 16$.)

    A level above $p_1 = (S - 1) / (S + 1)$ needs an interval wider than the samples' range. None is
    invented: such a level is not resolvable and gives nan. See `count_samples_needed`.

    Args:
        samples: Posterior samples, (S, B, ...).
        truth: True images, (B, ...).
        levels: Nominal levels, each in (0, 1).
        mask: Booleans that broadcast to the truth; true pixels count.

    Returns:
        The levels and the observed coverage per image. Pixels of one image are correlated: take
        the error bar from the scatter over images.
    """
    count = _check_samples(samples, truth)
    _check_levels(levels)
    keep = _expand_mask(mask, truth)
    table = torch.stack([_score_central_ranks(level, count) for level in levels])
    below, ties = (samples < truth).sum(0), (samples == truth).sum(0)
    inside = _score_ranks(table.to(truth.device), below, ties).reshape(len(levels), *keep.shape)
    observed = torch.where(keep, inside, 0.0).sum(2) / keep.sum(1)
    return Coverage(torch.tensor(levels, dtype=torch.float64, device=truth.device), observed.T)


def compare_spread(samples: Tensor, mean: Tensor | None, truth: Tensor) -> tuple[Tensor, Tensor]:
    r"""Gives $f s^2$ and $(m - y)^2$ of `spread_skill` for every pixel, (B, ...) each.

    Args:
        samples: Posterior samples, (S, B, ...).
        mean: Posterior mean from elsewhere, (B, ...), or None for the mean of the samples.
        truth: True images, (B, ...).
    """
    count = _check_samples(samples, truth)
    if mean is not None and mean.shape != truth.shape:
        raise ShapeError(f"mean must have the truth's shape {tuple(truth.shape)}")
    variance, average = torch.var_mean(samples, 0, correction=1)
    if mean is None:
        variance, mean = variance * (count + 1) / count, average
    return variance, (mean - truth).square()


def spread_skill(
    samples: Tensor, mean: Tensor | None, truth: Tensor, *, bins: int = 10
) -> SpreadSkill:
    r"""Compares the spread of the samples with the error of the mean; calibrated samples give 1.

    $$ \text{ratio} = \sqrt{ \frac{\langle f\, s^2 \rangle}{\langle (m - y)^2 \rangle} }, \quad
       s^2 = \frac{1}{S - 1} \sum_i (x_i - \bar x)^2 $$

    For $m = \bar x$ the error contains the mean's own sampling error, hence $f = (S + 1) / S$; pass
    None for it, not `samples.mean(0)`. A mean from elsewhere (one network call, a closed form) has
    no such error, hence $f = 1$. Below 1: overconfident; above 1: too wide.

    The curve sorts all pixels by spread into bins of equal count. The spread of few samples is
    noisy, which flattens the curve even for calibrated samples; the ratio is not affected.

    Args:
        samples: Posterior samples, (S, B, ...).
        mean: Posterior mean from elsewhere, (B, ...), or None for the mean of the samples.
        truth: True images, (B, ...).
        bins: Number of bins of the curve.

    Returns:
        The ratio and the curve, over all pixels of all images.
    """
    variance, error = compare_spread(samples, mean, truth)
    if not 1 <= bins <= truth.numel():
        raise InputError(f"bins must lie between 1 and {truth.numel()} (the pixels), got {bins}")
    variance, order = variance.flatten().sort()
    error = error.flatten()[order]
    parts = (values.tensor_split(bins) for values in (variance, error))
    spread, skill = (torch.stack([part.mean() for part in each]).sqrt() for each in parts)
    return SpreadSkill((variance.mean() / error.mean()).sqrt(), spread, skill)


def sbc_ranks(samples: Tensor, truth: Tensor, *, generator: Generator | None = None) -> Tensor:
    r"""Ranks the truth among its samples: simulation-based calibration (Talts et al. 2018).

    Give it one scalar per case: a pixel, a random projection, an energy. The rank is the number of
    samples below the truth, uniform on $0 \dots S$ when the samples come from the posterior.

    Args:
        samples: The scalar for each sample, (S, ...).
        truth: The scalar for the truth, (...).
        generator: Breaks ties at random; without it a tie is an error.

    Returns:
        Ranks, integers, (...).
    """
    _check_samples(samples, truth)
    below, ties = (samples < truth).sum(0), (samples == truth).sum(0)
    if not bool(ties.any()):
        return below
    if generator is None:
        raise InputError("truth and samples tie: pass a generator to break ties at random")
    uniform = torch.rand(ties.shape, generator=generator, device=generator.device)
    return below + (uniform.to(ties.device) * (ties + 1)).long().minimum(ties)


def tarp(
    samples: Tensor,
    truth: Tensor,
    references: Tensor,
    levels: Sequence[float],
    *,
    generator: Generator,
    groups: Sequence[str] | None = None,
    bootstraps: int = 200,
    confidence: float = 0.95,
) -> TarpCurve:
    r"""Computes expected coverage by distance to random points (TARP, Lemos et al. 2023).

    The ball around a reference that reaches the truth holds a share of the samples; for true
    posterior samples the truth's rank $r$ by distance is uniform on $0 \dots S$. A case counts
    for level $c$ as $\min(\max(c (S + 1) - r, 0), 1)$, whose mean over the ranks is $c$ exactly, so
    a calibrated curve is the diagonal at every $S$.

    References must not depend on the truth except through the measurement, and should depend on
    the measurement: with references that do not, the prior itself passes. Distances are
    Euclidean over all axes after the batch; scale the axes beforehand if their units differ.

    Args:
        samples: Posterior samples, (S, B, ...).
        truth: True images of independent cases, (B, ...).
        references: Reference points, (B, ...).
        levels: Levels in (0, 1).
        generator: Draws the bootstrap.
        groups: Which cases belong together (one subject's images): whole groups are resampled.
        bootstraps: Number of resamplings of the cases.
        confidence: Mass of the bands.
    """
    count = _check_samples(samples, truth)
    _check_levels([*levels, confidence])
    if references.shape != truth.shape or bootstraps < 1:
        raise ShapeError(f"need references of shape {tuple(truth.shape)} and bootstraps >= 1")
    flat = (len(truth), -1)
    reach = torch.linalg.vector_norm((truth - references).reshape(flat), dim=1)
    distances = torch.linalg.vector_norm((samples - references).reshape(count, *flat), dim=2)
    nominal = torch.tensor(levels, dtype=torch.float64, device=truth.device)
    ranks = torch.arange(count + 1, device=truth.device)
    table = (nominal[:, None] * (count + 1) - ranks).clamp(0, 1)
    scores = _score_ranks(table, (distances < reach).sum(0), (distances == reach).sum(0))

    found = scores.mean(1)
    names = [str(k) for k in range(len(truth))] if groups is None else list(groups)
    members = [[k for k, own in enumerate(names) if own == name] for name in dict.fromkeys(names)]
    sums = torch.stack([scores[:, own].sum(1) for own in members], 1)
    sizes = torch.tensor([len(own) for own in members]).to(sums)
    shape, device = (bootstraps, len(members)), generator.device
    drawn = torch.randint(len(members), shape, generator=generator, device=device).to(sums.device)
    curves = torch.stack([sums[:, pick].sum(1) / sizes[pick].sum() for pick in drawn])
    lower, upper = (curves.quantile(0.5 + side * confidence / 2, dim=0) for side in (-1, 1))
    band = float((curves - found).abs().amax(1).quantile(confidence))
    return TarpCurve(nominal, found, lower, upper, band * _widen(len(members), confidence))


def _widen(groups: int, confidence: float) -> float:
    """By how much a bootstrap of few groups is too narrow: Student's quantile over the normal one.

    Resampled groups also differ by (n - 1) / n of the variance only.
    """
    if groups < FEWEST_GROUPS:
        return math.nan
    free = groups - 1
    z = float(torch.special.ndtri(torch.tensor(0.5 + confidence / 2, dtype=torch.float64)))
    student = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    return student / z * math.sqrt(groups / free)


def chi_square(
    residual: Tensor, noise_std: float | Tensor, mask: Tensor | None = None
) -> ChiSquare:
    r"""Tests whether a residual is white Gaussian noise of the stated level, per measurement.

    $$ \chi^2 = \sum_i |r_i|^2 / \sigma_0^2 $$

    has one degree of freedom per real entry and two per complex entry, where $\sigma_0$ is the std
    of the real and of the imaginary part. The p-value is two-sided, $2 \min(P, Q)$ with the lower
    and upper tail: a residual may be too large (data not explained) or too small (noise fitted,
    or its level overstated); `reduced` tells which.

    The residual $y - A x$ of a true posterior sample has this law over measurements, as the truth
    has; the residual of a posterior mean is smaller.

    Args:
        residual: Real or complex residuals, (B, ...).
        noise_std: A number, one per measurement (B,), or a tensor with the residual's number of
            axes that broadcasts to it.
        mask: Booleans that broadcast to the residual; true entries count.
    """
    if not (residual.is_complex() or residual.is_floating_point()):
        raise DtypeError(f"residual must be real or complex floats, got {residual.dtype}")
    keep = _expand_mask(mask, residual)
    std = torch.as_tensor(noise_std, dtype=torch.float64, device=residual.device)
    if not bool((std > 0).all()):
        raise InputError("noise_std must be positive: pass the std of one real component")
    std = _expand(std.view(-1, *[1] * (residual.ndim - 1)) if std.ndim == 1 else std, residual)
    squares = (residual.abs().double() / std).square().reshape(keep.shape)
    total = torch.where(keep, squares, 0.0).sum(1)
    dof = keep.sum(1).double() * (2 if residual.is_complex() else 1)
    tails = (torch.special.gammainc, torch.special.gammaincc)
    p_value = 2 * torch.minimum(*(tail(dof / 2, total / 2) for tail in tails))
    return ChiSquare(total / dof, dof, p_value.clamp(max=1))


def _score_central_ranks(level: float, count: int) -> Tensor:
    """Scores each rank of the truth, (S + 1,), for a central interval; sums to level (S + 1)."""
    total = count + 1
    ranks = torch.arange(total)
    if level * total > count - 1 + 1e-9:
        return torch.full((total,), math.nan, dtype=torch.float64)
    # Rounding must not push a level that sits on a node to the next interval out.
    j = math.floor((1 - level) * total / 2 + 1e-9)
    outer, inner = (max(total - 2 * i, 0) / total for i in (j, j + 1))
    weight = (level - inner) / (outer - inner)
    depth = torch.minimum(ranks, count - ranks)
    return weight * (depth >= j).double() + (1 - weight) * (depth >= j + 1).double()


def _score_ranks(table: Tensor, below: Tensor, ties: Tensor) -> Tensor:
    """Looks up scores (L, S + 1) for ranks (...), averaged over the ranks tied: (L, ...)."""
    sums = torch.nn.functional.pad(table.cumsum(1), (1, 0))
    return (sums[:, below + ties + 1] - sums[:, below]) / (ties + 1)


def _check_samples(samples: Tensor, truth: Tensor) -> int:
    """Returns the number of samples once samples and truth fit together."""
    if not (samples.is_floating_point() and truth.is_floating_point()):
        raise DtypeError("samples and truth must be real floats: magnitude or view_as_real first")
    if samples.shape[1:] != truth.shape or truth.numel() == 0:
        raise ShapeError(
            "need samples (S, B, ...) and truth (B, ...), "
            f"got {tuple(samples.shape)} and {tuple(truth.shape)}"
        )
    if len(samples) < 2:
        raise ShapeError("calibration needs at least two samples per image")
    if not bool(samples.isfinite().all() and truth.isfinite().all()):
        raise InputError("samples or truth hold nan or infinity: drop the failed cases first")
    return len(samples)


def _check_levels(levels: Sequence[float]) -> None:
    if not levels or not all(0 < level < 1 for level in levels):
        raise InputError(f"levels must lie strictly between 0 and 1, got {list(levels)}")


def _expand_mask(mask: Tensor | None, like: Tensor) -> Tensor:
    """Expands a mask to one row of booleans per image, (B, n)."""
    mask = torch.ones((), dtype=torch.bool, device=like.device) if mask is None else mask
    if mask.dtype != torch.bool:
        raise DtypeError(f"mask must be boolean, got {mask.dtype}: compare it with 0 first")
    keep = _expand(mask, like).reshape(len(like), -1)
    if not bool(keep.any(1).all()):
        raise InputError("mask leaves an image without pixels: drop that image or widen the mask")
    return keep


def _expand(tensor: Tensor, like: Tensor) -> Tensor:
    try:
        return tensor.expand(like.shape)
    except RuntimeError:
        raise ShapeError(
            f"shape {tuple(tensor.shape)} does not broadcast to {tuple(like.shape)}: reshape it"
        ) from None
