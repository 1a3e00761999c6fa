"""A model of a family beside its rivals: every operator, every noise level, paired by image."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bcdm.assessment import evaluate
from bcdm.assessment.kept import Numbers, keep_numbers
from bcdm.assessment.options import Options
from bcdm.assessment.records import Column, Record
from bcdm.assessment.statistics import bootstrap
from bcdm.checkpoint import load
from bcdm.checkpoint.building import build_operator
from bcdm.checkpoint.settings import parse_operator
from bcdm.errors import InputError
from bcdm.measurement import Measurement

__all__ = ["COLUMNS", "KEYS", "Comparison", "load_comparison", "run"]

KEPT = (
    ("PSNR", "one-call mean", "dB"),
    ("PSNR", "sample mean", "dB"),
    ("CRPS", "samples", ""),
    ("coverage 90%", "all pixels", ""),
    ("chi-square per degree of freedom", "single sample", ""),
)


KEYS = ("case", "noise_std", "model")
COLUMNS = (
    Column("PSNR, one call (dB)", "PSNR", "one-call mean"),
    Column("PSNR, mean of samples (dB)", "PSNR", "sample mean"),
    Column("CRPS", "CRPS", "samples", 4),
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
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise InputError(f"{path} is no comparison: {' '.join(str(error).split())[:300]}") from None


def run(
    path: Path,
    data: Path | None,
    work: Path,
    command: str,
    *,
    report: Callable[[str], None],
) -> list[Record]:
    """Scores every model on every case; parts that are done are kept in `work`."""
    settings = load_comparison(path)
    record = partial(Record, seed=settings.options.seed, command=command)
    score = partial(_score, settings, data, work, report)
    records: list[Record] = []
    margins: dict[str, list[np.ndarray]] = {metric: [] for metric, _ in SIGNS}
    subjects: list[str] = []
    for name, case in settings.cases.items():
        for noise in case.noise_std:
            mine, groups = score(settings.model, case.operator, noise)
            where: dict[str, object] = {"case": name, "operator": case.operator, "noise_std": noise}
            records += _list(settings.model, where, mine, groups, record, judged=True)
            if settings.rival is not None:
                theirs, _ = score(settings.rival, case.operator, noise)
                records += _list(settings.rival, where, theirs, groups, record, judged=False)
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
                records += _list(case.specialist, where, special, groups, record, judged=False)
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
            bootstrap(alarms),
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
    report: Callable[[str], None],
    name: str,
    operator: str | None,
    noise: float | None,
) -> tuple[Numbers, list[str]]:
    """Per-image numbers of one model, and each image's subject."""
    model = load(name)
    changes = {"operator": operator, "noise_std": noise, "data": data}
    options = Options(**(vars(settings.options) | changes))
    asked = vars(options) | {"data": None, "hashes": model.facts["hashes"]}
    stored = work / f"{model.config.name}-{operator or 'own'}-{noise}.npz".replace("/", "_")

    def find() -> Numbers:
        report(f"{name}: {operator or 'its own operator'}, noise_std {noise}")
        scores, groups = evaluate.score(model, options)
        numbers = {
            f"{metric}, {estimate}": torch.cat(parts).numpy()
            for (metric, estimate), parts in scores.rows.items()
        }
        subjects = groups or [str(k) for k in range(len(numbers["CRPS, samples"]))]
        return numbers | {"subjects": np.array(subjects)}

    numbers = keep_numbers(stored, asked, find)
    return numbers, [str(name) for name in numbers.pop("subjects")]


def _list(
    model: str,
    where: dict[str, object],
    numbers: Numbers,
    groups: list[str],
    record: Callable[..., Record],
    *,
    judged: bool,
) -> list[Record]:
    rows = []
    for metric, estimate, unit in KEPT:
        values = numbers[f"{metric}, {estimate}"]
        case = {"model": model, "estimate": estimate, "images": len(values)} | where
        rows.append(
            record(metric, case, float(values.mean()), unit, bootstrap(values, groups=groups))
        )
    if judged:
        away = abs(float(numbers["coverage 90%, all pixels"].mean()) - 0.9)
        case = {"model": model} | where
        rows.append(record("distance of 90 % coverage from .9", case, away, "", None, "<= 0.05"))
    return rows


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
