"""Discs put into test images: are they seen, and do the samples say how bright they are?"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bcdm.assessment.images import choose_evenly
from bcdm.assessment.kept import Numbers, keep_numbers
from bcdm.assessment.records import Column, Record
from bcdm.assessment.statistics import bootstrap_rate
from bcdm.benchmark.discs import Place, choose_places, draw_disc, measure, weigh
from bcdm.benchmark.discscans import choose_slices, count_together, list_masks, scan
from bcdm.checkpoint import Model, load
from bcdm.checkpoint.calibration import find_region_factors
from bcdm.checkpoint.lesions import Lesions
from bcdm.errors import InputError
from bcdm.evaluation.ranks import find_interval, resolves
from bcdm.reconstruction import reconstruct

__all__ = ["COLUMNS", "CONTRASTS", "KEYS", "RADII", "Exam", "run", "summarise"]

RADII = (1.5, 2.0, 3.0)
CONTRASTS = (-0.3, -0.17, -0.1, 0.1, 0.17, 0.3)
KEYS = ("regions",)
COLUMNS = (
    Column("number", "number of regions"),
    Column("direction right", "direction right"),
    Column("part of the contrast", "part of the contrast in the mean"),
    Column("80 % intervals hold", "coverage of 80 % intervals"),
    Column("widened, they hold", "coverage of widened 80 % intervals"),
    Column("outside of all samples", "outside of the range of samples"),
    Column("error over spread", "error of the contrast over its spread"),
    Column("green", "green cards"),
)
_LEVEL = 0.8
_BRIGHT = 0.15  # of the range of values: below is air
_DISCS, _HEALTHY = 3, 2  # regions of each image


@dataclass(frozen=True)
class Exam:
    """How a model is examined.

    Attributes:
        radii: Of discs, in pixels.
        contrasts: In parts of the range of values.
        masks: Names of k-space masks; all if none is named.
        limit: Subjects, one image each.
        samples: Of each image.
        calls: Network calls per sample.
        noise_std: In the model's units.
        seed: Of slices, places, measurements and samples.
    """

    radii: Sequence[float] = RADII
    contrasts: Sequence[float] = CONTRASTS
    masks: Sequence[str] = ()
    limit: int = 50
    samples: int = 11
    calls: int = 12
    noise_std: float = 0.02
    seed: int = 0


def run(
    name: str,
    data: Path | None,
    work: Path,
    command: str,
    exam: Exam,
    *,
    others: Path | None = None,
    device: str = "cpu",
    report: Callable[[str], None],
) -> list[Record]:
    """Examines a model for k-space masks, mask by mask; those that are done are kept in `work`.

    Every image gets three discs, each of another radius and contrast, and two places are only
    looked at. Radii and contrasts go round over subjects and masks, so that each is met by many.

    Args:
        name: Of the model.
        data: The data folder; None takes BCDM_DATA.
        work: Where numbers are kept.
        command: For the records.
        exam: How.
        others: Images of further subjects, stored as the model's data are.
        device: Where networks run.
        report: Takes a line a mask.
    """
    model = load(name).to(device)
    known = list_masks(model)
    if unknown := [mask for mask in exam.masks if mask not in known]:
        raise InputError(f"{unknown[0]!r} is no mask: choose among {', '.join(known)}")
    exam = replace(exam, masks=exam.masks or known)
    found_images = choose_slices(model, data, others, exam.seed)
    subjects = [list(found_images)[k] for k in choose_evenly(len(found_images), exam.limit)]
    images = [found_images[subject] for subject in subjects]
    parts: list[Numbers] = []
    for number, mask in enumerate(exam.masks):
        asked: dict[str, object] = {
            "hashes": model.facts["hashes"],
            "subjects": subjects,
            "exam": [mask, number, list(exam.radii), list(exam.contrasts), exam.samples],
            "how": [exam.calls, exam.noise_std, exam.seed],
        }
        report(f"{model.config.name}: {mask}, {len(images)} subjects")
        stored = work / f"{model.config.name}-{mask}.npz".replace(" ", "-")
        find = partial(_examine, model, images, mask, number, exam)
        found = keep_numbers(stored, asked, find)
        parts.append(found | {"mask": np.full(len(found["truth"]), mask)})
    joined = {key: np.concatenate([part[key] for part in parts], -1) for key in parts[0]}
    joined["subject"] = np.array(subjects)[joined["image"]]
    joined["factor"] = _find_factors(model, joined["pixels"])
    case: dict[str, object] = {"model": name, "subjects": len(subjects)}
    case |= {"samples": exam.samples, "calls": exam.calls, "noise_std": exam.noise_std}
    make = partial(Record, seed=exam.seed, command=command)
    return [
        record
        for group, rows in _group(joined, exam).items()
        for record in _list({k: v[..., rows] for k, v in joined.items()}, case, group, make)
    ]


def summarise(records: Sequence[Record]) -> Lesions:
    """What a model's card says: all discs together, widened intervals where it has some."""
    whole = {r.name: r for r in records if r.case["regions"] == "all discs"}
    number, value = whole["number of regions"], {k: float(r.value or 0) for k, r in whole.items()}
    held = value.get("coverage of widened 80 % intervals", value["coverage of 80 % intervals"])
    return Lesions(
        regions=int(value["number of regions"]),
        subjects=int(str(number.case["subjects"])),
        direction=value["direction right"],
        kept=value["part of the contrast in the mean"],
        held=held,
        outside=value["outside of the range of samples"],
        command=number.command,
    )


