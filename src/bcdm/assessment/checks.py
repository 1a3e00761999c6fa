"""Whether truths rank among their samples as they would among those of the true posterior.

Coverage and chi-square look at one pixel or one residual at a time, and hold without learning.
These look at whole images.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bcdm.evaluation import TarpCurve, rank_uniformity, sbc_ranks, tarp

__all__ = ["Check", "check_ranks"]

SIGNIFICANT = 0.01


@dataclass(frozen=True)
class Check:
    """The result of a test, and a sentence of what it says."""

    name: str
    value: float
    says: str


def check_ranks(
    samples: Tensor,
    truth: Tensor,
    wiener: Tensor,
    seed: int,
    subjects: Sequence[str] | None = None,
) -> list[Check]:
    """TARP, and tests of the ranks of two numbers: a random projection, and the roughness.

    Args:
        samples: (S, B, C, H, W).
        truth: (B, C, H, W).
        wiener: Linear estimates of it; TARP's references are these, plus noise of the size of their
            typical error, so that they depend on y.
        seed: Of references, projections and ties.
        subjects: Whose images they are. Those of one subject are no independent cases: TARP's band
            is by whole subjects, and rank tests take the first image of each.
    """
    names = [str(k) for k in range(len(truth))] if subjects is None else list(subjects)
    firsts = [names.index(name) for name in dict.fromkeys(names)]
    seeded = torch.Generator().manual_seed(seed)
    size = float((wiener - truth).square().mean().sqrt())
    references = wiener + size * torch.randn(wiener.shape, generator=seeded)
    levels = [k / 20 for k in range(1, 20)]
    curve = tarp(samples, truth, references, levels, generator=seeded, groups=subjects)
    direction = torch.randn(truth.shape, generator=seeded)

    def project(images: Tensor) -> Tensor:
        return (images * direction).sum((-3, -2, -1))

    def rank(measure: Callable[[Tensor], Tensor]) -> Tensor:
        return sbc_ranks(measure(samples), measure(truth), generator=seeded)[firsts]

    count = len(samples)
    return [
        *_describe_tarp(curve),
        _test_ranks("a random projection", ("below", "above"), rank(project), count),
        _test_ranks(
            "roughness", ("smoother than", "rougher than"), rank(_measure_roughness), count
        ),
    ]


def _describe_tarp(curve: TarpCurve) -> list[Check]:
    away = curve.coverage - curve.levels
    most = float(away[away.abs().argmax()])
    if math.isnan(curve.band):
        says = "not judged: five subjects or more tell what chance does"
    elif abs(most) <= curve.band:
        says = "within its band: as whole images, truths are no outliers among their samples"
    else:
        side = "nearer to" if most > 0 else "farther from"
        says = (
            f"off by more than its band ({curve.band:.2g}): truths lie {side} the linear estimate "
            "than their samples do, which speaks against the samples as whole images"
        )
    return [
        Check("TARP distance from diagonal", abs(most), says),
        Check("TARP 95 % band", curve.band, ""),
    ]


def _test_ranks(what: str, sides: tuple[str, str], ranks: Tensor, count: int) -> Check:
    """Of truths among `count` samples each; sides say what the lowest and the highest rank mean."""
    (low, high), cases = sides, len(ranks)
    p = rank_uniformity(ranks, count)
    verdict = "nothing" if p >= SIGNIFICANT else "it speaks"
    ends = f"{int((ranks == 0).sum())} of {cases} truths are {low} all samples, "
    ends += f"{int((ranks == count).sum())} {high} all"
    expected = f"{cases / (count + 1):.1f} each by chance"
    return Check(
        f"rank test of {what}, p", p, f"{verdict} against the samples: {ends} ({expected})"
    )


def _measure_roughness(images: Tensor) -> Tensor:
    """Roughness: the mean square of what neighbouring pixels differ by."""
    down, right = (images.diff(dim=axis).square().mean((-3, -2, -1)) for axis in (-2, -1))
    return down + right
