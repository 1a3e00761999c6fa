"""A trained model on held-out images: quality, calibration and consistency with the data."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from bcdm.benchmark.records import Record
from bcdm.benchmark.scores import Scores, open_lpips
from bcdm.benchmark.statistics import bootstrap
from bcdm.checkpoint import Model, find_model, load, read_facts, write_facts
from bcdm.config import parse_operator, resolve_data_path
from bcdm.construction import build_operator
from bcdm.data import ImageSource, assign_splits, open_images, select_split
from bcdm.diffusion import DPMSolver, posterior_mean, sample
from bcdm.errors import InputError
from bcdm.evaluation import (
    describe_ssim,
    tarp,
)
from bcdm.measurement import Measurement
from bcdm.problems import OneProblem
from bcdm.report.panels import draw_panels

__all__ = ["Options", "choose_images", "choose_problem", "choose_training_images", "run", "score"]

REQUIRED = {
    "PSNR gain over zero-filled": ">= 5",
    "PSNR gain over Wiener": ">= 5",
    "distance of 90 % coverage from .9": "<= 0.05",
    "distance of chi-square from 1": "<= 0.2",
}
SHOWN = 6  # rows of the figure


@dataclass(frozen=True)
class Options:
    """How to evaluate.

    Attributes:
        data: Data folder.
        split: Which part of the data; never the one trained on.
        limit: At most this many images, evenly spaced over the split.
        samples: Posterior samples per image; 20 resolve 90 %, 40 resolve 95 % coverage.
        mean_samples: How many of them are averaged into the sample mean.
        calls: Network calls per sample.
        churn: Of DPM-Solver++: 0 is the ODE, 1 the SDE; more forgets a network's errors sooner.
        batch: Images at once.
        seed: Of measurement noise and samples.
        precision: "bfloat16" runs the network in autocast.
        operator: Settings of the operator to measure with, as YAML; default: the model's own.
        noise_std: Of the measurements; default: the model's own.
        lpips: Folder or file with LPIPS weights; left out: no LPIPS.
        strict: Whether the requirements of the experiments apply.
        figure: PNG to draw.
        card: Whether to write the numbers into the model's card.
    """

    data: Path | None = None
    split: str = "test"
    limit: int | None = None
    samples: int = 20
    mean_samples: int = 16
    calls: int = 30
    churn: float = 1.0
    batch: int = 16
    seed: int = 0
    precision: str = "float32"
    operator: str | None = None
    noise_std: float | None = None
    lpips: Path | None = None
    strict: bool = False
    figure: Path | None = None
    card: bool = False


@torch.no_grad()
def run(
    name: str, options: Options, command: str, *, report: Callable[[str], None] = print
) -> list[Record]:
    """Evaluates and returns the records."""
    model = load(name)
    source, chosen = choose_images(model, options)
    problem = choose_problem(model, options)
    scores, samples, truths, references = Scores(), [], [], []
    lpips = open_lpips(options.lpips, options.data)
    starts = range(0, len(chosen), options.batch)
    for start in tqdm(starts, desc="evaluating", unit="batch", disable=None):
        rows = chosen[start : start + options.batch]
        x = torch.stack([model.preparation(source[i]) for i in rows])
        estimates, drawn, measurement = _reconstruct(model, problem, x, rows, options)
        scores.judge_images(x, estimates, model.config.data.value_range, lpips)
        scores.judge_samples(x, drawn, measurement)
        _keep_for_figure(scores, x, estimates, drawn)
        samples.append(drawn.flatten(2))
        truths.append(x.flatten(1))
        references.append(estimates["Wiener"].flatten(1))
    curve = _check_tarp(torch.cat(samples, 1), torch.cat(truths), torch.cat(references), options)
    subjects = [str(source.subjects[i]) for i in chosen] if source.subjects is not None else None
    records = _summarise(scores, curve, model, options, command, len(chosen), subjects)
    if options.figure is not None:
        _draw(scores, model, options.figure)
        report(f"wrote {options.figure}")
    if options.card:
        _write_card(find_model(name), records, command)
    return records


@torch.no_grad()
def score(model: Model, options: Options) -> tuple[Scores, list[str] | None]:
    """Numbers per image, and the subject of each if the data tells."""
    source, chosen = choose_images(model, options)
    problem, scores = choose_problem(model, options), Scores()
    for start in range(0, len(chosen), options.batch):
        rows = chosen[start : start + options.batch]
        x = torch.stack([model.preparation(source[i]) for i in rows])
        estimates, drawn, measurement = _reconstruct(model, problem, x, rows, options)
        scores.judge_images(x, estimates, model.config.data.value_range, None)
        scores.judge_samples(x, drawn, measurement)
    return scores, None if source.subjects is None else [str(source.subjects[i]) for i in chosen]


def choose_images(model: Model, options: Options) -> tuple[ImageSource, list[int]]:
    """The split's images, and which of them are taken: evenly spaced."""
    data = model.config.data
    source = open_images(resolve_data_path(data.path, options.data), data.key, data.source_range)
    labels = assign_splits(source, data.fractions, data.split_seed)
    if options.split == "train":
        raise InputError("results from training images mean nothing: choose another split")
    subset = select_split(source, labels, options.split)
    if not len(subset):
        raise InputError(f"the data has no {options.split!r} images")
    count = min(len(subset), options.limit or len(subset))
    return subset, np.linspace(0, len(subset) - 1, count).round().astype(int).tolist()


