"""Smooth fields from values that are known at some places: near neighbours first."""

import torch
from torch import Tensor
from torch.fft import fft2, ifft2

__all__ = ["blur", "fill_smoothly"]

_STEPS = 6  # each twice as smooth as the one before: for places far from anything known


def fill_smoothly(products: Tensor, power: Tensor, width: float, doubt: float = 0.05) -> Tensor:
    """The ratio of two fields, each smoothed: where the lower one is weak, further ones are asked.

    Args:
        products: What is known times its power, complex (..., H, W).
        power: How well it is known, real (1, H, W).
        width: Standard deviation of the finest smoothing, of the field of view.
        doubt: The power that settles half of the answer.
    """
    found = torch.zeros_like(products)
    settled = torch.zeros_like(power)
    least = 1e-12 * float(power.max())
    # A narrower Gaussian is none on a grid of pixels: it would ring.
    width = max(width, 1 / min(products.shape[-2:]))
    for step in range(_STEPS):
        top = blur(products, width * 2**step)
        bottom = blur(power.to(products.dtype), width * 2**step).real.clamp_min(least)
        share = (1 - settled) * (bottom / (bottom + doubt) if step < _STEPS - 1 else 1.0)
        found = found + share * top / bottom
        settled = settled + share
    return found


def blur(images: Tensor, width: float) -> Tensor:
    """A Gaussian of a standard deviation `width` of the field of view."""
    rows, columns = (torch.fft.fftfreq(side, 1 / side) for side in images.shape[-2:])
    decay = torch.exp(-2 * (torch.pi * width) ** 2 * (rows[:, None] ** 2 + columns**2))
    return ifft2(fft2(images) * decay)
