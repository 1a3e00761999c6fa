"""A model of a family beside its rivals: every operator, every noise level, paired by image."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bcdm.assessment.images import open_tested
from bcdm.assessment.judging import judge
from bcdm.assessment.kept import Numbers, keep_numbers
from bcdm.assessment.options import Options
from bcdm.assessment.records import Column, Record
from bcdm.assessment.statistics import bootstrap, bootstrap_rate
from bcdm.assessment.summary import OVER_CONTROL
from bcdm.checkpoint import load
from bcdm.checkpoint.building import build_operator
from bcdm.checkpoint.mistakes import explain
from bcdm.checkpoint.settings import parse_operator
from bcdm.errors import InputError
from bcdm.machine import choose_precision
from bcdm.measurement import Measurement
from bcdm.methods import CONTROL

__all__ = ["COLUMNS", "KEYS", "Comparison", "load_comparison", "run"]

KEPT = (
    ("CRPS", "samples", ""),
    ("PSNR", "one-call mean", "dB"),
    ("PSNR", "sample mean", "dB"),
    ("coverage 90%", "all pixels", ""),
    ("chi-square per degree of freedom", "single sample", ""),
)


KEYS = ("case", "noise_std", "model")
COLUMNS = (
    Column("CRPS", "CRPS", "samples", 4),
    Column(OVER_CONTROL, OVER_CONTROL),
    Column("PSNR, one call (dB)", "PSNR", "one-call mean"),
    Column("PSNR, mean of samples (dB)", "PSNR", "sample mean"),
    Column("coverage of 90 % intervals", "coverage 90%", "all pixels", 3),
    Column("chi-square of a sample", "chi-square per degree of freedom", "single sample"),
)


class Case(BaseModel):
    """An operator of the family, and the noise levels it is tried at.

    Attributes:
        operator: Its settings, as YAML.
        noise_std: Levels.
        specialist: A model for this operator alone.
        specialist_noise: The level that it was made for.
        drawn: Whether training may have drawn this very operator: it then counts in no margin.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    operator: str
    noise_std: tuple[float, ...] = Field(min_length=1)
    specialist: str | None = None
    specialist_noise: float = 0.02
    drawn: bool = False


class Foreign(BaseModel):
    """What the model was not trained for, and must say so."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    operator: str
    noise_std: float


class Comparison(BaseModel):
    """A file of settings.

    Attributes:
        model: The model of a family.
        rival: Another of the same family and budget; None for none.
        cases: By name.
        foreign: Problems outside the family, by name.
        draws: Problems of the family itself on which false alarms are counted.
        options: Of every evaluation.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    model: str
    rival: str | None = None
    cases: dict[str, Case]
    foreign: dict[str, Foreign] = {}
    draws: int = Field(default=1000, ge=1)
    options: Options = Options()


_FRESH = 1 << 46
SIGNS = (("PSNR, sample mean", 1), ("CRPS, samples", -1))  # of what is better


def load_comparison(path: Path) -> Comparison:
    """Reads a comparison."""
    try:
        return Comparison.model_validate(yaml.safe_load(path.read_text()))
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"cannot read {path}: {' '.join(str(error).split())[:300]}") from None
    except ValidationError as error:
        raise InputError(f"{path} is no comparison: {explain(error, _list_keys)}") from None


def _list_keys(place: tuple[int | str, ...]) -> list[str]:
    return list(Comparison.model_fields) if len(place) == 1 else []


def run(
    path: Path,
    data: Path | None,
    work: Path,
    command: str,
    *,
    device: str | None = None,
    report: Callable[[str], None],
) -> list[Record]:
    """Scores every model on every case, beside the control of the family's model.

    Parts that are done are kept in `work`. Networks run on `device`, or where the file says.
    """
    settings = load_comparison(path)
    record = partial(Record, seed=settings.options.seed, command=command)
    score = partial(_score, settings, data, work, device, report)
    records: list[Record] = []
    margins: dict[str, list[np.ndarray]] = {metric: [] for metric, _ in SIGNS}
    subjects: list[str] = []
    for name, case in settings.cases.items():
        for noise in case.noise_std:
            mine, groups = score(settings.model, case.operator, noise)
            control, _ = score(settings.model, case.operator, noise, control=True)
            where: dict[str, object] = {"case": name, "operator": case.operator, "noise_std": noise}
            show = partial(_list, where=where, control=control, groups=groups, record=record)
            records += show(settings.model, numbers=mine) + _judge_coverage(
                settings.model, where, mine, record
            )
            records += show(CONTROL, numbers=control)
            if settings.rival is not None:
                theirs, _ = score(settings.rival, case.operator, noise)
                records += show(settings.rival, numbers=theirs)
                away = {metric: sign * (mine[metric] - theirs[metric]) for metric, sign in SIGNS}
                for metric, values in away.items():
                    which = {"metric": metric, "rival": settings.rival} | where
                    interval, margin = bootstrap(values, groups=groups), float(values.mean())
                    records.append(record("margin over the rival", which, margin, "", interval))
                    if not case.drawn:
                        margins[metric].append(values)
                subjects += [] if case.drawn else groups
            if case.specialist is not None and noise == case.specialist_noise:
                special, _ = score(case.specialist, None, None)
                records += show(case.specialist, numbers=special)
                records += _compare(where, mine, special, groups, record)
    for metric, parts in margins.items():
        if parts:
            whole = np.concatenate(parts)
            which = {"metric": metric, "rival": settings.rival}
            interval = bootstrap(whole, groups=subjects)
            name = "margin over the rival, operators never drawn"
            records.append(record(name, which, float(whole.mean()), "", interval, "> 0"))
    return records + _judge_bounds(settings, record)


