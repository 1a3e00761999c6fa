"""How well a model does by the kind of k-space mask, beside a rival and its control."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bcdm.assessment.images import choose_evenly, choose_images
from bcdm.assessment.kept import Numbers, keep_numbers
from bcdm.assessment.records import Column, Record
from bcdm.assessment.statistics import bootstrap
from bcdm.assessment.summary import OVER_CONTROL
from bcdm.benchmark.masks import find_family, judge_masks, list_bad
from bcdm.checkpoint import Model, load
from bcdm.diffusion import posterior_mean
from bcdm.errors import InputError
from bcdm.evaluation import crps, psnr
from bcdm.identity import identify
from bcdm.measurement import Measurement
from bcdm.methods import CONTROL, LinearGaussian
from bcdm.operators import FourierMask
from bcdm.problems.familiarity import UnfamiliarWarning
from bcdm.problems.families import KSpace
from bcdm.reconstruction import reconstruct

__all__ = ["COLUMNS", "KEYS", "Exam", "run"]

KEYS = ("masks", "model")
COLUMNS = (
    Column("PSNR, one call (dB)", "PSNR", "one-call mean"),
    Column("PSNR, mean of samples (dB)", "PSNR", "sample mean"),
    Column("CRPS", "CRPS", "samples", 4),
    Column(OVER_CONTROL, OVER_CONTROL),
    Column("accepted", "fraction of masks accepted"),
)
_PATTERNS = ("points", "lines", "free_points", "random_columns", "equispaced_columns", "poisson")
_ACCELERATIONS = (4.0, 8.0)
_CONTROLS = "control: "  # before the names of numbers of the linear Gaussian posterior
_SIGNS = (("PSNR, one-call mean", 1), ("PSNR, sample mean", 1), ("CRPS, samples", -1))  # of better

Draw = Callable[[np.random.Generator], Tensor]


@dataclass(frozen=True)
class Exam:
    """How models are compared.

    Attributes:
        limit: Test subjects, one image each, for the mean by one call.
        sampled: How many of them, evenly spaced, are sampled; 0 for none.
        samples: Of each.
        calls: Network calls per sample.
        noise_std: In the model's units.
        seed: Of masks, noise and samples.
    """

    limit: int = 24
    sampled: int = 8
    samples: int = 8
    calls: int = 8
    noise_std: float = 0.02
    seed: int = 0


def run(
    name: str,
    rival: str | None,
    data: Path | None,
    work: Path,
    command: str,
    exam: Exam,
    *,
    device: str = "cpu",
    report: Callable[[str], None],
) -> list[Record]:
    """Scores every model on every kind of mask, another mask an image; what is done is kept.

    Also on masks that the gate refuses: what it is good for.
    """
    model = load(name).to(device)
    family = find_family(model)
    images, subjects = _choose_images(model, data, exam.limit)
    make = partial(Record, seed=exam.seed, command=command)
    records: list[Record] = []
    for number, (kind, draw) in enumerate(_list_kinds(family, model).items()):
        rngs = [np.random.default_rng([exam.seed, number, k]) for k in range(len(images))]
        masks = torch.stack([draw(rng) for rng in rngs])
        found: dict[str, Numbers] = {}
        for each in [name] if rival is None else [name, rival]:
            loaded = model if each == name else load(each).to(device)
            asked = vars(exam) | {"subjects": subjects, "hashes": loaded.facts["hashes"]}
            asked |= {"masks": masks.sum((-2, -1)).tolist(), "number": number, "with": CONTROL}
            stored = work / f"{loaded.config.name}-{kind}.npz".replace(" ", "-")
            report(f"{each}: {kind}")
            with warnings.catch_warnings():
                # What is refused is measured, too: that is the question.
                warnings.simplefilter("ignore", UnfamiliarWarning)
                score = partial(_score, loaded, images, masks, exam)
                found[each] = keep_numbers(stored, asked, score)
            own, control = _split(found[each])
            records += _list(each, kind, own, subjects, exam, make)
            records += _divide(each, kind, own, control, subjects, exam, make)
        _, control = _split(found[name])
        records += _list(CONTROL, kind, control, subjects, exam, make)
        if rival is not None:
            records += _compare(kind, found[name], found[rival], rival, subjects, exam, make)
    return records


def _list_kinds(family: KSpace, model: Model) -> dict[str, Draw]:
    size = (model.shape[-2], model.shape[-1])

    def draw(pattern: str, acceleration: float, rng: np.random.Generator) -> Tensor:
        return family.draw_pattern(pattern, size, acceleration, rng)

    kinds: dict[str, Draw] = {
        f"{pattern} {acceleration:g}x": partial(draw, pattern, acceleration)
        for pattern in _PATTERNS
        for acceleration in _ACCELERATIONS
    }
    wanted = ("random_columns 20x", "random_columns 4x without a middle")
    return kinds | {name: list_bad(family, size)[name][0] for name in wanted}


def _choose_images(model: Model, data: Path | None, limit: int) -> tuple[Tensor, list[str]]:
    """The middle test image of each of some subjects."""
    source, rows = choose_images(model, data, "test", None)
    names = [str(k) for k in rows] if source.subjects is None else list(source.subjects)
    each = sorted(set(names))
    chosen = [each[k] for k in choose_evenly(len(each), limit)]
    own = [[k for k, other in enumerate(names) if other == name] for name in chosen]
    return torch.stack([model.preparation(source[k[len(k) // 2]]) for k in own]), chosen


@torch.no_grad()
def _score(model: Model, images: Tensor, masks: Tensor, exam: Exam) -> Numbers:
    """PSNR of the linear estimate and of one call; of some images also samples of both."""
    low, high = model.preparation.value_range
    rate = partial(psnr, data_range=high - low)
    operator = FourierMask(masks[:, None], real=True)
    measurement = Measurement.simulate(images, operator, exam.noise_std, seed=exam.seed)
    means, linear = [], []
    for rows in torch.arange(len(images)).split(8):
        part = measurement.select(rows)
        items = identify(part)
        means.append(posterior_mean(model.condition(part), seed=exam.seed, items=items))
        linear.append(model.scales.estimate_linearly(part))
    judge = model.familiarity
    if judge is None:
        raise InputError(f"{model.config.name} was trained for one operator, not for a family")
    found = {
        f"{_CONTROLS}PSNR, one-call mean": rate(torch.cat(linear), images).numpy(),
        "PSNR, one-call mean": rate(torch.cat(means), images).numpy(),
        "accepted": judge_masks(judge, masks, exam.noise_std),
    }
    if not exam.sampled:
        return found
    some = torch.tensor(choose_evenly(len(images), exam.sampled))
    part, truth = measurement.select(some), images[some]
    posterior = reconstruct(
        model,
        part,
        samples=exam.samples,
        calls=exam.calls,
        seed=exam.seed,
        progress=False,
        force=True,
    )
    drawn = LinearGaussian(model.scales).draw_many(part, identify(part), exam.samples, exam.seed)
    for whose, samples in (("", posterior.samples), (_CONTROLS, drawn)):
        found[f"{whose}PSNR, sample mean"] = rate(samples.mean(0), truth).numpy()
        found[f"{whose}CRPS, samples"] = crps(samples, truth).numpy()
    return found


def _split(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Those of a model, and those of its control."""
    control = {
        key.removeprefix(_CONTROLS): values
        for key, values in numbers.items()
        if key.startswith(_CONTROLS)
    }
    own = {key: values for key, values in numbers.items() if not key.startswith(_CONTROLS)}
    return own, control


