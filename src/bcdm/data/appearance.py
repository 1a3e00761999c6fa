"""Other contrasts and other positions of the same anatomy, for training images."""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, pad

__all__ = ["change_contrast", "turn_image"]

_KNOTS = 6


def change_contrast(
    image: Tensor, value_range: tuple[float, float], generator: np.random.Generator
) -> Tensor:
    """Maps grey levels by a smooth curve that keeps black black and uses the whole range.

    Half of the curves rise, as another flip angle does; half go up and down, as another sequence
    does: what was bright may become dark.

    Args:
        image: (C, H, W).
        value_range: The numbers of black and white.
        generator: Its next numbers say how.
    """
    low, high = value_range
    steps = generator.uniform(0.05, 1.0, _KNOTS)
    free = generator.uniform(0.05, 1.0, _KNOTS)
    levels = np.cumsum(steps) if generator.integers(2) else free
    curve = np.concatenate([[0.0], levels / levels.max()])
    place = ((image - low) / (high - low)).clamp(0, 1) * _KNOTS
    below = place.floor().long().clamp(max=_KNOTS - 1)
    part = place - below
    knots = torch.from_numpy(curve).to(image)
    mapped = knots[below] + part * (knots[below + 1] - knots[below])
    return low + (high - low) * mapped


def turn_image(
    image: Tensor, degrees: float, zoom: float, generator: np.random.Generator
) -> Tensor:
    """Turns an image (C, H, W) around its middle and scales it; what comes into view is black.

    Args:
        image: Black must be its smallest number; of complex images it is 0.
        degrees: At most so far, either way.
        zoom: By a factor from 1 / (1 + zoom) to 1 + zoom, drawn log-uniformly.
        generator: Its next numbers say how.
    """
    angle = math.radians(generator.uniform(-degrees, degrees))
    scale = math.exp(generator.uniform(-1, 1) * math.log1p(zoom))
    if not degrees and not zoom:
        return image
    if image.is_complex():
        return torch.complex(*(_turn(part, angle, scale) for part in (image.real, image.imag)))
    black = image.min()
    return _turn(image - black, angle, scale) + black


def _turn(image: Tensor, angle: float, scale: float) -> Tensor:
    """An image whose black is 0, turned by an angle in radian and scaled."""
    height, width = image.shape[-2:]
    cosine, sine = math.cos(angle) / scale, math.sin(angle) / scale
    # Grids run from -1 to 1 along both sides: an angle keeps its size in pixels.
    matrix = [[cosine, -sine * height / width, 0.0], [sine * width / height, cosine, 0.0]]
    where = affine_grid(torch.tensor([matrix]), [1, *image.shape], align_corners=False).to(image)
    # Between pixels of an image twice as fine: between its own, even a cubic curve would take away
    # half of what is sharp, and a network would learn that images are so. Its first pixel
    # lies on the first one here, not beside it.
    where = where - torch.tensor([0.5 / width, 0.5 / height]).to(image)
    return grid_sample(_double(image)[None], where, mode="bicubic", align_corners=False)[0]


def _double(image: Tensor) -> Tensor:
    """An image (C, H, W) with pixels of half the size, by its Fourier series."""
    height, width = image.shape[-2:]
    whole = torch.fft.fftshift(torch.fft.fft2(image), (-2, -1))
    rows, columns = height // 2, width // 2
    wide = pad(whole, (width - columns, columns, height - rows, rows))
    return 4 * torch.fft.ifft2(torch.fft.ifftshift(wide, (-2, -1))).real
