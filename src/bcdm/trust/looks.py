"""What measurements show, whatever their brightness: numbers to compare with what is typical."""

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from bcdm.checkpoint import Model
from bcdm.evaluation.signal import find_brightness
from bcdm.measurement import Measurement
from bcdm.trust.greys import describe_greys

__all__ = ["describe", "find_spots", "look"]

BANDS = 12
QUANTILES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.999)


def look(model: Model, measurement: Measurement, preview: Tensor) -> dict[str, Tensor]:
    """Descriptions of what measurements show, (B, n) each.

    Args:
        model: The model.
        measurement: In its units.
        preview: The posterior mean by one call, (B, C, H, W).
    """
    black = model.config.data.value_range[0]
    linear = model.scales.estimate_linearly(measurement)
    return {
        "typicality": describe(linear, black),
        "bright spots": find_spots(linear, black),
        "reconstruction": describe(preview, black),
        "grey levels": torch.cat(
            [describe_greys(image, black) for image in (linear, preview)], dim=1
        ),
    }


def describe(image: Tensor, black: float) -> Tensor:
    """What images (B, C, H, W) look like, whatever their brightness: (B, n).

    Energies of bands of frequency, grey levels, spots, and colours if there are some.
    """
    scaled, grey = _scale(image, black)
    rows, columns = grey.shape[-2:]
    radius = torch.hypot(
        torch.fft.fftfreq(rows).double()[:, None], torch.fft.fftfreq(columns).double()
    )
    power = torch.fft.fft2(grey, norm="ortho").abs().square()
    edges = torch.linspace(0, 0.5**0.5 + 1e-6, BANDS + 1, dtype=torch.float64)
    band = torch.bucketize(radius, edges, right=True) - 1
    energies = [
        power[:, band == k].mean(1).clamp_min(1e-12).log()
        for k in range(BANDS)
        if bool((band == k).any())
    ]
    levels = torch.quantile(grey.flatten(1), torch.tensor(QUANTILES, dtype=torch.float64), dim=1)
    colours = scaled.flatten(2).mean(2).T[: -1 if scaled.shape[1] == 1 else None]
    return torch.cat([torch.stack(energies).T, levels.T, find_spots(image, black), colours.T], 1)


def find_spots(image: Tensor, black: float) -> Tensor:
    """The brightest point of images, the sharpest, and the brightest small patch: logs, (B, 3)."""
    grey = _scale(image, black)[1][:, None]
    around = sum(grey.roll(step, axis) for step in (1, -1) for axis in (-2, -1)) / 4
    patch = avg_pool2d(grey, 3, 1, 1) - avg_pool2d(grey, 7, 1, 3)
    spots = [part.flatten(1).amax(1) for part in (grey, grey - around, patch)]
    return torch.stack(spots, 1).clamp_min(1e-6).log()


def _scale(image: Tensor, black: float) -> tuple[Tensor, Tensor]:
    """Images above black over their brightness, and the mean of their channels; float64."""
    image = image.cpu()
    away = image.abs() if image.is_complex() else image - black
    scaled = away.double() / find_brightness(image, black).double()[:, None, None, None]
    return scaled, scaled.mean(1)
