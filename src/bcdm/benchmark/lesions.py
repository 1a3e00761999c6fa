"""Discs put into test images: are they seen, and do the samples say how bright they are?"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from bcdm.assessment.images import choose_evenly, choose_images
from bcdm.assessment.kept import Numbers, keep_numbers
from bcdm.assessment.records import Column, Record
from bcdm.checkpoint import Model, load
from bcdm.errors import InputError
from bcdm.evaluation import wilson
from bcdm.measurement import Measurement
from bcdm.operators import FourierMask
from bcdm.problems.patterns import draw_variable_density
from bcdm.reconstruction import reconstruct

__all__ = ["COLUMNS", "CONTRASTS", "KEYS", "RADII", "Exam", "find_interval", "place_disc", "run"]

RADII = (1.5, 2.0, 3.0, 4.0)
CONTRASTS = (-0.3, -0.17, -0.1, 0.0, 0.1, 0.17, 0.3)
KEYS = ("mask", "radius", "contrast")
COLUMNS = (
    Column("direction right", "direction right"),
    Column("80 % intervals cover", "coverage of 80 % intervals"),
    Column("90 % intervals cover", "coverage of 90 % intervals"),
    Column("outside of all samples", "outside of the range of samples"),
    Column("error over spread", "error of the contrast over its spread"),
    Column("green", "green cards"),
)
_LEVELS = (0.8, 0.9)
_RING = 3.0  # width of what a disc is compared with, in pixels
_BRIGHT = 0.15  # of the range of values: below is air
_BATCH = 8  # images that are reconstructed together


@dataclass(frozen=True)
class Exam:
    """How a model is examined.

    Attributes:
        radii: Of discs, in pixels.
        contrasts: In parts of the range of values; 0 asks the same of healthy places.
        limit: Subjects, one image and one place each.
        samples: Of each image.
        calls: Network calls per sample.
        noise_std: In the model's units.
        seed: Of slices, places, measurements and samples.
    """

    radii: Sequence[float] = RADII
    contrasts: Sequence[float] = CONTRASTS
    limit: int = 40
    samples: int = 19
    calls: int = 20
    noise_std: float = 0.02
    seed: int = 0


def run(
    name: str,
    data: Path | None,
    work: Path,
    command: str,
    exam: Exam,
    *,
    report: Callable[[str], None],
) -> list[Record]:
    """Examines a model for k-space masks, cell by cell; cells that are done are kept in `work`."""
    model = load(name)
    images, subjects = _choose_slices(model, data, exam)
    records: list[Record] = []
    for (mask_name, mask), radius, contrast in itertools.product(
        _draw_masks(model).items(), exam.radii, exam.contrasts
    ):
        where: dict[str, object] = {"mask": mask_name, "radius": radius, "contrast": contrast}
        asked = where | {
            "hashes": model.facts["hashes"],
            "subjects": subjects,
            "samples": exam.samples,
            "calls": exam.calls,
            "noise_std": exam.noise_std,
            "seed": exam.seed,
        }
        stored = work / f"{model.config.name}-{mask_name}-{radius}-{contrast}.npz".replace(" ", "-")

        def find(
            mask: Tensor = mask, radius: float = radius, contrast: float = contrast
        ) -> Numbers:
            return _examine(model, images, mask, radius, contrast, exam)

        report(f"{model.config.name}: {mask_name}, radius {radius}, contrast {contrast:+}")
        found = keep_numbers(stored, asked, find)
        case = {"model": name} | where | {"images": len(found["truth"])}
        case |= {"samples": exam.samples, "calls": exam.calls, "noise_std": exam.noise_std}
        records += _list(found, contrast, case, partial(Record, seed=exam.seed, command=command))
    return records


def place_disc(image: Tensor, radius: float, rng: np.random.Generator, black: float) -> Tensor:
    """How much of each pixel a disc covers, (H, W), at a random place well inside of the object.

    Args:
        image: (H, W).
        radius: In pixels.
        rng: Of the place.
        black: What is darker is air.
    """
    reach = int(radius) + 2
    side = 2 * reach + 1
    bright = (avg_pool2d(image[None, None], 3, 1, 1) > black).float()
    inside = avg_pool2d(bright, side, 1, reach)[0, 0] > 0.999
    places = inside.nonzero()
    if not len(places):
        raise InputError(f"no place for a disc of radius {radius} in an image")
    place = places[int(rng.integers(len(places)))].tolist()
    row, column = (where + rng.uniform(-0.5, 0.5) for where in place)
    rows, columns = (torch.arange(n, dtype=torch.float64) for n in image.shape)
    distance = torch.hypot(rows[:, None] - row, columns - column)
    return (radius + 0.5 - distance).clamp(0, 1).to(image.dtype)


def find_interval(values: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The central interval over samples (S, ...) that holds the truth with probability `level`.

    Of S samples and the truth every rank is equally likely, so its ends lie between order
    statistics.
    """
    count = len(values)
    if level > (count - 1) / (count + 1):
        raise InputError(f"{count} samples resolve no {level:.0%} interval: draw more")
    ordered = np.sort(values, 0)
    place = (1 - level) / 2 * (count + 1) - 1
    below, part = int(place), place - int(place)
    low = (1 - part) * ordered[below] + part * ordered[below + 1]
    high = (1 - part) * ordered[-1 - below] + part * ordered[-2 - below]
    return low, high


