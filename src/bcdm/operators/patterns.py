"""Sampling patterns and kernels: tensors that operators are built from, each from a seed."""

import math

import numpy as np
import torch
from torch import Tensor

from bcdm.errors import InputError

__all__ = ["draw_centre_box", "draw_gaussian_kernel", "draw_variable_density"]


def draw_variable_density(
    size: tuple[int, int], acceleration: float, *, centre: float, seed: int, lines: bool = False
) -> Tensor:
    """A conjugate-symmetric k-space mask (H, W), denser towards the middle; origin centred.

    Exactly `H * W / acceleration` frequencies are taken, up to the symmetry of pairs.

    Args:
        size: Rows and columns.
        acceleration: All frequencies over those measured.
        centre: Side of the fully sampled middle, as a fraction of each side.
        seed: Of the draw.
        lines: Whole columns (1-D Cartesian) instead of single frequencies.
    """
    rows, columns = (1, size[1]) if lines else size
    row = np.minimum(np.arange(rows), rows - np.arange(rows)) / max(rows, 1)
    column = np.minimum(np.arange(columns), columns - np.arange(columns)) / columns
    radius = np.hypot(0 * row[:, None] if lines else row[:, None], column[None, :])
    count = round(rows * columns / acceleration)
    inside = (row[:, None] <= centre / 2 if not lines else np.full((1, 1), True)) & (
        column[None, :] <= centre / 2
    )
    if inside.sum() > count:
        raise InputError(f"the centre alone holds {inside.sum()} of {count} samples: shrink it")
    # Exponential races: the smallest times are a draw without replacement by these weights.
    weight = np.exp(-0.5 * (radius / 0.17) ** 2) + 0.02
    times = np.random.default_rng(seed).exponential(size=weight.shape) / weight
    opposite = np.roll(times[::-1, ::-1], (1, 1), (0, 1))
    times = np.where(inside, 0, np.minimum(times, opposite))
    taken = times <= np.sort(times, axis=None)[count - 1]
    mask = np.fft.fftshift(np.broadcast_to(taken, size))
    return torch.from_numpy(np.ascontiguousarray(mask))


def draw_centre_box(size: tuple[int, int], box: tuple[int, int]) -> Tensor:
    """A mask (H, W) that is False on a box in the middle.

    >>> draw_centre_box((4, 4), (2, 2)).sum()
    tensor(12)
    """
    if box[0] > size[0] or box[1] > size[1]:
        raise InputError(f"a box {box} does not fit an image of {size}")
    mask = torch.ones(size, dtype=torch.bool)
    top, left = (size[0] - box[0]) // 2, (size[1] - box[1]) // 2
    mask[top : top + box[0], left : left + box[1]] = False
    return mask


def draw_gaussian_kernel(std: float) -> Tensor:
    """A Gaussian kernel of odd side that sums to one.

    >>> draw_gaussian_kernel(0.5).shape
    torch.Size([5, 5])
    """
    if std <= 0:
        raise InputError(f"a kernel's std must be > 0, got {std}")
    reach = math.ceil(4 * std)
    axis = torch.arange(-reach, reach + 1, dtype=torch.float64)
    line = torch.exp(-0.5 * (axis / std) ** 2)
    kernel = line[:, None] * line
    return (kernel / kernel.sum()).to(torch.float32)
