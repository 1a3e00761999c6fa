"""What a model's scores are on measurements that are right, and how its intervals must be scaled.

Fitted on validation images that the model was not trained on, stored with the model.
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
from bcdm.construction import build_problems
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.noise import estimate_from_image, estimate_from_k_space
from bcdm.operators import FourierMask, LinearOperator, PixelMask, Root
from bcdm.problems import OneProblem
from bcdm.reconstruction.posterior import Posterior, reconstruct
from bcdm.reconstruction.scores import (
    Typicality,
    chi_square_of,
    describe,
    measure_held_out,
)

__all__ = ["ALARM", "Calibration", "calibrate", "fit_intervals", "measure", "store"]

ALARM = 0.05
LEVELS = (0.5, 0.8, 0.9)
NAMES = ("residual", "held-out data", "typicality", "noise level")


@dataclass(frozen=True)
class Calibration:
    """What to compare a measurement with.

    Attributes:
        typicality: Of linear estimates.
        tables: Scores of measurements that are right, sorted, by name; larger is worse.
        threshold: Flag where the smallest tail probability is below: a fraction `ALARM` is.
        factors: By which intervals of each level are widened to hold what they promise.
        brightness: What the 99 % quantile of a linear estimate is of the model's range, typically:
            the scale of data in units that nobody stated.
        on: What it was fitted on, in words.
    """

    typicality: Typicality
    tables: dict[str, list[float]]
    threshold: float
    factors: dict[float, float]
    brightness: float
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
            "typicality": self.typicality.to_plain(),
            "tables": {k: [round(v, 6) for v in table] for k, table in self.tables.items()},
            "threshold": self.threshold,
            "factors": {str(level): factor for level, factor in self.factors.items()},
            "brightness": self.brightness,
            "on": self.on,
        }

    @classmethod
    def of(cls, model: Model) -> Self | None:
        """The one stored with a model; None if it has none."""
        plain = model.facts.get("calibration")
        if plain is None:
            return None
        factors = {float(level): factor for level, factor in plain["factors"].items()}
        typicality = Typicality.from_plain(plain["typicality"])
        rest = (plain["brightness"], plain["on"])
        return cls(typicality, plain["tables"], plain["threshold"], factors, *rest)


def measure(
    model: Model, measurement: Measurement, typicality: Typicality, samples: Tensor | None = None
) -> list[dict[str, float]]:
    """Scores of each measurement of a batch, by name; larger is worse.

    Args:
        model: The model.
        measurement: In its units.
        typicality: What is typical.
        samples: Posterior samples (S, B, ...), for the residual; left out: no such score.
    """
    columns: dict[str, Sequence[float]] = {}
    if samples is not None:
        reduced, _ = chi_square_of(measurement, samples[0])
        columns["residual"] = reduced.log().abs().tolist()
    held = measure_held_out(model, measurement)
    if held is not None:
        columns["held-out data"] = held.clamp_min(1e-30).log().tolist()
    distances = typicality.measure(describe(model, measurement))
    columns["typicality"] = distances.clamp_min(1e-30).log().tolist()
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
            found = estimate_from_k_space(y, operator.mask[..., :, :].cpu().numpy() != 0)
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
    samples: int = 20,
    calls: int = 20,
    seed: int = 0,
    on: str,
    report: Callable[[str], None],
) -> Calibration:
    """Fits on validation images: half of them say what is typical, half how scores are spread.

    Args:
        model: The model.
        images: Prepared, (N, C, H, W), in an order in which halves hold different subjects.
        samples: Per image.
        calls: Network calls per sample.
        seed: Of measurements and samples.
        on: What the images are, in words.
        report: Hears of progress.
    """
    half = len(images) // 2
    if half < 20:
        raise InputError(f"{len(images)} images are too few to calibrate: give 40 or more")
    right = [simulate(model, images[k : k + 1], k, seed) for k in range(half)]
    typicality = Typicality.fit(torch.cat([describe(model, one) for one in right]))
    brightness = float(np.median([measure_brightness(model, one) for one in right]))
    rows: list[dict[str, float]] = []
    told = [level for level in LEVELS if level <= (samples - 1) / (samples + 1)]
    ratios: dict[float, list[Tensor]] = {level: [] for level in told}
    for k in range(half, len(images)):
        measurement = simulate(model, images[k : k + 1], k, seed)
        posterior = reconstruct(model, measurement, samples=samples, calls=calls,
                                seed=seed + k, progress=False)  # fmt: skip
        rows += measure(model, measurement, typicality, posterior.samples)
        for level in told:
            ratios[level].append(exceed(posterior, images[k : k + 1], level))
        if (k + 1 - half) % 20 == 0:
            report(f"calibrating: {k + 1 - half} of {len(images) - half}")
    tables = {name: sorted(row[name] for row in rows if name in row) for name in NAMES}
    tables = {name: table for name, table in tables.items() if table}
    factors = {level: fit_intervals(torch.cat(parts), level) for level, parts in ratios.items()}
    open_ended = Calibration(typicality, tables, 0.0, factors, brightness, on)
    least = [min(open_ended.find_tails(row).values()) for row in rows]
    threshold = float(np.quantile(least, ALARM))
    return replace(open_ended, threshold=threshold)


def simulate(model: Model, image: Tensor, number: int, seed: int) -> Measurement:
    """A measurement as the model was trained for, of one image (1, C, H, W)."""
    problems = build_problems(model.config, (model.shape[-2], model.shape[-1]))
    if isinstance(problems, OneProblem):
        operator: LinearOperator = problems.operator
        std = torch.tensor([problems.noise_std])
    else:
        # Far from what training drew.
        drawn, std = problems.draw([(1 << 40) + number])
        assert isinstance(drawn, Root)
        operator = drawn.operators[0]
    return Measurement.simulate(image, operator, std, seed=seed, indices=[number])


def measure_brightness(model: Model, measurement: Measurement) -> float:
    """The 99 % quantile of the linear estimate, as a fraction of the model's range."""
    low, high = model.config.data.value_range
    image = model.method.parameterisation.estimate_linearly(measurement)
    return (float(image.flatten().quantile(0.99)) - low) / (high - low)


def exceed(posterior: Posterior, truth: Tensor, level: float) -> Tensor:
    """How far the truth is from the middle of its interval, in half widths, for every pixel."""
    low, high = posterior.interval(level)
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