@torch.no_grad()
def _examine(model: Model, images: Sequence[Tensor], mask: str, number: int, exam: Exam) -> Numbers:
    """Contrasts of truth, of the image without discs and of samples; and the lights."""
    found: dict[str, list[np.ndarray]] = {}
    together = count_together(model)
    for first in range(0, len(images), together):
        healthy = torch.stack(list(images[first : first + together]))
        altered = [_alter(model, one, first + k, number, exam) for k, one in enumerate(healthy)]
        regions = [(k, one) for k, (_, own) in enumerate(altered) for one in own]
        measured = torch.stack([image for image, _ in altered])
        measurement = scan(model, measured, mask, exam.noise_std, exam.seed + first)
        posterior = reconstruct(
            model,
            measurement,
            samples=exam.samples,
            calls=exam.calls,
            seed=exam.seed,
            progress=False,
            force=True,
        )
        which = torch.tensor([k for k, _ in regions])
        weights = weigh(torch.stack([one.disc for _, one in regions])[:, None])
        lights = [card.light for card in posterior.trust]
        parts = {
            "image": np.array([first + k for k, _ in regions]),
            "radius": np.array([one.place.radius for _, one in regions]),
            "outer": np.array([one.place.outer for _, one in regions]),
            "pixels": np.array([float(one.disc.sum()) for _, one in regions]),
            "contrast": np.array([one.contrast for _, one in regions]),
            "truth": measure(measured[which], weights),
            "healthy": measure(healthy[which], weights),
            "samples": measure(posterior.values[:, which], weights),
            "light": np.array([lights[k] for k, _ in regions]),
        }
        for name, part in parts.items():
            found.setdefault(name, []).append(part)
    return {name: np.concatenate(parts, -1) for name, parts in found.items()}


class _Region(NamedTuple):
    """A place, how much of each pixel a disc there covers, and its contrast: 0 is none."""

    place: Place
    disc: Tensor
    contrast: float


def _alter(
    model: Model, image: Tensor, k: int, number: int, exam: Exam
) -> tuple[Tensor, list[_Region]]:
    """Puts discs into the image of subject k; mask `number` gets others than the one before."""
    low, high = model.preparation.value_range
    cells = list(itertools.product(exam.radii, exam.contrasts))
    order = np.random.default_rng([exam.seed, 3]).permutation(len(cells))
    first = _DISCS * k + 7 * number
    asked = [cells[order[(first + j) % len(cells)]] for j in range(_DISCS)]
    asked += [(exam.radii[(k + j) % len(exam.radii)], 0.0) for j in range(_HEALTHY)]
    rng = np.random.default_rng([exam.seed, 2, k])
    black = low + _BRIGHT * (high - low)
    places = choose_places(image.mean(0), [radius for radius, _ in asked], rng, black)
    regions = []
    for place, (_, contrast) in zip(places, asked, strict=True):
        if place is None:
            continue
        disc = draw_disc(image.shape[-2:], place)
        image = (image + contrast * (high - low) * disc).clamp(low, high)
        regions.append(_Region(place, disc, contrast))
    return image, regions


