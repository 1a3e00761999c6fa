"""Fits a calibration: a model's scores on right measurements, and the widths of its intervals.

On validation images that the model was not trained on. Only what is typical may come from training
images: that needs many, and is no judgement of the model.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint import Guest, Model
from bcdm.checkpoint.calibration import Calibration, Typicality
from bcdm.checkpoint.discriminant import Discriminant
from bcdm.checkpoint.regions import RegionFactors
from bcdm.checkpoint.trend import Trend
from bcdm.checkpoint.usual import CONDITIONS, Usual
from bcdm.checkpoint.widths import LocalFactors
from bcdm.diffusion import posterior_mean
from bcdm.errors import InputError, ModelError
from bcdm.evaluation.signal import find_brightness
from bcdm.identity import identify
from bcdm.measurement import Measurement
from bcdm.problems.familiarity import UnfamiliarWarning
from bcdm.reconstruction.choice import make_fallback
from bcdm.reconstruction.contrasts import change_contrast, change_gain
from bcdm.reconstruction.measuring import measure, simulate
from bcdm.reconstruction.posterior import Posterior, as_shown, reconstruct
from bcdm.reconstruction.regions import RegionFit
from bcdm.reconstruction.units import take_scale
from bcdm.reconstruction.widths import fit_widths
from bcdm.trust.looks import look
from bcdm.trust.scores import NAMES, find_scores

__all__ = ["ALARM", "LEVELS", "calibrate", "fit_fallback", "fit_regions", "halve"]

ALARM = 0.05
# Another contrast is what is met most and harms most: that check may raise more of the alarms.
SHARES = {"grey levels": 4.0}
_FOLDS = 12  # groups of subjects that are left out in turn
_FEW = 40  # right measurements that a trend is fitted on
LEAST = 20  # right measurements that anything is compared with
LEVELS = (0.5, 0.8, 0.9)

Scored = dict[int, dict[str, float]]
"""Scores of right measurements, by the number of the image."""


def calibrate(
    model: Model,
    images: Tensor,
    *,
    typical: Tensor | None = None,
    subjects: Sequence[str] | None = None,
    samples: int = 20,
    calls: int = 20,
    intervals: int = 60,
    factors: Mapping[float, float] | None = None,
    local: LocalFactors | None = None,
    regions: RegionFactors | None = None,
    known: Calibration | None = None,
    times: int = 1,
    seed: int = 0,
    on: str,
    report: Callable[[str], None],
    data: Path | None = None,
) -> Calibration:
    """Fits what is typical on training images, and all the rest on validation images.

    Args:
        model: The model.
        images: Of validation, prepared, (N, C, H, W); of models with a phase either kind.
        typical: Of training. Left out: the first half of `images`, which should hold other
            subjects than the second.
        subjects: Whose images those of validation are; left out: each is of another.
        samples: Per image.
        calls: Network calls per sample.
        intervals: How many images, evenly spaced, the widths of intervals are fitted on.
        factors: Of the widths over all pixels, if they are known: they depend on model and
            sampler alone.
        local: Those by the local signal, if the former are given.
        regions: Those of contrasts of regions, if the former are given.
        known: Of before, to keep what it says is typical.
        times: How often each image is measured to be compared with, each time by another operator
            and noise of the family; more than once where images are few.
        seed: Of measurements and samples.
        on: What the images are, in words.
        report: Called with each line about progress.
        data: The folder of files that operators are drawn from; BCDM_DATA when left out.
    """
    if typical is None and known is None:
        first, second = halve(subjects or [str(k) for k in range(len(images))])
        typical, images = images[first], images[second]
        subjects = None if subjects is None else [subjects[k] for k in second]
    if len(images) < LEAST or (typical is not None and len(typical) < LEAST):
        other = "" if typical is None else f" beside {len(typical)} that say what is typical"
        raise InputError(
            f"{len(images)} images{other} are too few to calibrate: {LEAST} of each are the least, "
            f"so {2 * LEAST} validation images where training images are too few to say that"
        )
    images = _vary(model, images, seed)
    if known is not None:
        looks, brightness = known.looks, known.brightness
    else:
        assert typical is not None
        looks, brightness = _fit_looks(
            model, _vary(model, typical, seed + 1), len(images), seed, data
        )
    stated: Scored = {}
    taken: Scored = {}
    again = images.repeat(times, 1, 1, 1)
    whose = list(subjects or map(str, range(len(images)))) * times
    for numbers, measurement in measure(model, again, 0, seed, data):
        score = partial(_score, model, looks, numbers, calls, seed)
        with warnings.catch_warnings():
            # Draws at the edge of a family, and guesses beyond its noise: no news here.
            warnings.simplefilter("ignore", UnfamiliarWarning)
            stated |= score(measurement)
            # K-space comes in arbitrary units: then the data tell their scale, and not exactly.
            if measurement.y.is_complex():
                taken |= score(take_scale(model, measurement, brightness))
        report(f"scores: {len(stated)} of {len(again)}")
    if factors is None:
        told = _list_levels(samples)
        some = _reconstruct_some(model, images, samples, calls, intervals, seed, report, data)
        contrasts = RegionFit(told, seed)
        factors, local = fit_widths(contrasts.watch(some), told)
        regions = contrasts.fit()
    return Calibration(
        looks,
        _fit_usual(stated, whose),
        dict(factors),
        brightness,
        on,
        local,
        regions,
        taken=_fit_usual(taken, whose) if len(taken) >= LEAST else None,
        calls=calls,
    )


def halve(subjects: Sequence[str]) -> tuple[list[int], list[int]]:
    """Numbers of images in about two halves, no subject in both; but one alone is cut in two.

    >>> halve(["a", "a", "a", "b"]), halve(["a", "b", "a", "b"]), halve(["a"] * 4)
    (([0, 1, 2], [3]), ([0, 2], [1, 3]), ([0, 1], [2, 3]))
    """
    names, half = list(dict.fromkeys(subjects)), len(subjects) // 2
    order = sorted(range(len(subjects)), key=lambda k: names.index(subjects[k]))
    near = range(half - half // 2, half + half // 2 + 1)
    ends = [k for k in near if 0 < k < len(order)]
    ends = [k for k in ends if subjects[order[k - 1]] != subjects[order[k]]]
    end = min(ends, key=lambda end: abs(end - half), default=half)
    return order[:end], order[end:]


def fit_regions(
    model: Model,
    images: Tensor,
    *,
    samples: int = 20,
    calls: int = 20,
    intervals: int = 60,
    seed: int = 0,
    report: Callable[[str], None],
    data: Path | None = None,
) -> RegionFactors | None:
    """Only the factors of contrasts of regions, as `calibrate` fits them; None where none can be.

    They vary more from image to image than those of pixels, so they may take more images.

    Args:
        model: The model.
        images: Of validation, prepared, (N, C, H, W).
        samples: Per image.
        calls: Network calls per sample.
        intervals: How many images, evenly spaced.
        seed: Of measurements, samples and places.
        report: Called with each line about progress.
        data: The folder of files that operators are drawn from; BCDM_DATA when left out.
    """
    images = _vary(model, images, seed)
    contrasts = RegionFit(_list_levels(samples), seed)
    some = _reconstruct_some(model, images, samples, calls, intervals, seed, report, data)
    for _ in contrasts.watch(some):
        pass
    return contrasts.fit()


def fit_fallback(
    model: Model,
    images: Tensor,
    *,
    samples: int = 20,
    calls: int = 20,
    intervals: int = 60,
    seed: int = 0,
    report: Callable[[str], None],
    data: Path | None = None,
) -> LocalFactors | None:
    """The factors of intervals where MMPS draws the samples, as `calibrate` fits the model's own.

    By operators of the model's family: those outside of it, which MMPS is for, have no end.

    Args:
        model: One that was also trained on nothing.
        images: Of validation, prepared, (N, C, H, W).
        samples: Per image.
        calls: Of the method per sample.
        intervals: How many images, evenly spaced.
        seed: Of measurements and samples.
        report: Called with each line about progress.
        data: The folder of files that operators are drawn from; BCDM_DATA when left out.
    """
    images = _vary(model, images, seed)
    made = partial(make_fallback, model, reason="")
    some = _reconstruct_some(model, images, samples, calls, intervals, seed, report, data, made)
    return fit_widths(some, _list_levels(samples))[1]


def _list_levels(samples: int) -> list[float]:
    """Those that so many samples resolve."""
    return [level for level in LEVELS if level <= (samples - 1) / (samples + 1)]


def _score(
    model: Model,
    looks: Mapping[str, Typicality | Discriminant],
    numbers: Sequence[int],
    calls: int,
    seed: int,
    measurement: Measurement,
) -> Scored:
    """The scores of a measurement of images with these numbers, with one sample each."""
    drawn = reconstruct(
        model,
        measurement,
        samples=1,
        calls=calls,
        seed=seed + numbers[0],
        progress=False,
        force=True,
    )
    rows = find_scores(model, measurement, looks, drawn.preview, drawn.samples)
    return dict(zip(numbers, rows, strict=True))


def _fit_usual(scored: Scored, subjects: Sequence[str]) -> Usual:
    """What to compare with: tables, trends, and the threshold for new subjects."""
    numbers = sorted(scored)
    rows = [scored[number] for number in numbers]
    whose = [subjects[number] for number in numbers]
    start = Usual(shares=dict(SHARES))
    return replace(_compare(start, rows), threshold=_choose_threshold(start, rows, whose))


def _compare(start: Usual, rows: Sequence[Mapping[str, float]]) -> Usual:
    """What compares with these scores of right measurements."""
    whole = replace(start, trends=_fit_trends(rows))
    return replace(whole, tables=_tabulate([whole.place(row) for row in rows]))


def _fit_trends(rows: Sequence[Mapping[str, float]]) -> dict[str, Trend]:
    """How each score follows mask and noise; none where these are the same for all."""
    trends = {}
    for name in NAMES:
        own = [row for row in rows if name in row]
        where = torch.tensor([[row[k] for k in CONDITIONS] for row in own]).double().log()
        if len(own) >= _FEW and bool((where.amax(0) - where.amin(0)).max() > 1e-6):
            trends[name] = Trend.fit(where, torch.tensor([row[name] for row in own]).double())
    return trends


def _choose_threshold(
    start: Usual, rows: Sequence[Mapping[str, float]], subjects: Sequence[str] | None
) -> float:
    """The least tail that `ALARM` of right measurements of *new* subjects are below.

    Subjects are left out in turn: among measurements of the same head a rank says too little about
    the next one. Where all are of one subject, nothing better is known, and measurements are.
    """
    is_one = subjects is None or len(set(subjects)) == 1
    names = np.array([str(k) for k in range(len(rows))] if is_one else subjects)
    folds = np.unique(names, return_inverse=True)[1] % _FOLDS
    least = []
    for fold in np.unique(folds):
        others = _compare(start, [row for row, k in zip(rows, folds, strict=True) if k != fold])
        for row, k in zip(rows, folds, strict=True):
            if k == fold:
                least.append(others.find_least(row))
    return float(np.quantile(least, ALARM, method="lower"))


def _tabulate(rows: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """The scores of right measurements by name, sorted; names without any are left out."""
    tables = {name: sorted(row[name] for row in rows if name in row) for name in NAMES}
    broken = [name for name, table in tables.items() if not np.isfinite(table).all()]
    if broken:
        # Nothing can be told from right measurements whose scores are no numbers.
        raise ModelError(f"scores of right measurements are not finite: {', '.join(broken)}")
    return {name: table for name, table in tables.items() if table}


def _reconstruct_some(
    model: Model,
    images: Tensor,
    samples: int,
    calls: int,
    intervals: int,
    seed: int,
    report: Callable[[str], None],
    data: Path | None,
    choose: Callable[[Measurement], Guest] | None = None,
) -> Iterator[tuple[Posterior, Tensor]]:
    """Posteriors of images, evenly spaced, and the truth behind each; by the model, or a guest."""
    wide = np.linspace(0, len(images) - 1, min(intervals, len(images))).round().astype(int)
    for done, k in enumerate(wide.tolist()):
        image = images[k : k + 1]
        measurement = simulate(model, image, [k], seed, data)
        posterior = reconstruct(
            model if choose is None else choose(measurement),
            measurement,
            samples=samples,
            calls=calls,
            seed=seed + k,
            progress=False,
            force=True,
        )
        yield posterior, image
        if (done + 1) % 10 == 0:
            report(f"intervals: {done + 1} of {len(wide)}")


def _fit_looks(
    model: Model, images: Tensor, first: int, seed: int, data: Path | None
) -> tuple[dict[str, Typicality | Discriminant], tuple[float, float, float]]:
    """What is typical of images measured right, what tells other contrasts, and how bright all are.

    Other contrasts are drawn (`change_contrast`): images of another kind are not needed. A model
    that was trained with several contrasts is not told which are others.
    """
    low, high = model.config.data.value_range
    right = _describe_all(model, images, first, seed, data)
    looks: dict[str, Typicality | Discriminant] = {
        name: Typicality.fit(found)
        for name, found in right.items()
        if name not in ("grey levels", "brightness")
    }
    bright = right["brightness"].numpy() / (high - low)
    least, middle, most = np.quantile(bright, [0.01, 0.5, 0.99]).tolist()
    if model.config.data.contrast:
        return looks, (least, middle, most)
    # Brightness as it comes in files must not tell them apart, so both kinds vary in it.
    count, twice = len(images), torch.cat([images, images])
    other = change_gain(_change_magnitude(twice, (low, high), seed), low, seed)
    wrong = _describe_all(model, other, first + count, seed, data)
    brighter = change_gain(images, low, seed + 1)
    more = _describe_all(model, brighter, first + 3 * count, seed, data)
    looks["grey levels"] = Discriminant.fit(
        torch.cat([right["grey levels"], more["grey levels"]]), wrong["grey levels"]
    )
    return looks, (least, middle, most)


def _vary(model: Model, images: Tensor, seed: int) -> Tensor:
    """Images (N, C, H, W), of which as many have other contrasts as in the model's training."""
    share = model.config.data.contrast
    if not share:
        return images
    chosen = np.random.default_rng([seed, len(images)]).uniform(size=len(images)) < share
    changed = change_contrast(images, model.config.data.value_range, seed)
    return torch.where(torch.from_numpy(chosen)[:, None, None, None], changed, images)


def _change_magnitude(images: Tensor, value_range: tuple[float, float], seed: int) -> Tensor:
    """Another contrast; complex images keep their phase."""
    changed = change_contrast(as_shown(images), value_range, seed)
    return torch.polar(changed, images.angle()) if images.is_complex() else changed


@torch.no_grad()
def _describe_all(
    model: Model, images: Tensor, first: int, seed: int, data: Path | None
) -> dict[str, Tensor]:
    """Every look at images measured as in training, (N, n) each, and their brightness, (N,)."""
    found: dict[str, list[Tensor]] = {}
    for _, measurement in measure(model, images, first, seed, data):
        denoiser = model.method.condition(measurement)
        mean = posterior_mean(denoiser, seed=seed, items=identify(measurement))
        linear = model.scales.estimate_linearly(measurement)
        bright = find_brightness(linear, model.config.data.value_range[0])
        described = look(model, measurement, mean) | {"brightness": bright}
        for name, description in described.items():
            found.setdefault(name, []).append(description)
    return {name: torch.cat(parts) for name, parts in found.items()}