def _choose_slices(model: Model, data: Path | None, exam: Exam) -> tuple[Tensor, list[str]]:
    """One prepared test image of each of some subjects, (N, C, H, W)."""
    source, rows = choose_images(model, data, "test", None)
    names = [str(k) for k in rows] if source.subjects is None else list(source.subjects)
    each = sorted(set(names))
    chosen, images = [each[k] for k in choose_evenly(len(each), exam.limit)], []
    for number, name in enumerate(chosen):
        own = [k for k, other in enumerate(names) if other == name]
        # The outer slices of a head show little of it.
        own = own[len(own) // 4 : -(len(own) // 4) or None]
        rng = np.random.default_rng([exam.seed, 1, number])
        images.append(model.preparation(source[own[int(rng.integers(len(own)))]]))
    return torch.stack(images), chosen


def _draw_masks(model: Model) -> dict[str, Tensor]:
    size = (model.shape[-2], model.shape[-1])
    return {
        "points 8x": draw_variable_density(size, 8, centre=0.1, seed=0),
        "columns 4x": draw_variable_density(size, 4, centre=0.06, seed=0, lines=True),
    }


@torch.no_grad()
def _examine(
    model: Model, images: Tensor, mask: Tensor, radius: float, contrast: float, exam: Exam
) -> Numbers:
    """Contrasts of truth, of the image without the disc and of samples; and the lights."""
    low, high = model.preparation.value_range
    operator = FourierMask(mask, real=True)
    black = low + _BRIGHT * (high - low)
    # The same places for every contrast and mask, so that cells can be compared.
    place = partial(place_disc, radius=radius, black=black)
    rngs = [np.random.default_rng([exam.seed, 2, number]) for number in range(len(images))]
    places = [place(image.mean(0), rng=rng) for image, rng in zip(images, rngs, strict=True)]
    discs = torch.stack(places)[:, None]
    changed = (images + contrast * (high - low) * discs).clamp(low, high)
    weights = _weigh(discs)
    found: dict[str, list[np.ndarray]] = {}
    for rows in torch.arange(len(images)).split(_BATCH):
        measurement = Measurement.simulate(
            changed[rows], operator, exam.noise_std, seed=exam.seed + int(rows[0])
        )
        posterior = reconstruct(
            model,
            measurement,
            samples=exam.samples,
            calls=exam.calls,
            seed=exam.seed,
            progress=False,
        )
        parts = {
            "truth": _contrast(changed[rows], weights[rows]),
            "healthy": _contrast(images[rows], weights[rows]),
            "samples": _contrast(posterior.samples, weights[rows]),
            "light": np.array([card.light for card in posterior.trust]),
        }
        for name, part in parts.items():
            found.setdefault(name, []).append(part)
    return {name: np.concatenate(parts, -1) for name, parts in found.items()}


def _weigh(discs: Tensor) -> Tensor:
    """Weights whose sum over an image is the disc's mean minus that of the ring around it."""
    side = 2 * int(_RING) + 1
    around = avg_pool2d(discs, side, 1, int(_RING)) > 0
    ring = (around & (discs == 0)).to(discs.dtype)
    return discs / discs.sum((-2, -1), True) - ring / ring.sum((-2, -1), True)


def _contrast(images: Tensor, weights: Tensor) -> np.ndarray:
    """Of images (..., N, C, H, W), averaged over channels: (..., N)."""
    return (images * weights).sum((-2, -1)).mean(-1).numpy()


def _list(
    found: Numbers, contrast: float, case: dict[str, object], record: Callable[..., Record]
) -> Iterator[Record]:
    truth, samples = found["truth"], found["samples"]
    count = len(truth)

    def judge(name: str, holds: np.ndarray) -> Record:
        value = float(holds.mean())
        return record(name, case, value, "", wilson(value, count))

    if contrast:
        seen = samples.mean(0) - found["healthy"]
        yield judge("direction right", np.sign(seen) == np.sign(contrast))
    for level in _LEVELS:
        if level <= (len(samples) - 1) / (len(samples) + 1):
            low, high = find_interval(samples, level)
            name = f"coverage of {100 * level:.0f} % intervals"
            yield judge(name, (low <= truth) & (truth <= high))
    outside = (truth < samples.min(0)) | (truth > samples.max(0))
    yield judge("outside of the range of samples", outside)
    errors = (samples.mean(0) - truth) / samples.std(0, ddof=1)
    spread = float(np.sqrt((errors**2).mean()))
    yield record("error of the contrast over its spread", case, spread, "", None)
    if contrast:
        kept = (samples.mean(0) - found["healthy"]) / (truth - found["healthy"])
        yield record("part of the contrast in the mean", case, float(np.median(kept)), "", None)
    for light in ("green", "amber", "red"):
        yield judge(f"{light} cards", found["light"] == light)
