"""A model, or its control, on test images: numbers per image."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm.auto import tqdm

from bcdm.assessment.checks import Check, check_ranks
from bcdm.assessment.images import Tested
from bcdm.assessment.metrics import Scores, open_lpips
from bcdm.assessment.options import Options
from bcdm.checkpoint import Model
from bcdm.diffusion import DPMSolver, posterior_mean, sample
from bcdm.machine import autocast
from bcdm.measurement import Measurement
from bcdm.methods import LinearGaussian

__all__ = ["Judged", "judge"]


@dataclass(frozen=True)
class Judged:
    """Numbers per image, and tests of how truths rank among their samples."""

    scores: Scores
    checks: list[Check]


@torch.no_grad()
def judge(model: Model, tested: Tested, options: Options, *, control: bool = False) -> Judged:
    """Reconstructs all images and compares them to the truth.

    Args:
        model: What reconstructs.
        tested: The images, and what they are measured with.
        options: How.
        control: Whether the linear Gaussian posterior of the model's prior reconstructs instead.
    """
    scores, samples, linear = Scores(), [], []
    lpips = open_lpips(options.lpips, options.data)
    reconstruct = _draw_control if control else _reconstruct
    starts = range(0, len(tested.rows), options.batch)
    name = "evaluating the control" if control else "evaluating"
    for start in tqdm(starts, desc=name, unit="batch", disable=None):
        part = slice(start, start + options.batch)
        x, rows = tested.images[part], tested.rows[part]
        measurement = Measurement.simulate(
            x, tested.problem.operator, tested.problem.noise_std, seed=options.seed, indices=rows
        )
        estimates, drawn = reconstruct(model, measurement, rows, options)
        estimates["sample mean"] = drawn[: options.mean_samples].mean(0)
        estimates["single sample"] = drawn[0]
        scores.judge_images(x, estimates, model.value_range, lpips, options.metrics)
        scores.judge_samples(x, drawn, measurement, black=model.value_range[0])
        if options.figure is not None and not control:
            _keep_for_figure(scores, x, estimates, drawn)
        samples.append(drawn)
        linear.append(model.scales.estimate_linearly(measurement))
    whole = torch.cat(samples, 1)
    given = (whole, tested.images, torch.cat(linear), options.seed, tested.subjects)
    return Judged(scores, check_ranks(*given))


def _reconstruct(
    model: Model, measurement: Measurement, rows: Sequence[int], options: Options
) -> tuple[dict[str, Tensor], Tensor]:
    """Estimates of a batch, and samples (S, B, C, H, W)."""
    posterior = model.condition(measurement)
    solver = DPMSolver(options.churn)
    # By the number of the image: simulated data are rounded differently on other machines.
    names = [str(row) for row in rows]
    with autocast(model.device, options.precision):
        mean = posterior_mean(posterior, seed=options.seed, items=names)
        drawn = [
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
    linear = model.scales.estimate_linearly(measurement)
    estimates = {"zero-filled": measurement.back_projection, "Wiener": linear}
    return estimates | {"one-call mean": mean}, torch.stack(drawn)


def _draw_control(
    model: Model, measurement: Measurement, rows: Sequence[int], options: Options
) -> tuple[dict[str, Tensor], Tensor]:
    """The same of what is left without a network; its estimate by one call is the linear one."""
    names = [str(row) for row in rows]
    control = LinearGaussian(model.scales)
    drawn = control.draw_many(measurement, names, options.samples, options.seed)
    return {"one-call mean": model.scales.estimate_linearly(measurement)}, drawn


def _keep_for_figure(
    scores: Scores, x: Tensor, estimates: dict[str, Tensor], drawn: Tensor
) -> None:
    names = ("zero-filled", "one-call mean", "sample mean")
    shown = {"reference": x} | {name: estimates[name] for name in names}
    shown |= {f"sample {k + 1}": drawn[k] for k in range(min(4, len(drawn)))}
    shown |= {"std": drawn.std(0), "|error|": (estimates["sample mean"] - x).abs()}
    for name, images in shown.items():
        scores.shown.setdefault(name, []).append(images[:1].cpu())
