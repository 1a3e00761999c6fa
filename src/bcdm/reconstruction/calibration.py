"""What a model's scores are on measurements that are right, and how its intervals must be scaled.

Fitted on validation images that the model was not trained on, stored with the model. Only what is
typical may come from training images: that needs many, and is no judgement of the model.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint import Model, read_facts, write_facts
from bcdm.checkpoint.building import build_problems
from bcdm.diffusion import posterior_mean
from bcdm.errors import InputError
from bcdm.identity import identify
from bcdm.measurement import Measurement
from bcdm.noise import estimate_from_image, estimate_from_k_space
from bcdm.operators import FourierMask, PixelMask, Root
from bcdm.reconstruction.posterior import Posterior, reconstruct
from bcdm.reconstruction.scores import (
    Typicality,
    chi_square_of,
    describe,
    find_spots,
    measure_brightness,
    measure_held_out,
)

__all__ = ["ALARM", "Calibration", "calibrate", "fit_intervals", "measure", "store"]

ALARM = 0.05
BATCH = 16
LEVELS = (0.5, 0.8, 0.9)
NAMES = (
    "residual", "held-out data", "typicality", "bright spots", "reconstruction", "noise level",
)  # fmt: skip


@dataclass(frozen=True)
class Calibration:
    """What to compare a measurement with.

    Attributes:
        looks: What is typical, by the names of looks.
        tables: Scores of measurements that are right, sorted, by name; larger is worse.
        threshold: Flag where the smallest tail probability is below: a fraction `ALARM` is.
        factors: By which intervals of each level are widened to hold what they promise.
        brightness: How much of the model's range the 99 % quantile of a linear estimate is: the
            1, 50 and 99 % quantiles over images. The scale of data in units that nobody stated.
        on: What it was fitted on, in words.
    """

    looks: dict[str, Typicality]
    tables: dict[str, list[float]]
    threshold: float
    factors: dict[float, float]
    brightness: tuple[float, float, float]
    on: str

    def find_tails(self, scores: Mapping[str, float]) -> dict[str, float]:
        """The fraction of right measurements with as bad a score, by name."""
        tails = {}
        for name, score in scores.items():
            table = self.tables.get(name)
            if table:
                worse = len(table) - int(np.searchsorted(table, score))
                tails[name] = (1 + worse) / (1 + len(table))
        return tails

    def to_plain(self) -> dict[str, Any]:
        """As numbers that JSON can hold."""
        return {
            "looks": {name: look.to_plain() for name, look in self.looks.items()},
            "tables": {k: [round(v, 6) for v in table] for k, table in self.tables.items()},
            "threshold": self.threshold,
            "factors": {str(level): factor for level, factor in self.factors.items()},
            "brightness": list(self.brightness),
            "on": self.on,
        }

    @classmethod
    def of(cls, model: Model) -> Self | None:
        """The one stored with a model; None if it has none."""
        plain = model.facts.get("calibration")
        # Scores of an earlier kind cannot be compared with today's.
        if plain is None or not isinstance(plain.get("brightness"), list):
            return None
        factors = {float(level): factor for level, factor in plain["factors"].items()}
        looks = {name: Typicality.from_plain(look) for name, look in plain["looks"].items()}
        brightness, on = tuple(plain["brightness"]), plain["on"]
        return cls(looks, plain["tables"], plain["threshold"], factors, brightness, on)


def find_factor(model: Model, level: float) -> float:
    """How many times as wide intervals should be as those of the samples; 1 if nothing is known.

    Between levels that were fitted it is interpolated, beyond them that of the nearest.
    """
    calibration = Calibration.of(model)
    if calibration is None or not calibration.factors:
        return 1.0
    levels = sorted(calibration.factors)
    return float(np.interp(level, levels, [calibration.factors[one] for one in levels]))


def look(model: Model, measurement: Measurement, mean: Tensor) -> dict[str, Tensor]:
    """Descriptions of what measurements show, (B, n) each: by linear estimate and by mean."""
    black = model.config.data.value_range[0]
    linear = model.method.parameterisation.estimate_linearly(measurement)
    return {
        "typicality": describe(linear, black),
        "bright spots": find_spots(linear, black),
        "reconstruction": describe(mean, black),
    }


def measure(
    model: Model,
    measurement: Measurement,
    looks: Mapping[str, Typicality],
    mean: Tensor,
    samples: Tensor | None = None,
) -> list[dict[str, float]]:
    """Scores of each measurement of a batch, by name; larger is worse.

    Args:
        model: The model.
        measurement: In its units.
        looks: What is typical.
        mean: The posterior mean by one call, (B, C, H, W).
        samples: Posterior samples (S, B, ...), for the residual; left out: no such score.
    """
    columns: dict[str, Sequence[float]] = {}
    if samples is not None:
        reduced, _ = chi_square_of(measurement, samples[0])
        columns["residual"] = reduced.log().abs().tolist()
    held = measure_held_out(model, measurement)
    if held is not None:
        linear = model.method.parameterisation.estimate_linearly(measurement)
        bright = measure_brightness(linear, model.config.data.value_range[0])
        columns["held-out data"] = (held / bright.cpu() ** 2).clamp_min(1e-30).log().tolist()
    for name, description in look(model, measurement, mean).items():
        columns[name] = looks[name].measure(description).clamp_min(1e-30).log().tolist()
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for number, row in enumerate(rows):
        ratio = compare_noise(measurement.select(torch.tensor([number])))
        if ratio is not None:
            row["noise level"] = abs(math.log(ratio))
    return rows


def compare_noise(measurement: Measurement) -> float | None:
    """The noise that a measurement shows over the one that is stated; None where it shows none."""
    y, operator = measurement.y.cpu().numpy(), measurement.operator
    try:
        if isinstance(operator, FourierMask):
            mask = operator.mask.cpu().numpy() != 0
            found = estimate_from_k_space(y, mask.reshape(-1, *mask.shape[-2:])[0])
        else:
            known = operator.mask.cpu().numpy() != 0 if isinstance(operator, PixelMask) else None
            found = estimate_from_image(y, known)
    except InputError:
        return None
    return found.std / float(measurement.std[0])


def calibrate(
    model: Model,
    images: Tensor,
    *,
    typical: Tensor | None = None,
    samples: int = 20,
    calls: int = 20,
    intervals: int = 60,
    factors: Mapping[float, float] | None = None,
    seed: int = 0,
    on: str,
    report: Callable[[str], None],
) -> Calibration:
    """Fits what is typical on training images, and all the rest on validation images.

    Args:
        model: The model.
        images: Of validation, prepared, (N, C, H, W).
        typical: Of training. Left out: the first half of `images`, which should hold other
            subjects than the second.
        samples: Per image.
        calls: Network calls per sample.
        intervals: How many images, evenly spaced, the widths of intervals are fitted on.
        factors: Of the widths, if they are known: they depend on model and sampler alone.
        seed: Of measurements and samples.
        on: What the images are, in words.
        report: Hears of progress.
    """
    if typical is None:
        half = len(images) // 2
        typical, images = images[:half], images[half:]
    if min(len(images), len(typical)) < 20:
        raise InputError(f"{len(images)} images are too few to calibrate: give 40 or more")
    looks, brightness = _fit_looks(model, typical, len(images), seed)
    rows: list[dict[str, float]] = []
    for numbers in _split(model, len(images)):
        measurement = simulate(model, images[numbers], numbers, seed)
        posterior = reconstruct(model, measurement, samples=1, calls=calls,
                                seed=seed + numbers[0], progress=False)  # fmt: skip
        rows += measure(model, measurement, looks, posterior.mean, posterior.samples)
        report(f"scores: {len(rows)} of {len(images)}")
    if factors is None:
        factors = _fit_factors(model, images, samples, calls, intervals, seed, report)
    tables = {name: sorted(row[name] for row in rows if name in row) for name in NAMES}
    tables = {name: table for name, table in tables.items() if table}
    open_ended = Calibration(looks, tables, 0.0, dict(factors), brightness, on)
    least = [min(open_ended.find_tails(row).values()) for row in rows]
    threshold = float(np.quantile(least, ALARM))
    return replace(open_ended, threshold=threshold)


def _fit_factors(
    model: Model,
    images: Tensor,
    samples: int,
    calls: int,
    intervals: int,
    seed: int,
    report: Callable[[str], None],
) -> dict[float, float]:
    """By how much intervals must grow, by level, as far as so many samples resolve it."""
    told = [level for level in LEVELS if level <= (samples - 1) / (samples + 1)]
    ratios: dict[float, list[Tensor]] = {level: [] for level in told}
    wide = np.linspace(0, len(images) - 1, min(intervals, len(images))).round().astype(int)
    for done, k in enumerate(wide.tolist()):
        image = images[k : k + 1]
        posterior = reconstruct(model, simulate(model, image, [k], seed), samples=samples,
                                calls=calls, seed=seed + k, progress=False)  # fmt: skip
        for level in told:
            ratios[level].append(exceed(posterior, image, level))
        if (done + 1) % 10 == 0:
            report(f"intervals: {done + 1} of {len(wide)}")
    return {level: fit_intervals(torch.cat(parts), level) for level, parts in ratios.items()}


def _fit_looks(
    model: Model, images: Tensor, first: int, seed: int
) -> tuple[dict[str, Typicality], tuple[float, float, float]]:
    """What is typical of images measured right, and how bright they are."""
    low, high = model.config.data.value_range
    found: dict[str, list[Tensor]] = {}
    bright: list[float] = []
    for numbers in _split(model, len(images)):
        measurement = simulate(model, images[numbers], [first + k for k in numbers], seed)
        denoiser = model.method.condition(measurement)
        mean = posterior_mean(denoiser, seed=seed, items=identify(measurement))
        for name, description in look(model, measurement, mean).items():
            found.setdefault(name, []).append(description)
        linear = model.method.parameterisation.estimate_linearly(measurement)
        bright += (measure_brightness(linear, low) / (high - low)).tolist()
    looks = {name: Typicality.fit(torch.cat(parts)) for name, parts in found.items()}
    low, typical, high = np.quantile(bright, [0.01, 0.5, 0.99]).tolist()
    return looks, (low, typical, high)


def simulate(model: Model, images: Tensor, numbers: Sequence[int], seed: int) -> Measurement:
    """Measurements as the model was trained for, of images (B, C, H, W) with these numbers.

    Of one image only, if the model serves many operators.
    """
    if model.config.operator.kind != "family":
        operator, std = model.operator, torch.tensor([model.noise_std])
    else:
        problems = build_problems(model.config, (model.shape[-2], model.shape[-1]))
        # Far from what training drew.
        drawn, std = problems.draw([(1 << 40) + number for number in numbers])
        assert isinstance(drawn, Root)
        operator = drawn.operators[0]
    return Measurement.simulate(images, operator, std, seed=seed, indices=numbers)


def _split(model: Model, count: int) -> list[list[int]]:
    """Numbers of images that are measured alike, in batches."""
    size = BATCH if model.trained_operator is not None else 1
    return [list(range(start, min(start + size, count))) for start in range(0, count, size)]


def exceed(posterior: Posterior, truth: Tensor, level: float) -> Tensor:
    """How far the truth is from the middle of its interval, in half widths, for every pixel."""
    low, high = posterior.interval(level, calibrated=False)
    width = (high - low).clamp_min(1e-12) / 2
    return ((truth - (low + high) / 2).abs() / width).flatten().float()


def fit_intervals(ratios: Tensor, level: float) -> float:
    """The factor by which half widths must grow for a fraction `level` of pixels to be inside."""
    return float(np.quantile(ratios.numpy(), level))


def store(folder: Path, calibration: Calibration) -> None:
    """Writes a calibration into the facts and the card of a model."""
    content = read_facts(folder)
    content["facts"]["calibration"] = calibration.to_plain()
    write_facts(folder, content)
