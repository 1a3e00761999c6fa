"""Scores of a measurement beside those of right ones: checks, in words."""

from collections.abc import Mapping
from math import exp, isfinite
from statistics import median

import torch

from bcdm.checkpoint.usual import CONDITIONS, Usual
from bcdm.trust.card import Check, Judgement

__all__ = ["compare"]

_EXPLAINED = "the samples explain the data within their noise"
_UNEXPLAINED = "the samples do not explain the data within the stated noise"
_TOO_NEAR = (
    "the samples are nearer to the data than the stated noise: it is overstated, or they follow it"
)
_WORDS = {
    "residual": (
        "the samples miss the data by as much as is usual for this model",
        "the samples miss the data by more, or by less, than is usual for this model",
    ),
    "held-out data": (
        "data left out of a reconstruction are predicted as well as usual",
        "data left out of a reconstruction are predicted worse than usual: "
        "another operator, or images unlike those of training",
    ),
    "typicality": (
        "a linear look at the data shows what training images show",
        "a linear look at the data shows something that training images do not",
    ),
    "bright spots": (
        "no spot in the data is brighter or sharper than usual",
        "the data show a spot that is brighter or sharper than training images have",
    ),
    "reconstruction": (
        "the reconstruction looks as those of training images do",
        "the reconstruction shows something that those of training images do not: "
        "another contrast, another body part, an artefact",
    ),
    "grey levels": (
        "grey levels inside the object are those of training images",
        "grey levels inside the object are unlike those of training images: another contrast, "
        "or images of another kind",
    ),
    "noise level": (
        "the noise seen in the data is the noise stated",
        "the noise seen in the data is not the noise stated",
    ),
}

# Below, a good judgement needs a word why.
_SURPRISING = 0.1
# Chi-square per degree of freedom beyond which no model's usual misfit is an excuse.
_FAR = (0.5, 2.0)


def compare(
    usual: Usual | None,
    scores: Mapping[str, float],
    reduced: float,
    p_value: float,
) -> list[Check]:
    """The chi-square of a sample, and every score beside its distribution on right measurements.

    Args:
        usual: What scores of right measurements are, if the model knows.
        scores: Of one measurement, by name.
        reduced: Chi-square of its first sample per degree of freedom.
        p_value: Of that chi-square, by theory.
    """
    if usual is None:
        return [_judge_residual(reduced, p_value)]
    return [
        _judge_residual(reduced, p_value, _describe_usual(usual, scores)),
        *_judge(usual, scores),
        *_name_missing(usual),
    ]


def _describe_usual(usual: Usual, scores: Mapping[str, float]) -> str:
    """How far samples of right measurements are off with this model; "" where nobody knows."""
    table = usual.tables.get("residual")
    if not table:
        return ""
    trend = usual.trends.get("residual")
    if trend is None:
        return f"samples of this model are usually off by {exp(median(table)) - 1:.0%}"
    where = torch.tensor([[scores[name] for name in CONDITIONS]], dtype=torch.float64).log()
    expected = float(trend.locate(where).exp())
    return f"samples of this model are usually at {expected:.2f} for such a mask and noise"


def _judge_residual(reduced: float, p_value: float, usual: str = "") -> Check:
    """Chi-square of a sample by exact theory, which needs no calibration.

    Where it is known how far samples of right measurements are off with this model (`usual`, in
    words), being off by as much is no finding about this measurement: then only what no model may
    do counts here, and the rest is judged by rank as `residual`.
    """
    value = f"{reduced:.2f} per degree of freedom, p = {p_value:.2g}"
    judgement: Judgement = "good"
    if p_value < 1e-3:
        # Large samples make tiny misfits certain; what counts is their size.
        judgement = "bad" if not _FAR[0] < reduced < _FAR[1] else "doubtful"
        judgement = "good" if 0.8 < reduced < 1.2 else judgement
    if not (isfinite(reduced) and isfinite(p_value)):
        judgement = "bad"
    reason = _EXPLAINED
    if judgement != "good":
        reason = _TOO_NEAR if reduced < 1 else _UNEXPLAINED
    if judgement == "good" and p_value < 1e-3:
        reason += "; the misfit is no chance, but smaller than 20 %"
    elif judgement == "good" and p_value < _SURPRISING:
        reason += "; chance gives such a p now and then, only below 0.001 it counts"
    elif judgement == "doubtful" and usual:
        judgement = "none"
        reason += f"; {usual}, and the next line tells whether this is unusual"
    return Check("chi-square of a sample", value, judgement, reason)


def _judge(usual: Usual, scores: Mapping[str, float]) -> list[Check]:
    """The scores beside their distribution on right measurements."""
    checks = []
    placed = usual.place(scores)
    for name, tail in usual.find_tails(placed).items():
        good, bad = _WORDS[name]
        table = usual.tables[name]
        least = usual.find_limit(name)
        judgement: Judgement = "good" if tail >= least else "doubtful"
        reach = table[-1] - table[len(table) // 2]
        # A short table has no rank below its limit, but what lies far beyond it counts.
        if placed[name] > table[-1] + reach / 2:
            judgement = "bad"
        value = f"worse than {1 - tail:.0%} of {len(table)} right measurements"
        if not isfinite(placed[name]):
            judgement, value = "bad", f"{scores[name]}, which is no score"
        reason = good if judgement == "good" else bad
        if judgement == "good" and tail < _SURPRISING:
            limit = f"only beyond {1 - least:.1%} it counts"
            reason += f"; of several checks one is often this far out, {limit}"
        checks.append(Check(name, value, judgement, reason))
    return checks


def _name_missing(usual: Usual) -> list[Check]:
    """What some calibrations do not hold: nobody may think that it was checked."""
    if "grey levels" in usual.tables:
        return []
    reason = (
        "grey levels are not compared and another contrast may stay unnoticed: the model was "
        "trained with several, or calibrated by an earlier version"
    )
    return [Check("grey levels", "not compared", "none", reason)]
