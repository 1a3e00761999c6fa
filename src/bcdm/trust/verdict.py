"""What speaks for a reconstruction and what against it, in words and as a light."""

from collections.abc import Mapping
from math import isfinite

from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.checkpoint.calibration import Calibration
from bcdm.checkpoint.settings import ScopeConfig
from bcdm.measurement import Measurement
from bcdm.trust.card import Check, Judgement, Light, Trust
from bcdm.trust.matching import find_unfamiliar, is_near
from bcdm.trust.scores import chi_square_of, find_scores

__all__ = ["assess"]

_WORDS = {
    "residual": (
        "the samples explain the data within their noise",
        "the samples do not explain the data within the stated noise",
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


def assess(model: Model, measurement: Measurement, preview: Tensor, samples: Tensor) -> list[Trust]:
    """One card for each measurement of a batch.

    Args:
        model: What reconstructed it.
        measurement: In its units.
        preview: The posterior mean by one call, (B, C, H, W).
        samples: Posterior samples, (S, B, C, H, W).
    """
    calibration = Calibration.of(model)
    reduced, p_values = chi_square_of(measurement, samples[0])
    unfamiliar = find_unfamiliar(model, measurement)
    if calibration is None:
        rows: list[dict[str, float]] = [{} for _ in reduced]
    else:
        rows = find_scores(model, measurement, calibration.looks, preview, samples)
    levels = measurement.std.expand(len(rows))
    cards = []
    for number, scores in enumerate(rows):
        broken = _judge_numbers(preview[number], samples[:, number])
        first = _judge_residual(float(reduced[number]), float(p_values[number]))
        more = [] if calibration is None else _judge(calibration, scores)
        more += [] if calibration is None else _name_missing(calibration)
        more += _judge_noise(model.config.noise_std, float(levels[number]))
        more += _judge_size(model.config.scope, tuple(preview.shape[-2:]))
        reason = unfamiliar[number]
        family = [Check("family", "outside", "bad", reason)] if reason else []
        cards.append(
            _sum_up(
                [*broken, *family, first, *more],
                model.config.name,
                calibrated=calibration is not None,
            )
        )
    return cards


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
        return [Check("noise of training", f"{std}", "bad", "the noise level is no number")]
    if isinstance(trained, tuple) or is_near(std, trained):
        return []
    value = f"{std:.3g} instead of {trained:.3g}, in the model's units"
    reason = "the noise is not as strong as in training: intervals may be too narrow or too wide"
    return [Check("noise of training", value, "doubtful", reason)]


def _judge_size(scope: ScopeConfig | None, size: tuple[int, ...]) -> list[Check]:
    """A doubt where a model of any size is given one that it was not trained for."""
    if scope is None or scope.sides[0] <= min(size) <= max(size) <= scope.sides[1]:
        return []
    low, high = scope.sides
    value = f"{size[0]} x {size[1]} pixels, sides of training {low} to {high}"
    return [Check("size", value, "doubtful", "images of this size are none of training")]


def _judge_residual(reduced: float, p_value: float) -> Check:
    """Chi-square of a sample: exact theory, no calibration needed."""
    good, bad = _WORDS["residual"]
    value = f"{reduced:.2f} per degree of freedom, p = {p_value:.2g}"
    judgement: Judgement = "good"
    if p_value < 1e-3:
        # Large samples make tiny misfits certain; what counts is their size.
        judgement = "bad" if not 0.5 < reduced < 2 else "doubtful"
        judgement = "good" if 0.8 < reduced < 1.2 else judgement
    if not (isfinite(reduced) and isfinite(p_value)):
        judgement = "bad"
    reason = good if judgement == "good" else bad
    if judgement == "good" and p_value < 1e-3:
        reason += "; the misfit is no chance, but smaller than 20 %"
    elif judgement == "good" and p_value < _SURPRISING:
        reason += "; chance gives such a p now and then, only below 0.001 it counts"
    return Check("chi-square of a sample", value, judgement, reason)


def _judge(calibration: Calibration, scores: Mapping[str, float]) -> list[Check]:
    """The scores beside their distribution on right measurements."""
    checks = []
    for name, tail in calibration.find_tails(scores).items():
        good, bad = _WORDS[name]
        table = calibration.tables[name]
        judgement: Judgement = "good" if tail >= calibration.threshold else "doubtful"
        reach = table[-1] - table[len(table) // 2]
        if judgement == "doubtful" and scores[name] > table[-1] + reach / 2:
            judgement = "bad"
        value = f"worse than {1 - tail:.0%} of {len(table)} right measurements"
        if not isfinite(scores[name]):
            judgement, value = "bad", f"{scores[name]}, which is no score"
        reason = good if judgement == "good" else bad
        if judgement == "good" and tail < _SURPRISING:
            limit = f"only beyond {1 - calibration.threshold:.1%} it counts"
            reason += f"; of several checks one is often this far out, {limit}"
        checks.append(Check(name, value, judgement, reason))
    return checks


def _name_missing(calibration: Calibration) -> list[Check]:
    """What calibrations of earlier versions do not hold: nobody may think that it was checked."""
    if "grey levels" in calibration.tables:
        return []
    reason = (
        "this model was calibrated before grey levels were compared and may not notice "
        "another contrast: run bcdm calibrate"
    )
    return [Check("grey levels", "not compared", "none", reason)]


def _sum_up(checks: list[Check], name: str, *, calibrated: bool) -> Trust:
    bad = [check for check in checks if check.judgement == "bad"]
    doubtful = [check for check in checks if check.judgement == "doubtful"]
    light: Light = "red" if bad else "amber" if doubtful or not calibrated else "green"
    if bad:
        summary = f"Not a measurement that {name} was made for: {bad[0].reason}."
    elif doubtful:
        summary = f"Look twice: {doubtful[0].reason}."
    elif not calibrated:
        summary = "The samples explain the data, but this model was never calibrated."
    else:
        summary = "Nothing speaks against this reconstruction."
    return Trust(light, summary, tuple(checks))
