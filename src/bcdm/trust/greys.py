"""Grey levels inside the object that images show: numbers that change with the contrast."""

import torch
from torch import Tensor

from bcdm.evaluation.signal import OBJECT, find_signal

__all__ = ["describe_greys"]

QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
RINGS = 6
# Of the mean inside: less is as good as black.
_BLACK = 0.02


def describe_greys(image: Tensor, black: float) -> Tensor:
    """Which grey levels the object of images (B, C, H, W) has, and where: logs, (B, n).

    Quantiles of its pixels, and their mean and spread in rings of as many pixels each, from its
    middle to its edge. All over the mean inside: brightness and size of the object do not count.
    """
    image = image.cpu()
    away = image.abs() if image.is_complex() else image - black
    inside = find_signal(image, black)[:, 0] > OBJECT
    return torch.stack(
        [_describe(*pair) for pair in zip(away.double().mean(1), inside, strict=True)]
    )


def _describe(grey: Tensor, inside: Tensor) -> Tensor:
    if int(inside.sum()) < 2 * RINGS:
        # An image without an object is all object.
        inside = torch.ones_like(inside)
    values = grey[inside]
    mean = values.mean().clamp_min(1e-6)
    levels = torch.quantile(values, torch.tensor(QUANTILES, dtype=torch.float64))
    rings = values[_find_radius(inside).argsort()].tensor_split(RINGS)
    parts = [levels, *(ring.mean()[None] for ring in rings), *(ring.std()[None] for ring in rings)]
    return (torch.cat(parts) / mean).clamp_min(_BLACK).log()


def _find_radius(inside: Tensor) -> Tensor:
    """How far pixels of an object are from its middle, squared, whatever its size; (pixels,)."""
    places = inside.nonzero().double()
    away = places - places.mean(0)
    return (away.square() / away.square().mean(0).clamp_min(1e-6)).sum(1)
