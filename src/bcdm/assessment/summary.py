"""From numbers per image to the records of an evaluation, and to a model's card."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from bcdm.assessment.metrics import Scores
from bcdm.assessment.options import Options
from bcdm.assessment.records import Record
from bcdm.assessment.statistics import bootstrap
from bcdm.checkpoint import Model, read_facts, write_facts
from bcdm.evaluation import describe_ssim
from bcdm.machine import choose_precision

__all__ = ["summarise", "write_card"]

REQUIRED = {
    "PSNR gain over zero-filled": ">= 5",
    "PSNR gain over Wiener": ">= 5",
    "distance of 90 % coverage from .9": "<= 0.05",
    "distance of chi-square from 1": "<= 0.2",
}


def summarise(
    scores: Scores,
    curve: tuple[float, float],
    model: Model,
    options: Options,
    command: str,
    count: int,
    subjects: list[str] | None,
) -> list[Record]:
    """One record a number, with its interval over subjects; then what the experiments require."""
    data = model.config.data
    base: dict[str, object] = {
        "model": model.config.name,
        "data": data.path,
        "split": options.split,
        "images": count,
    }
    if options.operator is not None:
        base["operator"] = options.operator
    if options.noise_std is not None:
        base["noise_std"] = options.noise_std
    precision = choose_precision(options.precision, model.device)
    whole: dict[str, object] = {
        "samples": options.samples,
        "calls": options.calls,
        "churn": options.churn,
        "precision": precision,
    }
    if model.device.type != "cpu":
        whole["device"] = str(model.device)
    effort: dict[str, dict[str, object]] = {
        "zero-filled": {},
        "Wiener": {},
        "truth": {},
        "one-call mean": {"samples": 0, "calls": 1, "precision": precision},
        "sample mean": whole | {"samples": min(options.samples, options.mean_samples)},
        "single sample": whole | {"samples": 1},
    }
    conventions: dict[str, dict[str, object]] = {
        "PSNR": {"data range": data.value_range[1] - data.value_range[0]},
        "SSIM": {"convention": describe_ssim("wang")},
        "LPIPS": {"weights": options.lpips.name if options.lpips else None},
    }
    record = partial(Record, seed=options.seed, command=command)
    records = []
    ratio = (scores.pop("spread").sum() / scores.pop("skill").sum()).sqrt()
    for (metric, estimate), parts in scores.rows.items():
        values = torch.cat(parts)
        case = base | {"estimate": estimate} | conventions.get(metric, {})
        case |= effort.get(estimate, whole)
        if metric.startswith("coverage") and bool(values.isnan().all()):
            case["note"] = f"{options.samples} samples cannot resolve this level"
        unit = "dB" if metric == "PSNR" else ""
        interval = bootstrap(values, groups=subjects)
        records.append(record(metric, case, float(values.mean()), unit, interval))
    records.append(record("spread / skill", base | whole, float(ratio)))
    records.append(record("TARP distance from diagonal", base | whole, curve[0]))
    records.append(record("TARP 95 % half width", base | whole, curve[1]))
    records += _judge(scores, base | whole, record, options.strict, subjects)
    return records


def _judge(
    scores: Scores,
    case: dict[str, object],
    record: Callable[..., Record],
    strict: bool,
    subjects: list[str] | None,
) -> list[Record]:
    """Differences that the experiments require something of."""
    best = scores.get("PSNR", "one-call mean")
    gains = {
        f"PSNR gain over {name}": best - scores.get("PSNR", name)
        for name in ("zero-filled", "Wiener")
    }
    covered = float(scores.get("coverage 90%", "all pixels").mean())
    square = float(scores.get("chi-square per degree of freedom", "single sample").mean())
    rows: list[tuple[str, float, str, tuple[float, float] | None]] = [
        (name, float(gain.mean()), "dB", bootstrap(gain, groups=subjects))
        for name, gain in gains.items()
    ]
    rows += [
        ("distance of 90 % coverage from .9", abs(covered - 0.9), "", None),
        ("distance of chi-square from 1", abs(square - 1), "", None),
    ]
    return [
        record(name, case, value, unit, interval, REQUIRED[name] if strict else None)
        for name, value, unit, interval in rows
    ]


def write_card(folder: Path, records: list[Record], command: str) -> None:
    """Puts the numbers, with what they are of, into the model's facts and card."""
    content = read_facts(folder)
    rows = {}
    for r in records:
        if r.value is None:
            continue
        name = f"{r.name}, {r.case['estimate']}" if r.case.get("estimate") else r.name
        kinds = {"data range": "data range", "samples": "samples", "calls": "calls"}
        note = ", ".join(f"{k} {r.case[v]}" for k, v in kinds.items() if r.case.get(v))
        interval = f" [{r.interval[0]:.4g}, {r.interval[1]:.4g}]" if r.interval else ""
        number = f"{r.value:.4g} {r.unit}".strip()
        rows[name] = f"{number}{interval}{f' ({note})' if note else ''}"
    case = records[0].case
    on = f"{case['images']} {case['split']} images of {case['data']}, seed {records[0].seed}"
    content["facts"]["metrics"] = {"command": command, "on": on, "rows": rows}
    write_facts(folder, content)