def _judge_bounds(settings: Comparison, record: Callable[..., Record]) -> list[Record]:
    """How often the model warns of its own family, and whether it does of what is foreign."""
    judge = load(settings.model).familiarity
    if judge is None:
        raise InputError(f"{settings.model} was trained for one operator, not for a family")
    # Fresh draws: far from training's counters, and from those that the judge keeps.
    operator, std = judge.problems.draw(range(_FRESH, _FRESH + settings.draws))
    blank = torch.zeros(settings.draws, 1, *judge.problems.size)
    verdicts = judge.judge(Measurement(operator.forward(blank), operator, std))
    alarms = np.array([not verdict.familiar for verdict in verdicts], float)
    case: dict[str, object] = {"model": settings.model, "draws": settings.draws}
    rows = [
        record(
            "false alarms of an unfamiliar problem",
            case,
            float(alarms.mean()),
            "",
            bootstrap_rate(alarms),
            "<= 0.05",
        )
    ]
    for name, foreign in settings.foreign.items():
        outside = build_operator(parse_operator(foreign.operator), judge.problems.size)
        measurement = Measurement(outside.forward(blank[:1]), outside, foreign.noise_std)
        verdict = judge.judge(measurement)[0]
        case = {"model": settings.model, "case": name, "distance": verdict.distance}
        case |= foreign.model_dump()
        warned = float(not verdict.familiar)
        rows.append(record("foreign problem warned about", case, warned, "", None, ">= 1"))
    return rows


def _score(
    settings: Comparison,
    data: Path | None,
    work: Path,
    device: str | None,
    report: Callable[[str], None],
    name: str,
    operator: str | None,
    noise: float | None,
    *,
    control: bool = False,
) -> tuple[Numbers, list[str]]:
    """Per-image numbers of one model, or of its control, and each image's subject."""
    given = settings.options
    model = load(name).to(device or given.device)
    # What is kept is told apart by what was computed, not by a choice left to the machine.
    precision = choose_precision(given.precision, model.device)
    changes = {"operator": operator, "noise_std": noise, "data": data, "precision": precision}
    options = Options(**(vars(given) | changes))
    # By rounding alone another device differs: what was scored there counts as done.
    asked = vars(options) | {"data": None, "device": "cpu", "hashes": model.facts["hashes"]}
    who = f"{CONTROL} of {model.config.name}" if control else model.config.name
    stored = work / f"{who}-{operator or 'own'}-{noise}.npz".replace("/", "_")

    def find() -> Numbers:
        report(f"{who}: {operator or 'its own operator'}, noise_std {noise}")
        tested = open_tested(model, options)
        numbers = {
            f"{metric}, {estimate}": torch.cat(parts).numpy()
            for (metric, estimate), parts in judge(
                model, tested, options, control=control
            ).scores.rows.items()
        }
        return numbers | {"subjects": np.array(tested.subjects)}

    numbers = keep_numbers(stored, asked, find)
    return numbers, [str(name) for name in numbers.pop("subjects")]


def _list(
    model: str,
    *,
    numbers: Numbers,
    where: dict[str, object],
    control: Numbers,
    groups: list[str],
    record: Callable[..., Record],
) -> list[Record]:
    """The numbers of one row of the table."""
    rows = []
    for metric, estimate, unit in KEPT:
        values = numbers[f"{metric}, {estimate}"]
        case = {"model": model, "estimate": estimate, "images": len(values)} | where
        rows.append(
            record(metric, case, float(values.mean()), unit, bootstrap(values, groups=groups))
        )
    a, b = (found["CRPS, samples"] for found in (numbers, control))
    interval = bootstrap(a, b, groups=groups)
    ratio = float(a.mean() / b.mean())
    return [*rows, record(OVER_CONTROL, {"model": model} | where, ratio, "", interval)]


def _judge_coverage(
    model: str, where: dict[str, object], numbers: Numbers, record: Callable[..., Record]
) -> list[Record]:
    away = abs(float(numbers["coverage 90%, all pixels"].mean()) - 0.9)
    if math.isnan(away):  # fewer samples than resolve that level
        return []
    name = "distance of 90 % coverage from .9"
    return [record(name, {"model": model} | where, away, "", None, "<= 0.05")]


def _compare(
    where: dict[str, object],
    mine: Numbers,
    special: Numbers,
    groups: list[str],
    record: Callable[..., Record],
) -> list[Record]:
    """Against the specialist: PSNR behind it, and CRPS over its."""
    behind = special["PSNR, sample mean"] - mine["PSNR, sample mean"]
    ratio = float(mine["CRPS, samples"].mean() / special["CRPS, samples"].mean())
    return [
        record(
            "PSNR behind the specialist",
            where,
            float(behind.mean()),
            "dB",
            bootstrap(behind, groups=groups),
            "<= 0.3",
        ),
        record(
            "CRPS over the specialist's",
            where,
            ratio,
            "",
            bootstrap(mine["CRPS, samples"], special["CRPS, samples"], groups=groups),
            "<= 1.05",
        ),
    ]
