"""The trust card on held-out data: false alarms, what it notices, and intervals that hold."""

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from bcdm.assessment.images import choose_images
from bcdm.assessment.kept import Numbers, keep_numbers
from bcdm.assessment.records import Record
from bcdm.assessment.statistics import bootstrap, bootstrap_rate
from bcdm.benchmark.cards import ScoreFile, judge, score
from bcdm.benchmark.defects import Case, list_cases
from bcdm.checkpoint import Model, load
from bcdm.checkpoint.calibration import Calibration
from bcdm.checkpoint.usual import Usual
from bcdm.diffusion import VP, DPMSolver, sample
from bcdm.errors import InputError
from bcdm.evaluation import ks_uniformity, wilson
from bcdm.evaluation.signal import find_object
from bcdm.machine import Precision, autocast, choose_precision
from bcdm.measurement import Measurement
from bcdm.methods import ExactPosterior, GaussianMixture
from bcdm.operators import FourierMask
from bcdm.problems.patterns import draw_variable_density
from bcdm.reconstruction import reconstruct
from bcdm.reconstruction.calibrating import LEVELS
from bcdm.reconstruction.measuring import simulate
from bcdm.trust.scores import chi_square_of

__all__ = ["run"]

CALLS, SAMPLES = 20, 20
# Far from the numbers that calibration draws by.
_FIRST = 1 << 20
UNIFORM, NOTICED, ALARMS = "> 0.01", ">= 0.95", "<= 0.05"
# Which pixels are counted, and how far their coverage may be from its level.
PARTS = {"all": "<= 0.02", "object": "<= 0.03"}


def run(
    name: str,
    data: Path | None,
    work: Path,
    command: str,
    *,
    scores: Path | None = None,
    limit: int = 80,
    intervals: int = 60,
    calls: int = CALLS,
    seed: int = 100,
    precision: Precision = "float32",
    device: str = "cpu",
    report: Callable[[str], None],
) -> list[Record]:
    """Judges every case; parts that are done are kept in `work`.

    Args:
        name: A calibrated model.
        data: Data folder.
        work: Where parts are kept.
        command: For the records.
        scores: A JSON file of what every card rests on: cases that it holds are judged by it. In
            `work` when left out.
        limit: Images of each defect; thrice as many are right.
        intervals: Images on which intervals are checked, with many samples each.
        calls: Network calls per sample.
        seed: Of all measurements and samples.
        precision: "bfloat16" runs the network in autocast.
        device: Where the network runs.
        report: Hears of progress.
    """
    model = load(name).to(device)
    chosen = choose_precision(precision, model.device)
    with autocast(model.device, chosen):
        return _run(
            model, data, work, scores, command, limit, intervals, calls, seed, chosen, report
        )


def _run(
    model: Model,
    data: Path | None,
    work: Path,
    scores: Path | None,
    command: str,
    limit: int,
    intervals: int,
    calls: int,
    seed: int,
    precision: str,
    report: Callable[[str], None],
) -> list[Record]:
    calibration = Calibration.of(model)
    if calibration is None:
        raise InputError(f"{model.name} has no calibration: run bcdm calibrate first")
    record = partial(Record, seed=seed, command=command)
    facts: dict[str, object] = {
        "calls": calls,
        "seed": seed,
        "precision": precision,
        "hashes": model.facts["hashes"],
    }
    # Tables, threshold and rule may change: what was scored then is judged again.
    plain = calibration.to_plain()
    looks = {part: plain.get(part) for part in ("looks", "discriminants")}
    rows = [_check_exact(record, seed, 40 if limit < 20 else 200)]
    stored = ScoreFile(scores or work / f"{model.config.name}.json")
    groups: dict[str, list[Numbers]] = {}
    for case in list_cases(model, data, limit, seed):
        asked = facts | looks | {"case": case.name, "images": len(case.subjects)}
        report(f"{model.config.name}: {case.name}")
        scored = stored.keep(
            case.name, asked, partial(score, model, calibration, case, calls, seed)
        )
        found = judge(scored, calibration.find_usual(scale_taken=case.scale_taken))
        if case.name == "nothing":
            rows += _check_laws(found, case, calibration.usual, record)
        rows.append(_count(found, case, record))
        if case.group:
            groups.setdefault(case.group, []).append(found)
    for name, parts in groups.items():
        joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        rows.append(_count(joined, Case(name, "wrong", list, ()), record))
    report(f"{model.config.name}: intervals")
    widths = {part: plain.get(part) for part in ("factors", "local")}
    asked = facts | widths | {"images": intervals, "pixels": list(PARTS)}
    found = keep_numbers(
        work / f"{model.config.name}-intervals.npz",
        asked,
        partial(_cover, model, data, intervals, calls, seed),
    )
    return rows + _list_coverage(found, calibration, record)


