"""Sampling patterns and kernels: tensors that operators are built from, each from a seed."""

import math

import numpy as np
import torch
from torch import Tensor

from bcdm.errors import InputError

__all__ = [
    "draw_box",
    "draw_centre_box",
    "draw_free_form",
    "draw_gaussian_kernel",
    "draw_motion_kernel",
    "draw_radial",
    "draw_variable_density",
]

Seed = int | np.random.Generator
"""A number, or a generator that goes on from where it stands."""


def draw_variable_density(
    size: tuple[int, int],
    acceleration: float,
    *,
    centre: float,
    seed: Seed,
    lines: bool = False,
    symmetric: bool = True,
) -> Tensor:
    """A k-space mask (H, W), denser towards the middle; origin centred.

    Exactly `H * W / acceleration` frequencies are taken, up to the symmetry of pairs.

    Args:
        size: Rows and columns.
        acceleration: All frequencies over those measured.
        centre: Side of the fully sampled middle, as a fraction of each side.
        seed: Of the draw.
        lines: Whole columns (1-D Cartesian) instead of single frequencies.
        symmetric: Each frequency is taken together with its mirror image. Of a real image one
            says what the other does; scanners take what comes.
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
    times = np.where(inside, 0, np.minimum(times, opposite) if symmetric else times)
    taken = times <= np.sort(times, axis=None)[count - 1]
    mask = np.fft.fftshift(np.broadcast_to(taken, size))
    return torch.from_numpy(np.ascontiguousarray(mask))


def draw_radial(size: tuple[int, int], acceleration: float, *, seed: Seed) -> Tensor:
    """A k-space mask (H, W) of spokes through the middle at golden angles; origin centred.

    As many spokes as bring the sampled part to `1 / acceleration`; the first angle is drawn. They
    end at the inscribed ellipse, which holds 3/4 of all frequencies.
    """
    if acceleration < 1.4:
        raise InputError(f"spokes cannot sample 1 / {acceleration} of k-space: take 1.4 or more")
    rows, columns = size
    along = np.linspace(-0.5, 0.5, 2 * max(size) + 1)
    first = np.random.default_rng(seed).uniform(0, math.pi)
    mask = np.zeros(size, bool)
    number = 0
    while mask.sum() < rows * columns / acceleration:
        angle = first + number * math.pi * (math.sqrt(5) - 1) / 2
        row = np.round(along * rows * math.sin(angle)).astype(int) % rows
        column = np.round(along * columns * math.cos(angle)).astype(int) % columns
        mask[row, column] = True
        number += 1
    mask |= np.roll(mask[::-1, ::-1], (1, 1), (0, 1))
    return torch.from_numpy(np.ascontiguousarray(np.fft.fftshift(mask)))


def draw_box(size: tuple[int, int], box: tuple[int, int], *, seed: Seed) -> Tensor:
    """A mask (H, W) that is False on a box at a drawn place."""
    rng = np.random.default_rng(seed)
    if box[0] > size[0] or box[1] > size[1]:
        raise InputError(f"a box {box} does not fit an image of {size}")
    top, left = (
        int(rng.integers(0, whole - side + 1)) for whole, side in zip(size, box, strict=True)
    )
    mask = torch.ones(size, dtype=torch.bool)
    mask[top : top + box[0], left : left + box[1]] = False
    return mask


def draw_free_form(size: tuple[int, int], hidden: float, *, seed: Seed) -> Tensor:
    """A mask (H, W) that is False under brush strokes which cover a fraction `hidden`.

    Each stroke is a walk of slowly turning steps under a round brush.
    """
    if not 0 < hidden < 1:
        raise InputError(f"the hidden fraction must lie in (0, 1), got {hidden}")
    rng = np.random.default_rng(seed)
    row, column = np.ogrid[: size[0], : size[1]]
    mask = np.ones(size, bool)
    side = max(size)
    while (~mask).mean() < hidden:
        place, angle = rng.uniform(0, size, 2), rng.uniform(0, 2 * math.pi)
        brush = side * rng.uniform(0.02, 0.06)
        for _ in range(int(rng.integers(4, 16))):
            mask &= (row - place[0]) ** 2 + (column - place[1]) ** 2 > brush**2
            angle += rng.normal(0, 0.5)
            place = place + brush * np.array([math.sin(angle), math.cos(angle)])
            if (~mask).mean() >= hidden:
                break
    return torch.from_numpy(mask)


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


def draw_motion_kernel(length: float, *, seed: Seed) -> Tensor:
    """The kernel of a shaking camera: a smooth drawn path of about `length` pixels, sum one."""
    if length <= 0:
        raise InputError(f"a path's length must be > 0, got {length}")
    rng = np.random.default_rng(seed)
    steps = 8 * math.ceil(length)
    turns = rng.uniform(0, 2 * math.pi) + np.cumsum(rng.normal(0, 1 / math.sqrt(steps), steps))
    path = np.cumsum(np.stack([np.sin(turns), np.cos(turns)]), 1) * length / steps
    path -= path.mean(1, keepdims=True)
    reach = math.ceil(length / 2) + 1
    axis = np.arange(-reach, reach + 1)
    # Each point of the path is a small Gaussian, so that the kernel moves smoothly with it.
    near = np.exp(-2 * (axis[:, None] - path[:, None, :]) ** 2)
    kernel = near[0] @ near[1].T
    return torch.from_numpy((kernel / kernel.sum()).astype(np.float32))
