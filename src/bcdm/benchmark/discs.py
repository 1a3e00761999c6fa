"""Discs for test images: where they lie, and how their contrast is measured."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from bcdm.errors import InputError

__all__ = ["Place", "choose_places", "draw_disc", "measure", "weigh"]

_RING = 3.0  # width of what a disc is compared with, in pixels
_OUTER = 0.6  # of the radius of the object: further from its middle is outside
_TRIES = 500


class Place(NamedTuple):
    """Where a disc is, or would be.

    Attributes:
        row: Of its centre.
        column: Of its centre.
        radius: In pixels.
        outer: Whether it lies in the outer part of the object.
    """

    row: float
    column: float
    radius: float
    outer: bool


def choose_places(
    image: Tensor, radii: Sequence[float], rng: np.random.Generator, black: float
) -> list[Place | None]:
    """Random places well inside of the object, so far apart that no ring touches another disc.

    None for a disc that found no room.

    Args:
        image: (H, W).
        radii: Of the discs, in pixels.
        rng: Of the places.
        black: What is darker is air.
    """
    bright = (avg_pool2d(image[None, None], 3, 1, 1) > black).float()
    chosen: list[Place | None] = []
    for radius in radii:
        chosen.append(_find_room(bright, radius, [one for one in chosen if one], rng))
    if not any(chosen):
        raise InputError(f"no place for a disc of radius {radii[0]} in an image")
    return chosen


def _find_room(
    bright: Tensor, radius: float, taken: Sequence[Place], rng: np.random.Generator
) -> Place | None:
    """A random place inside of what is bright, (1, 1, H, W), apart from others."""
    head = bright[0, 0].nonzero().double()
    side = int(radius) + 2
    spots = (avg_pool2d(bright, 2 * side + 1, 1, side)[0, 0] > 0.999).nonzero()
    for _ in range(_TRIES if len(spots) else 0):
        spot = spots[int(rng.integers(len(spots)))].tolist()
        row, column = (where + float(rng.uniform(-0.5, 0.5)) for where in spot)
        apart = [np.hypot(row - one.row, column - one.column) for one in taken]
        room = [radius + one.radius + _RING + 3 for one in taken]
        if all(a > b for a, b in zip(apart, room, strict=True)):
            middle, reach = head.mean(0), (len(head) / np.pi) ** 0.5
            away = float(torch.hypot(row - middle[0], column - middle[1]))
            return Place(row, column, radius, away > _OUTER * reach)
    return None


def draw_disc(size: Sequence[int], place: Place) -> Tensor:
    """How much of each pixel a disc covers, (H, W)."""
    rows, columns = (torch.arange(n, dtype=torch.float64) for n in size)
    distance = torch.hypot(rows[:, None] - place.row, columns - place.column)
    return (place.radius + 0.5 - distance).clamp(0, 1).float()


def weigh(discs: Tensor) -> Tensor:
    """Weights whose sum over an image is a disc's mean minus that of the ring around it.

    Args:
        discs: How much of each pixel each covers, (..., 1, H, W).
    """
    side = 2 * int(_RING) + 1
    around = avg_pool2d(discs, side, 1, int(_RING)) > 0
    ring = (around & (discs == 0)).to(discs.dtype)
    return discs / discs.sum((-2, -1), True) - ring / ring.sum((-2, -1), True)


def measure(images: Tensor, weights: Tensor) -> np.ndarray:
    """Contrasts of images (..., N, C, H, W), averaged over channels: (..., N)."""
    return (images * weights).sum((-2, -1)).mean(-1).numpy()
