"""A trained model on held-out images: quality, calibration and consistency with the data."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from tqdm.auto import tqdm

from bcdm.assessment.images import choose_images
from bcdm.assessment.metrics import Scores, open_lpips
from bcdm.assessment.options import Options, choose_problem
from bcdm.assessment.records import Record
from bcdm.assessment.summary import summarise, write_card
from bcdm.checkpoint import Model, find_model, load
from bcdm.diffusion import DPMSolver, posterior_mean, sample
from bcdm.evaluation import tarp
from bcdm.machine import autocast
from bcdm.measurement import Measurement
from bcdm.problems import OneProblem
from bcdm.report.panels import plot_panels

__all__ = ["run", "score"]

SHOWN = 6  # rows of the figure


@torch.no_grad()
def run(
    name: str, options: Options, command: str, *, report: Callable[[str], None] = print
) -> list[Record]:
    """Evaluates and returns the records."""
    model = load(name).to(options.device)
    source, chosen = choose_images(model, options.data, options.split, options.limit)
    problem = choose_problem(model, options)
    scores, samples, truths, references = Scores(), [], [], []
    lpips = open_lpips(options.lpips, options.data)
    starts = range(0, len(chosen), options.batch)
    for start in tqdm(starts, desc="evaluating", unit="batch", disable=None):
        rows = chosen[start : start + options.batch]
        x = torch.stack([model.preparation(source[i]) for i in rows])
        estimates, drawn, measurement = _reconstruct(model, problem, x, rows, options)
        scores.judge_images(x, estimates, model.value_range, lpips, options.metrics)
        scores.judge_samples(x, drawn, measurement, black=model.config.data.value_range[0])
        _keep_for_figure(scores, x, estimates, drawn)
        samples.append(drawn.flatten(2))
        truths.append(x.flatten(1))
        references.append(estimates["Wiener"].flatten(1))
    curve = _check_tarp(torch.cat(samples, 1), torch.cat(truths), torch.cat(references), options)
    subjects = [str(source.subjects[i]) for i in chosen] if source.subjects is not None else None
    records = summarise(scores, curve, model, options, command, len(chosen), subjects)
    if options.figure is not None:
        _plot(scores, model, options.figure)
        report(f"wrote {options.figure}")
    if options.card:
        write_card(find_model(name), records, command)
    return records


@torch.no_grad()
def score(model: Model, options: Options) -> tuple[Scores, list[str] | None]:
    """Numbers per image, and the subject of each if the data tells."""
    source, chosen = choose_images(model, options.data, options.split, options.limit)
    problem, scores = choose_problem(model, options), Scores()
    for start in range(0, len(chosen), options.batch):
        rows = chosen[start : start + options.batch]
        x = torch.stack([model.preparation(source[i]) for i in rows])
        estimates, drawn, measurement = _reconstruct(model, problem, x, rows, options)
        scores.judge_images(x, estimates, model.config.data.value_range, None)
        scores.judge_samples(x, drawn, measurement, black=model.config.data.value_range[0])
    return scores, None if source.subjects is None else [str(source.subjects[i]) for i in chosen]


def _reconstruct(
    model: Model, problem: OneProblem, x: Tensor, rows: Sequence[int], options: Options
) -> tuple[dict[str, Tensor], Tensor, Measurement]:
    """All estimates of a batch, and samples (S, B, C, H, W)."""
    operator, std = problem.operator, problem.noise_std
    measurement = Measurement.simulate(x, operator, std, seed=options.seed, indices=rows)
    posterior = model.condition(measurement)
    solver = DPMSolver(options.churn)
    # By the number of the image: simulated data are rounded differently on other machines.
    names = [str(row) for row in rows]
    with autocast(model.device, options.precision):
        mean = posterior_mean(posterior, seed=options.seed, items=names)
        drawn = torch.stack(
            [
                sample(
                    posterior,
                    solver,
                    steps=options.calls,
                    seed=options.seed,
                    indices=[k] * len(names),
                    items=names,
                    progress=False,
                )
                for k in range(options.samples)
            ]
        )
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


def _keep_for_figure(
    scores: Scores, x: Tensor, estimates: dict[str, Tensor], drawn: Tensor
) -> None:
    names = ("zero-filled", "one-call mean", "sample mean")
    shown = {"reference": x} | {name: estimates[name] for name in names}
    shown |= {f"sample {k + 1}": drawn[k] for k in range(min(4, len(drawn)))}
    shown |= {"std": drawn.std(0), "|error|": (estimates["sample mean"] - x).abs()}
    for name, images in shown.items():
        scores.shown.setdefault(name, []).append(images[:1].cpu())


def _plot(scores: Scores, model: Model, path: Path) -> None:
    """One image of each of the first batches, so that rows come from different subjects."""
    columns = {name: torch.cat(images)[:SHOWN] for name, images in scores.shown.items()}
    sizes = {name: columns.pop(name) for name in ("std", "|error|")}
    plot_panels(path, columns, sizes, value_range=model.config.data.value_range)
