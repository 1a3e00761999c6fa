"""From numbers per image to the records of an evaluation, and to a model's card."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch

from bcdm.assessment.judging import Judged
from bcdm.assessment.metrics import Scores
from bcdm.assessment.options import Options
from bcdm.assessment.records import Record
from bcdm.assessment.statistics import bootstrap
from bcdm.checkpoint import Model, read_facts, write_facts
from bcdm.evaluation import describe_ssim
from bcdm.machine import choose_precision
from bcdm.methods import CONTROL

__all__ = ["OVER_CONTROL", "summarise", "write_card"]

OVER_CONTROL = "CRPS over the control's"
REQUIRED = {
    OVER_CONTROL: "<= 0.5",
    "PSNR gain over zero-filled": ">= 5",
    "PSNR gain over Wiener": ">= 5",
    "distance of 90 % coverage from .9": "<= 0.05",
    "distance of chi-square from 1": "<= 0.2",
}
_CRPS = ("CRPS", "samples")
_ALL = "samples"  # the estimate whose effort is that of all samples

Effort = Mapping[str, dict[str, object]]


def summarise(
    own: Judged,
    control: Judged,
    model: Model,
    subjects: Sequence[str],
    options: Options,
    command: str,
) -> list[Record]:
    """The CRPS first, then each number with the control's beside it, then what is required.

    Intervals are over subjects.
    """
    base = _describe(model, options, len(subjects))
    record = partial(Record, seed=options.seed, command=command)
    effort = _list_effort(model, options)
    mine = _list_numbers(own, base, effort, model, options, subjects, record)
    counts = {
        "one-call mean": 0,
        "sample mean": min(options.samples, options.mean_samples),
        "single sample": 1,
        _ALL: options.samples,
    }
    exact: Effort = {name: {"samples": count, "calls": 0} for name, count in counts.items()}
    other = {"method": CONTROL}
    theirs = _list_numbers(control, base | other, exact, model, options, subjects, record)
    whole = base | effort[_ALL]
    one_call = base | {"estimate": "one-call mean"} | effort["one-call mean"]
    required = REQUIRED if options.strict else {}
    a, b = (judged.scores.get(*_CRPS) for judged in (own, control))
    interval = bootstrap(a, b, groups=subjects)
    ratio = float(a.mean() / b.mean())
    over = record(OVER_CONTROL, whole, ratio, "", interval, required.get(OVER_CONTROL))
    records = [mine.pop(_CRPS), theirs.pop(_CRPS), over]
    for name, number in mine.items():
        records += [number, theirs[name]] if name in theirs else [number]
    return records + _judge(own.scores, one_call, whole, record, options.strict, subjects)


def _describe(model: Model, options: Options, count: int) -> dict[str, object]:
    """What all numbers are of."""
    base: dict[str, object] = {
        "model": model.config.name,
        "data": model.config.data.path,
        "split": options.split,
        "images": count,
    }
    if options.operator is not None:
        base["operator"] = options.operator
    if options.noise_std is not None:
        base["noise_std"] = options.noise_std
    return base


def _list_effort(model: Model, options: Options) -> Effort:
    """What each estimate costs."""
    precision = choose_precision(options.precision, model.device)
    whole: dict[str, object] = {
        "samples": options.samples,
        "calls": options.calls,
        "churn": options.churn,
        "precision": precision,
    }
    if model.device.type != "cpu":
        whole["device"] = str(model.device)
    return {
        "zero-filled": {},
        "Wiener": {},
        "one-call mean": {"samples": 0, "calls": 1, "precision": precision},
        "sample mean": whole | {"samples": min(options.samples, options.mean_samples)},
        "single sample": whole | {"samples": 1},
        _ALL: whole,
    }


def _list_numbers(
    judged: Judged,
    base: dict[str, object],
    effort: Effort,
    model: Model,
    options: Options,
    subjects: Sequence[str],
    record: Callable[..., Record],
) -> dict[tuple[str, str], Record]:
    """Records by metric and estimate."""
    low, high = model.value_range
    conventions: dict[str, dict[str, object]] = {
        "PSNR": {"data range": high - low},
        "SSIM": {"convention": describe_ssim("wang")},
        "LPIPS": {"weights": options.lpips.name if options.lpips else None},
    }
    scores, found = judged.scores, {}
    for (metric, estimate), parts in scores.rows.items():
        if not estimate:
            continue
        values = torch.cat(parts)
        case = base | {"estimate": estimate} | conventions.get(metric, {})
        # Numbers of the truth cost nothing.
        case |= {} if estimate == "truth" else effort.get(estimate, effort[_ALL])
        if metric.startswith("coverage") and bool(values.isnan().all()):
            case["note"] = f"{options.samples} samples cannot resolve this level"
        unit = "dB" if metric == "PSNR" else ""
        interval = bootstrap(values, groups=subjects)
        found[metric, estimate] = record(metric, case, float(values.mean()), unit, interval)
    case = base | effort[_ALL]
    ratio = (scores.get("spread", "").sum() / scores.get("skill", "").sum()).sqrt()
    found["spread / skill", ""] = record("spread / skill", case, float(ratio))
    for check in judged.checks:
        told = {"says": check.says} if check.says else {}
        found[check.name, ""] = record(check.name, case | told, check.value)
    return found


def _judge(
    scores: Scores,
    one_call: dict[str, object],
    whole: dict[str, object],
    record: Callable[..., Record],
    strict: bool,
    subjects: Sequence[str],
) -> list[Record]:
    """Differences that the experiments require something of."""
    best = scores.get("PSNR", "one-call mean")
    gains = {
        f"PSNR gain over {name}": best - scores.get("PSNR", name)
        for name in ("zero-filled", "Wiener")
    }
    covered = float(scores.get("coverage 90%", "all pixels").mean())
    square = float(scores.get("chi-square per degree of freedom", "single sample").mean())
    required = REQUIRED if strict else {}
    rows = []
    for name, gain in gains.items():
        interval = bootstrap(gain, groups=subjects)
        rows.append(record(name, one_call, float(gain.mean()), "dB", interval, required.get(name)))
    for name, away in (
        ("distance of 90 % coverage from .9", abs(covered - 0.9)),
        ("distance of chi-square from 1", abs(square - 1)),
    ):
        rows.append(record(name, whole, away, "", None, required.get(name)))
    return rows


def write_card(folder: Path, records: list[Record], command: str) -> None:
    """Puts the numbers, with what they are of, into the model's facts and card."""
    content = read_facts(folder)
    rows = {}
    for r in records:
        if r.value is None:
            continue
        parts = [r.name, r.case.get("estimate"), r.case.get("method")]
        name = ", ".join(str(part) for part in parts if part)
        kinds = {"data range": "data range", "samples": "samples", "calls": "calls"}
        note = ", ".join(f"{k} {r.case[v]}" for k, v in kinds.items() if r.case.get(v))
        interval = f" [{r.interval[0]:.4g}, {r.interval[1]:.4g}]" if r.interval else ""
        number = f"{r.value:.4g} {r.unit}".strip()
        rows[name] = f"{number}{interval}{f' ({note})' if note else ''}"
        rows[name] += f": {r.case['says']}" if "says" in r.case else ""
    case = records[0].case
    on = f"{case['images']} {case['split']} images of {case['data']}, seed {records[0].seed}"
    content["facts"]["metrics"] = {"command": command, "on": on, "rows": rows}
    write_facts(folder, content)
