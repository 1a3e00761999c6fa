"""Which images of a model's data are taken: a split, evenly spaced."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bcdm.assessment.options import Options, choose_problem
from bcdm.checkpoint import Model
from bcdm.checkpoint.settings import resolve_data_path
from bcdm.data import ImageSource, assign_splits, open_images, select_split
from bcdm.errors import InputError
from bcdm.problems import OneProblem
from bcdm.reconstruction.calibrating import LEAST

__all__ = ["Tested", "choose_evenly", "choose_images", "choose_training_images", "open_tested"]


@dataclass(frozen=True)
class Tested:
    """What methods are tried on.

    Attributes:
        images: (N, C, H, W).
        rows: Their numbers in the split.
        subjects: Whose they are.
        problem: What they are measured with.
        whole: How many there would be where `few` were not asked for.
    """

    images: Tensor
    rows: list[int]
    subjects: list[str]
    problem: OneProblem
    whole: int


def open_tested(model: Model, options: Options, few: int | None = None) -> Tested:
    """The images that options choose, prepared; `few` of them, evenly again, if that is given."""
    if model.config.data.phase:
        raise InputError(
            f"{model.name} makes complex images, which are not judged like this: take "
            "bcdm benchmark scans"
        )
    source, every = choose_images(model, options.data, options.split, options.limit)
    rows = [every[k] for k in choose_evenly(len(every), few or len(every))]
    images = torch.stack([model.preparation(source[i]) for i in rows])
    named = source.subjects or range(len(source))
    subjects = [str(named[i]) for i in rows]
    return Tested(images, rows, subjects, choose_problem(model, options), len(every))


def choose_evenly(count: int, few: int) -> list[int]:
    """Which of `count` images are taken where `few` are.

    >>> choose_evenly(10, 4)
    [0, 3, 6, 9]
    """
    positions = np.linspace(0, count - 1, min(few, count)).round().astype(int)
    return [int(k) for k in positions]


def choose_images(
    model: Model, data: Path | None, split: str, limit: int | None
) -> tuple[ImageSource, list[int]]:
    """The images of a split that was not trained on, and which of them are taken: evenly spaced.

    Args:
        model: Whose data.
        data: The data folder; None takes BCDM_DATA.
        split: Such as "valid" or "test".
        limit: At most so many; None takes all.
    """
    if split == "train":
        raise InputError("results from training images mean nothing: choose another split")
    subset = _open_split(model, data, split)
    if not len(subset):
        raise InputError(f"the data has no {split!r} images")
    return subset, choose_evenly(len(subset), limit or len(subset))


def choose_training_images(model: Model, data: Path | None, limit: int) -> list[Tensor]:
    """Images the model was trained on, prepared, evenly spaced; none if they are fewer than forty.

    They tell what is typical; no result may rest on them.
    """
    subset = _open_split(model, data, "train")
    if len(subset) < min(limit, 2 * LEAST):
        return []
    return [model.preparation(subset[i]) for i in choose_evenly(len(subset), limit)]


def _open_split(model: Model, data: Path | None, split: str) -> ImageSource:
    settings = model.config.data
    path = resolve_data_path(settings.path, data)
    source = open_images(path, settings.key, settings.source_range)
    return select_split(
        source, assign_splits(source, settings.fractions, settings.split_seed), split
    )
