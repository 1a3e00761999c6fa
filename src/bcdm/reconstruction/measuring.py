"""Measurements of known images as a model was trained for: operators, noise and phases drawn."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.checkpoint.building import build_problems
from bcdm.data.phase import draw_phase
from bcdm.measurement import Measurement
from bcdm.operators import LinearOperator, Root
from bcdm.problems.draws import DrawnProblems

__all__ = ["measure", "simulate"]

BATCH = 16


def measure(
    model: Model, images: Tensor, first: int, seed: int, data: Path | None = None
) -> Iterator[tuple[list[int], Measurement]]:
    """Measurements as the model was trained for, in batches of one kind of operator.

    Args:
        model: The model.
        images: All of them, (N, C, H, W). Magnitudes get a phase where the model's images have one.
        first: The number of the first image; what is drawn depends on it.
        seed: Of the noise.
        data: The folder of files that operators are drawn from; BCDM_DATA when left out.

    Yields:
        Which of the images, and their measurement.
    """
    for start in range(0, len(images), BATCH):
        rows = list(range(start, min(start + BATCH, len(images))))
        for operator, places, std in _draw(model, [first + k for k in rows], data):
            chosen = [rows[k] for k in places]
            numbers = [first + k for k in chosen]
            shown = _add_phase(model, images[chosen], numbers, seed)
            yield (
                chosen,
                Measurement.simulate(shown, operator, std, seed=seed, indices=numbers),
            )


def simulate(
    model: Model, images: Tensor, numbers: Sequence[int], seed: int, data: Path | None = None
) -> Measurement:
    """Measurements as the model was trained for, of images (B, C, H, W) with these numbers.

    Of one image only, if the model serves several kinds of operators.
    """
    ((operator, _, std),) = _draw(model, numbers, data)
    shown = _add_phase(model, images, numbers, seed)
    return Measurement.simulate(shown, operator, std, seed=seed, indices=numbers)


def _add_phase(model: Model, images: Tensor, numbers: Sequence[int], seed: int) -> Tensor:
    """Images as the model has them: complex ones by a smooth phase of their number.

    Training adds local phases, too; thresholds and widths of shipped models are without them.
    """
    if not model.config.data.phase or images.is_complex():
        return images
    size = (images.shape[-2], images.shape[-1])
    drawn = [draw_phase(size, rng=np.random.default_rng([seed, number])) for number in numbers]
    return torch.polar(images.clamp_min(0), torch.stack(drawn)[:, None].expand_as(images))


def _draw(
    model: Model, numbers: Sequence[int], data: Path | None
) -> list[tuple[LinearOperator, list[int], Tensor]]:
    """Operators for these numbers, which of them each is for, and their noise levels."""
    everyone = list(range(len(numbers)))
    if model.config.operator.kind != "family":
        return [(model.operator, everyone, torch.tensor([model.noise_std]))]
    problems = build_problems(model.config, (model.shape[-2], model.shape[-1]), data=data)
    assert isinstance(problems, DrawnProblems)
    # Far from what training drew; where nothing is measured there is nothing to judge.
    counters = [(1 << 40) + number for number in numbers]
    drawn, std = replace(problems, nothing=0.0).draw(counters)
    if not isinstance(drawn, Root):
        return [(drawn, everyone, std)]
    rows = [everyone] if drawn.rows is None else [own.tolist() for own in drawn.rows]
    return [(operator, own, std[own]) for operator, own in zip(drawn.operators, rows, strict=True)]
