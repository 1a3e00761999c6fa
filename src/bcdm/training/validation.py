"""Validation during training: error per noise level, one-call PSNR, and pictures."""

from pathlib import Path

import torch
from torch import Tensor, nn

from bcdm.diffusion import NoiseLevel, posterior_mean
from bcdm.evaluation import psnr
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian
from bcdm.training.objective import Objective

__all__ = ["validate"]

_LEVELS = 6


@torch.no_grad()
def validate(
    objective: Objective,
    network: nn.Module,
    images: Tensor,
    folder: Path,
    value_range: tuple[float, float],
) -> dict[str, float]:
    """Measures averaged weights on fixed images, noise and levels; writes validation.png.

    PSNR is over the value range, averaged over images; the picture is black and white at its ends.
    """
    was_training = network.training
    network.eval()
    method = Bayesian(network, objective.method.schedule, objective.method.parameterisation)
    averaged = Objective(method, objective.problems, objective.levels, objective.seed)
    counters = torch.arange(len(images))
    low, high = method.schedule.log_snr_range
    values = {}
    for log_snr in torch.linspace(low, high - 4, _LEVELS, dtype=torch.float64):
        level: NoiseLevel = method.schedule.level(log_snr.expand(len(images)))
        error, _ = averaged.measure(images, counters, level)
        values[f"RMSE at log-SNR {float(log_snr):+.0f}"] = float(error.mean().sqrt())
    operator, noise_std = objective.problems.draw(range(len(images)))
    measurement = Measurement.simulate(images, operator, noise_std, seed=objective.seed)
    mean = posterior_mean(method.condition(measurement), count=len(images))
    # Of complex images the magnitude is judged and shown.
    rows = [
        part.abs() if part.is_complex() else part
        for part in (images, measurement.back_projection, mean)
    ]
    span = value_range[1] - value_range[0]
    values["psnr"] = float(psnr(rows[2], rows[0], data_range=span).mean())
    _write_picture(folder / "validation.png", rows, value_range)
    network.train(was_training)
    return values


def _write_picture(path: Path, rows: list[Tensor], value_range: tuple[float, float]) -> None:
    """Reference, back projection and mean of eight images, if Pillow is installed."""
    try:
        from PIL import Image
    except ImportError:
        return
    strips = [torch.cat(list(row[:8].cpu().float()), -1) for row in rows]
    low, high = value_range
    grey = (torch.cat(strips, -2).clamp(low, high) - low) / (high - low)
    picture = (255 * grey).round().byte()
    array = picture.movedim(0, -1).numpy()
    Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).save(path)