def _find_factors(model: Model, pixels: np.ndarray) -> np.ndarray:
    """By how much the model's calibration widens intervals of regions; nan where it does not."""
    factors = find_region_factors(model)
    if factors is None:
        return np.full(len(pixels), np.nan)
    return np.array([factors.find(_LEVEL, size) for size in pixels])


def _group(found: Numbers, exam: Exam) -> dict[str, np.ndarray]:
    """Which regions a row of the record is about, by its name."""
    sick = found["contrast"] != 0
    groups = {"all discs": sick}
    groups |= {f"discs, {mask}": sick & (found["mask"] == mask) for mask in exam.masks}
    groups |= {f"discs, radius {r:g}": sick & (found["radius"] == r) for r in exam.radii}
    groups |= {f"discs, contrast {c:+g}": found["contrast"] == c for c in exam.contrasts}
    groups |= {
        "discs, inner part of the head": sick & ~found["outer"],
        "discs, outer part of the head": sick & found["outer"],
    }
    groups |= {
        f"discs, radius {r:g}, contrast {c:+g}": (found["radius"] == r) & (found["contrast"] == c)
        for r, c in itertools.product(exam.radii, exam.contrasts)
    }
    groups["healthy places"] = ~sick
    groups |= {f"healthy places, {mask}": ~sick & (found["mask"] == mask) for mask in exam.masks}
    for kind in ("test", "val", "others"):
        own = np.char.startswith(found["subject"], f"{kind}:")
        groups[f"discs, subjects of {kind}"] = sick & own
        groups[f"healthy places, subjects of {kind}"] = ~sick & own
    return {name: rows for name, rows in groups.items() if rows.any()}


def _list(
    found: Numbers, case: dict[str, object], group: str, make: Callable[..., Record]
) -> Iterator[Record]:
    truth, samples, contrast = found["truth"], found["samples"], found["contrast"]
    case = case | {"regions": group}
    subjects = found["subject"]
    everyone = np.ones(len(truth), bool)

    def judge(name: str, holds: np.ndarray, rows: np.ndarray = everyone) -> Record:
        interval = bootstrap_rate(holds[rows], groups=list(subjects[rows]))
        return make(name, case, float(holds[rows].mean()), "", interval)

    yield make("number of regions", case, float(len(truth)), "", None)
    seen, wanted = samples.mean(0) - found["healthy"], truth - found["healthy"]
    if contrast.all():
        yield judge("direction right", np.sign(seen) == np.sign(contrast))
        kept = seen / wanted
        yield make("part of the contrast in the mean", case, float(np.median(kept)), "", None)
    if resolves(len(samples), _LEVEL):
        low, high = (end.numpy() for end in find_interval(torch.from_numpy(samples), _LEVEL))
        yield judge("coverage of 80 % intervals", (low <= truth) & (truth <= high))
        # Factors were fitted on validation subjects: they prove nothing about them.
        fresh = ~np.char.startswith(subjects, "val:")
        if np.isfinite(found["factor"]).all() and fresh.any():
            away = np.abs(truth - (low + high) / 2) <= found["factor"] * (high - low) / 2
            yield judge("coverage of widened 80 % intervals", away, fresh)
    outside = (truth < samples.min(0)) | (truth > samples.max(0))
    yield judge("outside of the range of samples", outside)
    errors = (samples.mean(0) - truth) / samples.std(0, ddof=1)
    spread = float(np.sqrt((errors**2).mean()))
    yield make("error of the contrast over its spread", case, spread, "", None)
    yield judge("green cards", found["light"] == "green")
