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
    objective: Objective, network: nn.Module, images: Tensor, folder: Path
) -> dict[str, float]:
    """Measures averaged weights on fixed images, noise and levels; writes validation.png.

    PSNR is over the images' own value range of 2 ([-1, 1]), averaged over images.
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
        error = averaged.error(images, counters, level) / method.parameterisation.weigh(level).to(
            images
        )
        values[f"RMSE at log-SNR {float(log_snr):+.0f}"] = float(error.mean().sqrt())
    operator, noise_std = objective.problems.draw(range(len(images)))
    measurement = Measurement.simulate(images, operator, noise_std, seed=objective.seed)
    mean = posterior_mean(method.condition(measurement), count=len(images))
    values["psnr"] = float(psnr(mean, images, data_range=2.0).mean())
    _write_picture(folder / "validation.png", [images, measurement.back_projection, mean])
    network.train(was_training)
    return values


def _write_picture(path: Path, rows: list[Tensor]) -> None:
    """Reference, back projection and mean of eight images, if Pillow is installed."""
    try:
        from PIL import Image
    except ImportError:
        return
    strips = [torch.cat(list(row[:8].cpu().float()), -1) for row in rows]
    picture = ((torch.cat(strips, -2).clamp(-1, 1) + 1) * 127.5).round().byte()
    array = picture.movedim(0, -1).numpy()
    Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).save(path)