def _list(
    model: str,
    kind: str,
    numbers: Numbers,
    subjects: Sequence[str],
    exam: Exam,
    make: Callable[..., Record],
) -> Iterator[Record]:
    where: dict[str, object] = {"masks": kind, "model": model, "noise_std": exam.noise_std}
    for key, values in numbers.items():
        metric, _, estimate = key.partition(", ")
        if not estimate:
            continue
        case = where | {"estimate": estimate, "images": len(values)}
        unit = "dB" if metric == "PSNR" else ""
        groups = [subjects[k] for k in choose_evenly(len(subjects), len(values))]
        interval = bootstrap(values, groups=groups)
        yield make(metric, case, float(values.mean()), unit, interval)
    if "accepted" in numbers:
        taken = numbers["accepted"]
        case = where | {"draws": len(taken)}
        yield make("fraction of masks accepted", case, float(taken.mean()), "", None)


def _divide(
    model: str,
    kind: str,
    numbers: Numbers,
    control: Numbers,
    subjects: Sequence[str],
    exam: Exam,
    make: Callable[..., Record],
) -> Iterator[Record]:
    """CRPS over the control's, where samples were drawn."""
    if not exam.sampled:
        return
    ours, theirs = (found["CRPS, samples"] for found in (numbers, control))
    case: dict[str, object] = {"masks": kind, "model": model, "noise_std": exam.noise_std}
    case |= {"images": len(ours), "samples": exam.samples, "calls": exam.calls}
    groups = [subjects[k] for k in choose_evenly(len(subjects), len(ours))]
    interval = bootstrap(ours, theirs, groups=groups)
    yield make(OVER_CONTROL, case, float(ours.mean() / theirs.mean()), "", interval)


def _compare(
    kind: str,
    mine: Numbers,
    theirs: Numbers,
    rival: str,
    subjects: Sequence[str],
    exam: Exam,
    make: Callable[..., Record],
) -> Iterator[Record]:
    for metric, sign in _SIGNS:
        if metric not in mine:
            continue
        values = sign * (mine[metric] - theirs[metric])
        groups = [subjects[k] for k in choose_evenly(len(subjects), len(values))]
        case: dict[str, object] = {"masks": kind, "metric": metric, "rival": rival}
        case |= {"images": len(values), "noise_std": exam.noise_std}
        interval = bootstrap(values, groups=groups)
        yield make("margin over the rival", case, float(values.mean()), "", interval)
