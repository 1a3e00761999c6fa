"""Lesions put into training images, so that a network does not take the healthy for granted."""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

__all__ = ["add_lesions"]

_RADIUS = (1.0, 6.0)  # larger half-axis in pixels of an image of 64 x 64, drawn log-uniformly
_SLIM = (0.5, 1.0)  # the smaller half-axis over the larger
_CONTRAST = (0.05, 0.4)  # of the range of values, either sign
_EDGE = (0.25, 1.0)  # width of the soft edge in such pixels
_MOST = 3
_DARK = 0.15  # of the range of values: below is air


def add_lesions(
    image: Tensor, value_range: tuple[float, float], generator: np.random.Generator
) -> Tensor:
    """Adds one to three smooth ellipses, brighter or darker, inside what is not black.

    Values stay in their range. An image of air alone comes back as it is.

    Args:
        image: (C, H, W).
        value_range: The numbers of black and white.
        generator: Its next numbers say what is added, and nothing else does.
    """
    low, high = value_range
    # Single bright pixels are noise: the object is where the neighbourhood is bright.
    near = avg_pool2d(image.mean(0, keepdim=True)[None], 3, 1, 1, count_include_pad=False)[0, 0]
    inside = (near > low + _DARK * (high - low)).nonzero()
    count = int(generator.integers(1, _MOST + 1))
    if not len(inside):
        return image
    for _ in range(count):
        centre = inside[int(generator.integers(len(inside)))].tolist()
        sign = 1.0 if generator.integers(2) else -1.0
        contrast = sign * generator.uniform(*_CONTRAST) * (high - low)
        shape = _draw_ellipse((image.shape[-2], image.shape[-1]), centre, generator)
        image = (image + contrast * shape.to(image.dtype)).clamp(low, high)
    return image


def _draw_ellipse(
    size: tuple[int, int], centre: list[int], generator: np.random.Generator
) -> Tensor:
    """1 inside, 0 outside, smooth between: (H, W)."""
    unit = min(size) / 64
    large = unit * math.exp(generator.uniform(math.log(_RADIUS[0]), math.log(_RADIUS[1])))
    small = large * generator.uniform(*_SLIM)
    angle = generator.uniform(0, math.pi)
    edge = unit * generator.uniform(*_EDGE)
    # Centres lie between pixels, too.
    row, column = (
        torch.arange(side, dtype=torch.float64) - place - generator.uniform(-0.5, 0.5)
        for side, place in zip(size, centre, strict=True)
    )
    along = math.cos(angle) * column + math.sin(angle) * row[:, None]
    across = math.cos(angle) * row[:, None] - math.sin(angle) * column
    # About the distance from the border in pixels, positive inside.
    depth = (1 - torch.hypot(along / large, across / small)) * math.sqrt(large * small)
    return torch.sigmoid(4 * depth / edge)
