"""Scans of several coils: a model beside what physicists use, judged by a full reference."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from torch import Tensor

from bcdm.assessment.images import choose_evenly
from bcdm.assessment.kept import Numbers, keep_numbers
from bcdm.assessment.records import Column, Record
from bcdm.assessment.statistics import bootstrap
from bcdm.benchmark.coilsets import MIDDLE, PATTERNS, SETS, Case, Slice, draw_mask, open_set
from bcdm.benchmark.contestants import (
    LEVEL,
    ONE_CALL,
    OURS,
    Classical,
    OneCall,
    Sampled,
    find_error,
    list_classical,
    list_sampled,
)
from bcdm.checkpoint import Model, load
from bcdm.evaluation import crps, psnr, ssim
from bcdm.evaluation.ranks import find_interval, resolves

__all__ = ["COLUMNS", "KEYS", "Exam", "judge", "run"]

KEYS = ("set", "mask", "method")
COLUMNS = (
    Column("slices", "slices", digits=0),
    Column("NRMSE", "NRMSE in the head", digits=4),
    Column("PSNR (dB)", "PSNR in the head", digits=1),
    Column("SSIM", "SSIM in the head", digits=3),
    Column("CRPS x 1000", "CRPS x 1000 in the head", digits=1),
    Column("80 % intervals cover", "coverage of 80 % intervals", digits=2),
    Column("before calibration", "coverage before calibration", digits=2),
    Column("chi-square", "chi-square", digits=2),
    Column("s a slice", "seconds a slice", digits=1),
)
_UNITS = {"PSNR in the head": "dB", "seconds a slice": "s"}

_COMPARED = {"NRMSE in the head": "<", "SSIM in the head": ">"}
_FEW = ", sampled slices"

Contestant = Classical | Sampled


@dataclass(frozen=True)
class Exam:
    """What is examined.

    Attributes:
        sets: Of slices.
        patterns: Of masks.
        accelerations: Of masks.
        methods: Rows by name; all if none is named.
        limit: Slices of a set.
        sampled: Of these, slices that samples are drawn of; evenly spaced, 0 for all.
        tuning: Slices that weights of rivals are tuned on, of other subjects.
        widths: Slices of validation that the width of intervals is fitted on.
        samples: Of each slice.
        calls: Network calls per sample.
        seed: Of masks, coils, phases, noise and samples.
    """

    sets: Sequence[str] = SETS
    patterns: Sequence[str] = PATTERNS
    accelerations: Sequence[float] = (2.0, 4.0, 6.0, 8.0)
    methods: Sequence[str] = ()
    limit: int = 16
    sampled: int = 0
    tuning: int = 2
    widths: int = 1
    samples: int = 9
    calls: int = 20
    seed: int = 0


def run(
    name: str | None,
    data: Path | None,
    work: Path,
    command: str,
    exam: Exam,
    *,
    device: str = "cpu",
    report: Callable[[str], None],
    panel: Path | None = None,
) -> list[Record]:
    """Examines all methods, cell by cell; cells that are done are kept in `work`.

    Args:
        name: The model; None examines what needs none.
        data: The data folder; BCDM_DATA when left out.
        work: Where finished cells are kept.
        command: For the records.
        exam: What is examined.
        device: Where networks run.
        report: Hears of progress.
        panel: Where to draw the first slice of each set, at 4x and 8x; PNG.
    """
    model = load(name).to(device) if name is not None else None
    contestants: list[Contestant] = [
        *list_classical(),
        *list_sampled(model, exam.samples, exam.calls, exam.seed),
    ]
    if exam.methods:
        contestants = [one for one in contestants if one.name in exam.methods]
    records: list[Record] = []
    pictures: dict[str, dict[str, np.ndarray]] = {}
    for set_name in exam.sets:
        opened = _Slices(set_name, data, exam)
        for pattern in exam.patterns:
            for acceleration in exam.accelerations:
                cases = _Cases(opened, pattern, acceleration, work / "maps")
                mask_name = f"{pattern} {acceleration:g}x"
                for one in contestants:
                    report(f"{set_name}, {mask_name}: {one.name}")
                    asked = _ask(set_name, mask_name, one, model, exam)
                    file = f"{set_name}-{mask_name}-{one.name}.npz".replace(" ", "-")
                    find = partial(_examine, one, cases)
                    found = keep_numbers(work / file, asked, find)
                    case: dict[str, object] = {"set": set_name, "mask": mask_name}
                    case |= {"method": one.name, "samples": 1, "tuned": float(found["weight"])}
                    if isinstance(one, Sampled):
                        case |= {"samples": one.samples, "calls": one.calls}
                        case["model"] = model.config.name if model is not None else None
                        if model is not None and model.device.type != "cpu":
                            case["device"] = str(model.device)
                    record = partial(Record, seed=exam.seed, command=command)
                    records += _list(found, case, record, exam.sampled)
                    shown = pictures.setdefault(f"{set_name}, {mask_name}", {})
                    caption = f"{one.name}\nNRMSE {found['NRMSE in the head'][0]:.3f}"
                    shown |= {"reference": found["reference"], caption: found["picture"]}
    records += _compare(records, exam, command)
    if panel is not None:
        from bcdm.report.comparison import plot_comparison

        plot_comparison(panel, _choose_rows(pictures))
    return records


def _choose_rows(
    pictures: dict[str, dict[str, np.ndarray]],
) -> dict[str, dict[str, np.ndarray]]:
    """Those of 4x and 8x, where there are some."""
    chosen = {name: row for name, row in pictures.items() if name.endswith((" 4x", " 8x"))}
    return chosen or pictures


@dataclass(frozen=True)
class _Slices:
    """Those of a set: opened only where some cell is not done yet, and once."""

    name: str
    data: Path | None
    exam: Exam

    @cached_property
    def judged(self) -> list[Slice]:
        """What the numbers are of."""
        exam = self.exam
        return open_set(self.name, self.data, exam.limit, tuning=False, seed=exam.seed)

    @cached_property
    def others(self) -> list[Slice]:
        """What weights are tuned on."""
        exam = self.exam
        return open_set(self.name, self.data, exam.tuning, tuning=True, seed=exam.seed)

    @cached_property
    def validation(self) -> list[Slice]:
        """What widths of intervals are fitted on: only IXI has slices that nothing was trained on.

        Those for the real scan are like it, of as many coils.
        """
        name, exam = self.name if self.name == "brain16" else "ixi", self.exam
        return open_set(name, self.data, exam.widths, tuning=True, seed=exam.seed)


@dataclass(frozen=True)
class _Cases:
    """Undersampled slices, which all methods share."""

    slices: _Slices
    pattern: str
    acceleration: float
    cache: Path

    @cached_property
    def judged(self) -> list[Case]:
        """What numbers are of."""
        return self._undersample_all(self.slices.judged)

    @cached_property
    def sampled(self) -> list[Case]:
        """Those of them that samples are drawn of."""
        slices, few = self.slices.judged, self.slices.exam.sampled
        if not 0 < few < len(slices):
            return self.judged
        return [self._undersample(slices[k], k) for k in choose_evenly(len(slices), few)]

    @cached_property
    def others(self) -> list[Case]:
        """What weights are tuned on."""
        return self._undersample_all(self.slices.others)

    @cached_property
    def validation(self) -> list[Case]:
        """What widths are fitted on."""
        return self._undersample_all(self.slices.validation)

    def _undersample_all(self, slices: list[Slice]) -> list[Case]:
        return [self._undersample(item, number) for number, item in enumerate(slices)]

    def _undersample(self, item: Slice, number: int) -> Case:
        seed = self.slices.exam.seed + number
        mask = draw_mask(self.pattern, self.acceleration, item, seed)
        return item.undersample(mask, self.cache)


def _ask(
    set_name: str, mask: str, one: Contestant, model: Model | None, exam: Exam
) -> dict[str, object]:
    """What tells a cell from others."""
    asked: dict[str, object] = {"set": set_name, "mask": mask, "method": one.name}
    asked |= {key: asdict(exam)[key] for key in ("limit", "tuning", "seed")}
    asked["middle"] = MIDDLE[mask.split(maxsplit=1)[0]]
    if isinstance(one, Classical):
        return asked | {"weights": one.weights, "settings": repr(one.make(1.0))}
    if not isinstance(one, OneCall):
        asked |= {"widths": exam.widths, "sampled": exam.sampled, "validated on": "ixi"}
    hashes = model.facts["hashes"] if model is not None else None
    return asked | {"samples": one.samples, "calls": one.calls, "model": hashes}


def _examine(one: Contestant, cases: _Cases) -> Numbers:
    """The numbers of all slices, (N,) each, and the picture of the first."""
    if isinstance(one, Classical):
        weight, judged = one.tune(cases.others), cases.judged
    elif isinstance(one, OneCall):
        weight, judged = 1.0, cases.judged
    else:
        weight, judged = one.tune(cases.validation if one.fitted else ()), cases.sampled
    columns: dict[str, list[float]] = {}
    picture: tuple[Tensor, Tensor] | None = None
    for case in judged:
        started = time.process_time()
        magnitudes, images = one.estimate(case, weight)
        columns.setdefault("seconds a slice", []).append(time.process_time() - started)
        for key, value in judge(case, magnitudes, images, weight).items():
            columns.setdefault(key, []).append(value)
        if isinstance(one, Classical) and one.weights and len(judged) == 1:
            # What tuning on other slices costs a rival: no weight would do better here.
            best = min(one.try_weight(other, case) for other in one.weights)
            columns["NRMSE by the best weight in hindsight"] = [best]
        picture = picture or (case.reference, magnitudes.mean(0))
    assert picture is not None
    numbers = {key: np.array(values) for key, values in columns.items()}
    reference, estimate = (part.float().numpy() for part in picture)
    return numbers | {
        "weight": np.array(weight),
        "reference": reference,
        "picture": estimate,
    }


def judge(case: Case, magnitudes: Tensor, images: Tensor, factor: float = 1.0) -> dict[str, float]:
    """Numbers of one slice, inside of the object.

    Args:
        case: With its reference.
        magnitudes: Of samples, or of one estimate, (S, H, W).
        images: The same with phases, (S, 1, H, W).
        factor: Of the width of intervals.
    """
    inside, reference = case.inside, case.reference
    mean, truth = magnitudes.mean(0), reference[inside]
    top = float(truth.max())
    pair = (mean[inside][None], truth[None])
    found = {
        "NRMSE in the head": find_error(mean, case),
        "PSNR in the head": float(psnr(*pair, data_range=top)),
        "SSIM in the head": float(
            ssim(
                mean[None, None],
                reference[None, None],
                data_range=top,
                convention="skimage",
                inside=inside,
            )
        ),
        "NRMSE of the reference's noise": case.floor / float(truth.square().mean().sqrt()),
    }
    measurement = case.measurement
    if bool(images.imag.any()):
        residual = measurement.residual(images).abs().square().sum() / len(images)
        found["chi-square"] = float(residual) / measurement.degrees_of_freedom
    if len(magnitudes) == 1:
        return found
    chosen = magnitudes[:, inside]
    found["CRPS x 1000 in the head"] = 1000 * float(crps(chosen[:, None], truth[None]))
    # What the mean of ever more samples would come to: their scatter adds to its error.
    error, scatter = (mean[inside] - truth).square().mean(), chosen.var(0).mean() / len(chosen)
    many = (error - scatter).clamp_min(0) / truth.square().mean()
    found["NRMSE without the samples' scatter"] = float(many.sqrt())
    if not resolves(len(chosen), LEVEL):
        return found
    low, high = find_interval(chosen, LEVEL)
    found["coverage before calibration"] = _cover(low, high, truth)
    middle, half = (low + high) / 2, factor * (high - low) / 2
    found["coverage of 80 % intervals"] = _cover(middle - half, middle + half, truth)
    # As if the reference's noise were none of the data's: what is true lies between the two.
    wide = (half**2 + (1.2816 * case.floor) ** 2).sqrt()
    found["coverage with the reference's noise"] = _cover(middle - wide, middle + wide, truth)
    return found


def _cover(low: Tensor, high: Tensor, truth: Tensor) -> float:
    return float(((low <= truth) & (truth <= high)).double().mean())


def _list(
    found: Numbers, case: dict[str, object], record: Callable[..., Record], sampled: int
) -> Iterator[Record]:
    count = len(found["NRMSE in the head"])
    if 0 < sampled < count:
        # For those that few slices were sampled of: to compare on the same.
        for name in _COMPARED:
            few = found[name][list(choose_evenly(count, sampled))]
            yield record(name + _FEW, case, float(few.mean()))
    yield record("slices", case, float(count))
    for name, values in found.items():
        if values.ndim == 1:
            interval = bootstrap(values) if count > 1 else None
            yield record(name, case, float(values.mean()), _UNITS.get(name, ""), interval)


def _compare(records: Sequence[Record], exam: Exam, command: str) -> list[Record]:
    """What is required of the model: less error than rivals, and intervals that hold."""
    values = {
        (record.case["set"], record.case["mask"], record.case["method"], record.name): record.value
        for record in records
    }
    found = []
    places = sorted({key[:2] for key in values}, key=str)
    for set_name, mask in places:
        if not str(mask).endswith((" 4x", " 8x")):
            continue
        where: dict[str, object] = {"set": set_name, "mask": mask}
        rows = {
            method: {
                key[3]: value
                for key, value in values.items()
                if key[:3] == (set_name, mask, method)
            }
            for method in (OURS, ONE_CALL, "CG-SENSE", "l1-wavelet")
        }
        for rival, own in itertools.product(("CG-SENSE", "l1-wavelet"), (OURS, ONE_CALL)):
            if not rows[rival] or not rows[own]:
                continue
            count = rows[own]["slices"]
            same = "" if count == rows[rival]["slices"] else _FEW
            case = where | {"method": own, "slices": count}
            # One call is compared where there is nothing better on as many slices.
            if own == ONE_CALL and rows[OURS].get("slices") == count:
                continue
            for name, sign in _COMPARED.items():
                title = f"{name.split()[0]} beside {rival}"
                required = f"{sign} {rows[rival][name + same]:.5g}"
                found.append(
                    Record(title, case, rows[own][name], "", None, required, exam.seed, command)
                )
        if not rows[OURS]:
            continue
        cover = rows[OURS].get("coverage of 80 % intervals")
        for required in (">= 0.7", "<= 0.9"):
            title = "intervals of 80 % that hold"
            found.append(Record(title, where, cover, "", None, required, exam.seed, command))
    return found