def choose_training_images(model: Model, folder: Path | None, limit: int) -> list[Tensor]:
    """Images the model was trained on, prepared, evenly spaced; none if there are too few.

    They tell what is typical; no result may rest on them.
    """
    data = model.config.data
    source = open_images(resolve_data_path(data.path, folder), data.key, data.source_range)
    subset = select_split(source, assign_splits(source, data.fractions, data.split_seed), "train")
    if len(subset) < limit:
        return []
    rows = np.linspace(0, len(subset) - 1, limit).round().astype(int).tolist()
    return [model.preparation(subset[i]) for i in rows]


def choose_problem(model: Model, options: Options) -> OneProblem:
    """What the options measure with: the model's own problem where they say nothing."""
    noise_std = model.noise_std if options.noise_std is None else options.noise_std
    if options.operator is None:
        return OneProblem(model.operator, noise_std)
    size = (model.shape[-2], model.shape[-1])
    return OneProblem(build_operator(parse_operator(options.operator), size), noise_std)


def _reconstruct(
    model: Model, problem: OneProblem, x: Tensor, rows: Sequence[int], options: Options
) -> tuple[dict[str, Tensor], Tensor, Measurement]:
    """All estimates of a batch, and samples (S, B, C, H, W)."""
    operator, std = problem.operator, problem.noise_std
    measurement = Measurement.simulate(x, operator, std, seed=options.seed, indices=rows)
    posterior = model.condition(measurement)
    reduced = options.precision == "bfloat16"
    context = torch.autocast("cpu", torch.bfloat16) if reduced else contextlib.nullcontext()
    solver = DPMSolver(options.churn)
    with context:
        mean = posterior_mean(posterior, seed=options.seed, count=len(x))
        drawn = torch.stack([
            sample(posterior, solver, steps=options.calls, seed=options.seed, progress=False,
                   indices=[row * options.samples + k for row in rows])
            for k in range(options.samples)
        ])  # fmt: skip
    estimates = {
        "zero-filled": measurement.back_projection,
        "Wiener": model.method.parameterisation.estimate_linearly(measurement),
        "one-call mean": mean,
        "sample mean": drawn[: options.mean_samples].mean(0),
        "single sample": drawn[0],
    }
    return estimates, drawn, measurement


def _check_tarp(
    samples: Tensor, truth: Tensor, wiener: Tensor, options: Options
) -> tuple[float, float]:
    """The largest distance of TARP's curve from the diagonal, and of its 95 % band's half width.

    References depend on y: the Wiener estimate plus noise of the size of its typical error.
    """
    generator = torch.Generator().manual_seed(options.seed)
    size = float((wiener - truth).square().mean().sqrt())
    references = wiener + size * torch.randn(wiener.shape, generator=generator)
    levels = [k / 20 for k in range(1, 20)]
    curve = tarp(samples, truth, references, levels, generator=generator)
    away = (curve.coverage - curve.levels).abs().max()
    return float(away), float((curve.upper - curve.lower).max() / 2)


def _summarise(
    scores: Scores,
    curve: tuple[float, float],
    model: Model,
    options: Options,
    command: str,
    count: int,
    subjects: list[str] | None,
) -> list[Record]:
    data = model.config.data
    base: dict[str, object] = {
        "model": model.config.name, "data": data.path, "split": options.split, "images": count,
    }  # fmt: skip
    if options.operator is not None:
        base["operator"] = options.operator
    if options.noise_std is not None:
        base["noise_std"] = options.noise_std
    whole: dict[str, object] = {
        "samples": options.samples, "calls": options.calls, "churn": options.churn,
        "precision": options.precision,
    }  # fmt: skip
    effort: dict[str, dict[str, object]] = {
        "zero-filled": {}, "Wiener": {}, "truth": {},
        "one-call mean": {"samples": 0, "calls": 1, "precision": options.precision},
        "sample mean": whole | {"samples": min(options.samples, options.mean_samples)},
        "single sample": whole | {"samples": 1},
    }  # fmt: skip
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


def _keep_for_figure(
    scores: Scores, x: Tensor, estimates: dict[str, Tensor], drawn: Tensor
) -> None:
    names = ("zero-filled", "one-call mean", "sample mean")
    shown = {"reference": x} | {name: estimates[name] for name in names}
    shown |= {f"sample {k + 1}": drawn[k] for k in range(min(4, len(drawn)))}
    shown |= {"std": drawn.std(0), "|error|": (estimates["sample mean"] - x).abs()}
    for name, images in shown.items():
        scores.shown.setdefault(name, []).append(images[:1].cpu())


def _draw(scores: Scores, model: Model, path: Path) -> None:
    """One image of each of the first batches, so that rows come from different subjects."""
    columns = {name: torch.cat(images)[:SHOWN] for name, images in scores.shown.items()}
    sizes = {name: columns.pop(name) for name in ("std", "|error|")}
    draw_panels(path, columns, sizes, value_range=model.config.data.value_range)


def _write_card(folder: Path, records: list[Record], command: str) -> None:
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
