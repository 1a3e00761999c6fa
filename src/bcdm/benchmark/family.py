"""A model of a family beside its rivals: every operator, every noise level, paired by image."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bcdm.benchmark import evaluate
from bcdm.benchmark.records import Record
from bcdm.benchmark.statistics import bootstrap
from bcdm.checkpoint import load
from bcdm.errors import InputError

__all__ = ["Comparison", "load_comparison", "run"]

KEPT = (
    ("PSNR", "one-call mean", "dB"),
    ("PSNR", "sample mean", "dB"),
    ("CRPS", "samples", ""),
    ("coverage 90%", "all pixels", ""),
    ("chi-square per degree of freedom", "single sample", ""),
)


class Case(BaseModel):
    """An operator that training never drew, and the noise levels it is tried at.

    Attributes:
        operator: Its settings, as YAML.
        noise_std: Levels.
        specialist: A model for this operator alone.
        specialist_noise: The level that it was made for.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    operator: str
    noise_std: tuple[float, ...] = Field(min_length=1)
    specialist: str | None = None
    specialist_noise: float = 0.02


class Comparison(BaseModel):
    """A file of settings.

    Attributes:
        model: The model of a family.
        rival: Another of the same family and budget; None for none.
        cases: By name.
        options: Of every evaluation.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    model: str
    rival: str | None = None
    cases: dict[str, Case]
    options: evaluate.Options = evaluate.Options()


Numbers = dict[str, np.ndarray]


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
    margins: dict[str, list[np.ndarray]] = {"PSNR, sample mean": [], "CRPS, samples": []}
    subjects: list[str] = []
    for name, case in settings.cases.items():
        for noise in case.noise_std:
            mine, groups = score(settings.model, case.operator, noise)
            where: dict[str, object] = {"case": name, "operator": case.operator, "noise_std": noise}
            records += _list(settings.model, where, mine, groups, record, judged=True)
            if settings.rival is not None:
                theirs, _ = score(settings.rival, case.operator, noise)
                records += _list(settings.rival, where, theirs, groups, record, judged=False)
                margins["PSNR, sample mean"].append(
                    mine["PSNR, sample mean"] - theirs["PSNR, sample mean"]
                )
                margins["CRPS, samples"].append(theirs["CRPS, samples"] - mine["CRPS, samples"])
                subjects += groups
            if case.specialist is not None and noise == case.specialist_noise:
                special, _ = score(case.specialist, None, None)
                records += _list(case.specialist, where, special, groups, record, judged=False)
                records += _compare(where, mine, special, groups, record)
    for metric, parts in margins.items():
        if parts:
            away = np.concatenate(parts)
            which: dict[str, object] = {"metric": metric, "rival": settings.rival}
            interval = bootstrap(away, groups=subjects)
            name = "margin over the rival, all cases"
            records.append(record(name, which, float(away.mean()), "", interval, "> 0"))
    return records


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
    options = evaluate.Options(**(vars(settings.options) | changes))
    asked = json.dumps(vars(options) | {"data": None, "hashes": model.facts["hashes"]},
                       sort_keys=True, default=str)  # fmt: skip
    stored = work / f"{model.config.name}-{operator or 'own'}-{noise}.npz".replace("/", "_")
    if stored.exists():
        with np.load(stored, allow_pickle=False) as file:
            if str(file["asked"]) == asked:
                names = [n for n in file.files if n not in ("asked", "subjects")]
                return {n: file[n] for n in names}, [str(s) for s in file["subjects"]]
    report(f"{name}: {operator or 'its own operator'}, noise_std {noise}")
    scores, groups = evaluate.score(model, options)
    numbers = {
        f"{metric}, {estimate}": torch.cat(parts).numpy()
        for (metric, estimate), parts in scores.rows.items()
    }
    subjects = groups or [str(k) for k in range(len(numbers["CRPS, samples"]))]
    work.mkdir(parents=True, exist_ok=True)
    partial_file = stored.with_suffix(".partial.npz")
    arrays = numbers | {"asked": np.array(asked), "subjects": np.array(subjects)}
    np.savez(partial_file, allow_pickle=False, **arrays)
    partial_file.replace(stored)
    return numbers, subjects


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
        record("PSNR behind the specialist", where, float(behind.mean()), "dB",
               bootstrap(behind, groups=groups), "<= 0.3"),
        record("CRPS over the specialist's", where, ratio, "",
               bootstrap(mine["CRPS, samples"], special["CRPS, samples"]), "<= 1.05"),
    ]  # fmt: skip
