"""How well the noise level is read from the measurement itself, where none is stated."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import Tensor

from bcdm.assessment.images import choose_images
from bcdm.assessment.records import Column, Record
from bcdm.assessment.statistics import bootstrap, bootstrap_rate
from bcdm.checkpoint import Model, load
from bcdm.measurement import Measurement
from bcdm.operators import LinearOperator, PixelMask
from bcdm.problems.families import Family, Holes, KSpace, Pattern
from bcdm.trust.scores import compare_noise

__all__ = ["COLUMNS", "KEYS", "run"]

LEVELS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
LIMIT = 0.05
MASKS: tuple[tuple[Pattern, int], ...] = (
    ("lines", 2),
    ("lines", 4),
    ("points", 8),
    ("radial", 8),
    ("points", 12),
)
K_SPACE: dict[str, Family] = {
    f"k-space, {pattern} {acceleration}x": KSpace((acceleration, acceleration), (pattern,))
    for pattern, acceleration in MASKS
}
PICTURES: dict[str, Family] = {"picture, a quarter hidden": Holes((0.25, 0.25))}
ERROR, SHARE = "median error of the noise level", "within 5 %"
KEYS = ("images", "measured", "noise_std")
COLUMNS = (
    Column("median error", ERROR, digits=3),
    Column("within 5 %", SHARE),
)


def run(
    name: str,
    *,
    data: Path | None,
    limit: int,
    together: int,
    command: str,
    report: Callable[[str], None],
    levels: Sequence[float] = LEVELS,
) -> list[Record]:
    """Measures test images at known noise levels and estimates these again.

    Args:
        name: The model whose images are taken; those of one channel also as k-space.
        data: Data folder.
        limit: Measurements of a kind.
        together: Neighbours in the data that are measured as one volume.
        command: For the records.
        report: Takes lines of progress.
        levels: The noise levels.
    """
    model = load(name)
    record = partial(Record, command=command, seed=0)
    rows: list[Record] = []
    for count in (1, together):
        groups = list(_group(model, data, limit, count))
        for measured, choose in _list_operators(model).items():
            for level in levels:
                errors = [
                    _judge(images, choose(number), level, number)
                    for number, images in enumerate(groups)
                ]
                kind = "one" if count == 1 else f"{count} together"
                case = {
                    "images": kind,
                    "measured": measured,
                    "noise_std": level,
                    "measurements": len(errors),
                }
                rows += _summarise(errors, case, record)
            report(f"noise: {count} images, {measured}")
    return rows


def _judge(images: Tensor, operator: LinearOperator, level: float, number: int) -> float:
    """The relative error of the estimate; infinite where there is none."""
    indices = range(number * len(images), (number + 1) * len(images))
    measurement = Measurement.simulate(images, operator, level, seed=0, indices=indices)
    ratio = compare_noise(measurement)
    return float("inf") if ratio is None else abs(ratio - 1)


def _summarise(
    errors: list[float], case: dict[str, object], record: Callable[..., Record]
) -> list[Record]:
    within = [float(error <= LIMIT) for error in errors]
    interval = bootstrap(errors, statistic=np.median)
    return [
        record(ERROR, case, median(errors), interval=interval, required=f"<= {LIMIT}"),
        record(SHARE, case, float(np.mean(within)), interval=bootstrap_rate(within)),
    ]


def _group(model: Model, data: Path | None, limit: int, count: int) -> Iterator[Tensor]:
    """Test images, `count` neighbours at a time, evenly spaced."""
    source, rows = choose_images(model, data, "test", None)
    groups = len(rows) // count
    for k in np.linspace(0, groups - 1, min(limit, groups)).round().astype(int):
        chosen = rows[k * count : (k + 1) * count]
        yield torch.stack([model.preparation(source[i]) for i in chosen])


def _list_operators(model: Model) -> dict[str, Callable[[int], LinearOperator]]:
    """What to measure with, each by a number."""
    size = (model.shape[-2], model.shape[-1])

    def draw(family: Family, number: int) -> LinearOperator:
        return family.draw(size, np.random.default_rng(number))

    families = K_SPACE | PICTURES if model.shape[0] == 1 else PICTURES
    found: dict[str, Callable[[int], LinearOperator]] = {
        name: partial(draw, family) for name, family in families.items()
    }
    return found | {"whole picture": lambda number: PixelMask(torch.ones(size))}
