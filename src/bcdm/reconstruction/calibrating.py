"""Fits a calibration: a model's scores on right measurements, and the widths of its intervals.

On validation images that the model was not trained on. Only what is typical may come from training
images: that needs many, and is no judgement of the model.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.checkpoint.building import build_problems
from bcdm.checkpoint.calibration import Calibration, LocalFactors, Typicality
from bcdm.checkpoint.regions import RegionFactors
from bcdm.diffusion import posterior_mean
from bcdm.errors import InputError, ModelError
from bcdm.evaluation.signal import find_brightness
from bcdm.identity import identify
from bcdm.measurement import Measurement
from bcdm.operators import Root
from bcdm.reconstruction.posterior import Posterior, reconstruct
from bcdm.reconstruction.regions import RegionFit
from bcdm.reconstruction.widths import fit_widths
from bcdm.trust.looks import look
from bcdm.trust.scores import NAMES, find_scores

__all__ = ["ALARM", "LEVELS", "calibrate", "simulate"]

ALARM = 0.05
BATCH = 16
LEVELS = (0.5, 0.8, 0.9)


def calibrate(
    model: Model,
    images: Tensor,
    *,
    typical: Tensor | None = None,
    samples: int = 20,
    calls: int = 20,
    intervals: int = 60,
    factors: Mapping[float, float] | None = None,
    local: LocalFactors | None = None,
    regions: RegionFactors | None = None,
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
        factors: Of the widths over all pixels, if they are known: they depend on model and
            sampler alone.
        local: Those by the local signal, if the former are given.
        regions: Those of contrasts of regions, if the former are given.
        seed: Of measurements and samples.
        on: What the images are, in words.
        report: Called with each line about progress.
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
        posterior = reconstruct(
            model, measurement, samples=1, calls=calls, seed=seed + numbers[0], progress=False
        )
        rows += find_scores(model, measurement, looks, posterior.preview, posterior.samples)
        report(f"scores: {len(rows)} of {len(images)}")
    if factors is None:
        told = [level for level in LEVELS if level <= (samples - 1) / (samples + 1)]
        some = _reconstruct_some(model, images, samples, calls, intervals, seed, report)
        contrasts = RegionFit(told, seed)
        factors, local = fit_widths(contrasts.watch(some), told)
        regions = contrasts.fit()
    open_ended = Calibration(
        looks, _tabulate(rows), 0.0, dict(factors), brightness, on, local, regions
    )
    least = [min(open_ended.find_tails(row).values()) for row in rows]
    threshold = float(np.quantile(least, ALARM))
    return replace(open_ended, threshold=threshold)


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
) -> Iterator[tuple[Posterior, Tensor]]:
    """Posteriors of images, evenly spaced, and the truth behind each."""
    wide = np.linspace(0, len(images) - 1, min(intervals, len(images))).round().astype(int)
    for done, k in enumerate(wide.tolist()):
        image = images[k : k + 1]
        measurement = simulate(model, image, [k], seed)
        posterior = reconstruct(
            model, measurement, samples=samples, calls=calls, seed=seed + k, progress=False
        )
        yield posterior, image
        if (done + 1) % 10 == 0:
            report(f"intervals: {done + 1} of {len(wide)}")


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
        bright += (find_brightness(linear, low) / (high - low)).tolist()
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
