"""What speaks for a reconstruction and what against it, in words and as a light."""

from dataclasses import replace
from math import inf, isfinite
from typing import Literal

import torch
from torch import Tensor

from bcdm.checkpoint import Guest, Model
from bcdm.checkpoint.calibration import Calibration
from bcdm.measurement import Measurement
from bcdm.trust.card import Check, Trust, find_light
from bcdm.trust.comparing import compare
from bcdm.trust.matching import explain_noise, find_unfamiliar
from bcdm.trust.scores import chi_square_of, counts_signal_as_noise, find_scores

__all__ = ["assess", "judge_plainly"]

_NOISE = "noise of training"  # the name of a check
_AS_READ = 0.1  # of the noise level at most, and the one stated is the one that the data show


def assess(
    model: Model | Guest,
    measurement: Measurement,
    preview: Tensor,
    samples: Tensor,
    *,
    scale_taken: bool = False,
) -> list[Trust]:
    """One card for each measurement of a batch.

    Args:
        model: What reconstructed it.
        measurement: In its units.
        preview: The posterior mean by one call, (B, C, H, W).
        samples: Posterior samples, (S, B, C, H, W).
        scale_taken: Whether its scale was taken from the data, because nobody stated one.
    """
    calibration = Calibration.of(model)
    usual = None if calibration is None else calibration.find_usual(scale_taken=scale_taken)
    reduced, p_values = chi_square_of(measurement, samples[0])
    if calibration is None or isinstance(model, Guest):
        rows: list[dict[str, float]] = [{} for _ in reduced]
    else:
        rows = find_scores(model, measurement, calibration.looks, preview, samples)
    cards = []
    for number, (plain, scores) in enumerate(
        zip(judge_plainly(model, measurement, preview, samples), rows, strict=True)
    ):
        compared = compare(usual, scores, float(reduced[number]), float(p_values[number]))
        if reduced[number] < 1 and abs(scores.get("noise level", inf)) < _AS_READ:
            one = measurement.select(torch.tensor([number]))
            compared = [_excuse(check, one) for check in compared]
        # What is bad without any comparison is told first.
        bad = [check for check in plain if check.judgement == "bad"]
        rest = [check for check in plain if check.judgement != "bad"]
        cards.append(
            _sum_up(
                [*bad, *compared, *rest],
                model.name,
                calibrated=calibration is not None,
                kind="method" if isinstance(model, Guest) else "model",
            )
        )
    return cards


def _excuse(check: Check, measurement: Measurement) -> Check:
    """A doubt instead of a fault where the noise level is what the data show, and that too much.

    Samples are then nearer to the data than that noise, whatever the model.
    """
    faulty = check.name == "residual" and check.judgement == "bad"
    if not (faulty and counts_signal_as_noise(measurement)):
        return check
    reason = (
        "the samples are nearer to the data than is usual for this model: noise read from data "
        "without a full line counts signal, too; state the noise level if you know it"
    )
    return replace(check, judgement="doubtful", reason=reason)


def judge_plainly(
    model: Model | Guest, measurement: Measurement, preview: Tensor, samples: Tensor
) -> list[list[Check]]:
    """What needs no right measurements to compare with, for each measurement of a batch.

    Args:
        model: What reconstructed it.
        measurement: In its units.
        preview: The posterior mean by one call, (B, C, H, W).
        samples: Posterior samples, (S, B, C, H, W).
    """
    levels = measurement.std.expand(len(preview))
    checks = []
    for number, reason in enumerate(find_unfamiliar(model, measurement)):
        checks.append(
            [
                *_judge_numbers(preview[number], samples[:, number]),
                *([Check("family", "outside", "bad", reason)] if reason else []),
            ]
        )
        if isinstance(model, Guest):
            checks[-1] += _describe_guest(model)
        else:
            checks[-1] += _judge_noise(model.config.noise_std, float(levels[number]))
    return checks


def _judge_numbers(mean: Tensor, samples: Tensor) -> list[Check]:
    """A pixel that is nan or infinite: no score of the rest counts beside it."""
    count = int((~mean.isfinite()).sum() + (~samples.isfinite()).sum())
    if not count:
        return []
    value = f"{count} of {mean.numel() + samples.numel()} are nan or infinite"
    return [Check("pixels", value, "bad", "the images hold numbers that are not finite")]


def _judge_noise(trained: float | tuple[float, float], std: float) -> list[Check]:
    """A doubt where a model of one noise level is given another."""
    if not isfinite(std):
        return [Check(_NOISE, f"{std}", "bad", "the noise level is no number")]
    value = explain_noise(trained, std)
    if not value:
        return []
    reason = "the noise is not as strong as in training: intervals may be too narrow or too wide"
    return [Check(_NOISE, value, "doubtful", reason)]


def _describe_guest(guest: Guest) -> list[Check]:
    """That nothing is known of measurements which a method was made for."""
    reason = guest.remark or "no trained model: what it was made for is not known here"
    return [Check("method", guest.name, "none", reason)]


def _sum_up(
    checks: list[Check], name: str, *, calibrated: bool, kind: Literal["model", "method"] = "model"
) -> Trust:
    bad = [check for check in checks if check.judgement == "bad"]
    doubtful = [check for check in checks if check.judgement == "doubtful"]
    light = find_light(checks)
    if light == "green" and not calibrated:
        light = "amber"
    if bad and kind == "method":
        summary = f"Do not rely on it: {bad[0].reason}."
    elif bad:
        summary = f"Not a measurement that {name} was made for: {bad[0].reason}."
        summary += "".join(f" Its noise is {one.value}." for one in doubtful if one.name == _NOISE)
    elif doubtful:
        summary = f"Look twice: {doubtful[0].reason}."
    elif kind == "method":
        summary = "The samples explain the data; what is usual for this method is not known."
    elif not calibrated:
        summary = "The samples explain the data, but this model was never calibrated."
    else:
        summary = "Nothing speaks against this reconstruction."
    return Trust(light, summary, tuple(checks))