def _check_exact(record: Callable[..., Record], seed: int, count: int) -> Record:
    """Where the posterior is exact, chi-square p-values of samples must be uniform."""
    side = 12
    places = torch.cartesian_prod(torch.arange(side), torch.arange(side)).double()
    covariance = 0.1 * torch.exp(-torch.cdist(places, places) / 4)
    prior = GaussianMixture.gaussian(torch.zeros(side**2).double(), covariance, (1, side, side))
    mask = draw_variable_density((side, side), 3, centre=0.2, seed=seed)
    truth = prior.sample(count, seed=seed)
    measurement = Measurement.simulate(truth, FourierMask(mask, real=True), 0.02, seed=seed)
    method = ExactPosterior(prior, VP())
    p_values = []
    for k in range(count):
        one = measurement.select(torch.tensor([k]))
        drawn = sample(
            method.condition(one), DPMSolver(1.0), steps=50, seed=seed, indices=[k], progress=False
        )
        p_values.append(chi_square_of(one, drawn)[1])
    case = {"of": "samples of an exact posterior", "measurements": count}
    name = "KS p-value of chi-square p-values"
    return record(name, case, ks_uniformity(torch.cat(p_values)), required=UNIFORM)


def _check_laws(
    found: Numbers, case: Case, usual: Usual, record: Callable[..., Record]
) -> list[Record]:
    """Laws that right measurements should follow: of chi-square, and of ranks among others."""
    name, count = "KS p-value of chi-square p-values", len(found["p"])
    where: dict[str, object] = {"of": "samples of the model", "measurements": count}
    rows = [
        record(name, where, ks_uniformity(torch.from_numpy(found["p"])), required=UNIFORM),
        record(
            "chi-square per degree of freedom",
            where,
            float(found["chi-square"].mean()),
            "",
            bootstrap(found["chi-square"], groups=case.subjects),
        ),
    ]
    # Slices of one subject are alike, and the test takes independent values.
    names, rng = np.array(case.subjects), np.random.default_rng(0)
    choice = [int(rng.choice(np.flatnonzero(names == name))) for name in np.unique(names)]
    for check in usual.tables:
        tails = torch.from_numpy(found[f"tail of {check}"][choice])
        # Not every operator of a family lets data be held out.
        tails = tails[tails.isfinite()]
        if not len(tails):
            continue
        where = {"of": check, "measurements": len(tails), "taken": "one slice a subject"}
        required = UNIFORM if check == "held-out data" else None
        rows.append(record("KS p-value of ranks", where, ks_uniformity(tails), required=required))
    return rows


def _count(found: Numbers, case: Case, record: Callable[..., Record]) -> Record:
    flagged = found["light"] != "green"
    rate, count = float(flagged.mean()), len(flagged)
    tails = {n.removeprefix("tail of "): found[n] for n in found if n.startswith("tail of ")}
    least = np.nanmin(np.stack(list(tails.values())), 0)
    # Which check was the one that spoke loudest, where the card spoke at all.
    loudest = {
        name: round(float((flagged & (column <= least)).mean()), 3)
        for name, column in tails.items()
    }
    red = round(float((found["light"] == "red").mean()), 3)
    where: dict[str, object] = {
        "wrong": case.name,
        "images": count,
        "red": red,
        "by": {name: share for name, share in loudest.items() if share},
    }
    if case.kind == "right":
        interval = bootstrap_rate(flagged, groups=case.subjects)
        return record("false alarms", where, rate, "", interval, ALARMS)
    required = NOTICED if case.kind == "wrong" else None
    return record("noticed", where, rate, "", wilson(rate, count), required)


@torch.no_grad()
def _cover(model: Model, data: Path | None, count: int, calls: int, seed: int) -> Numbers:
    """The fraction of each image's pixels in intervals as they are, and as they are widened."""
    calibration = Calibration.of(model)
    assert calibration is not None
    source, rows = choose_images(model, data, "test", count)
    found: dict[str, list[float]] = {}
    for k in rows:
        truth = model.preparation(source[k])[None]
        measured = simulate(model, truth, [_FIRST + k], seed + 2, data)
        posterior = reconstruct(
            model, measured, samples=SAMPLES, calls=calls, seed=seed + k, progress=False, force=True
        )
        pixels = {
            "all": torch.ones_like(truth, dtype=torch.bool),
            "object": find_object(truth, model.config.data.value_range[0]).expand_as(truth),
        }
        for level in calibration.factors:
            for name, calibrated in (("before", False), ("after", True)):
                low, high = posterior.interval(level, calibrated=calibrated)
                held = ((truth >= low) & (truth <= high)).double()
                for part, chosen in pixels.items():
                    share = float(held[chosen].mean())
                    found.setdefault(f"{name} {level} {part}", []).append(share)
    subjects = [str(k) if source.subjects is None else str(source.subjects[k]) for k in rows]
    return {n: np.array(v) for n, v in found.items()} | {"subjects": np.array(subjects)}


def _list_coverage(
    found: Numbers, calibration: Calibration, record: Callable[..., Record]
) -> list[Record]:
    rows, groups = [], [str(subject) for subject in found["subjects"]]
    told = [level for level in LEVELS if level in calibration.factors]
    for level, part in itertools.product(told, PARTS):
        which: dict[str, object] = {} if part == "all" else {"pixels": part}
        for name in ("before", "after"):
            held = found[f"{name} {level} {part}"]
            where = {"level": level, "conformal": name, "images": len(held)} | which
            interval = bootstrap(held, groups=groups)
            rows.append(record("coverage", where, float(held.mean()), "", interval))
        off = abs(float(held.mean()) - level)
        name = "distance of coverage from its level"
        rows.append(record(name, {"level": level} | which, off, required=PARTS[part]))
    return rows
