"""Sensitivities of receive coils, drawn from seeds: as loops around the object, or as any."""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from bcdm.errors import InputError, ShapeError

__all__ = ["draw_birdcage", "draw_smooth", "normalise_maps", "warp_maps"]

_RING = (0.75, 1.6)  # radius of the ellipse that loops lie on, of half the field of view
_ORDER = 3  # of the cosines of smooth maps: as many per axis


def draw_birdcage(size: tuple[int, int], coils: int, *, rng: np.random.Generator) -> Tensor:
    """Maps of loops on an ellipse around the object, complex64 (coils, H, W).

    Each falls off with the distance from its loop and turns its phase around its place. Places,
    size and phases are drawn: some lie close to a head in the field of view and tell its parts
    apart as well as arrays of scanners do, some far from it. Of unit root sum of squares.
    """
    _check(size, coils)
    rows, columns = _make_grid(size)
    ring = rng.uniform(*_RING) * np.exp(rng.uniform(-0.15, 0.15, 2))
    angles = 2 * np.pi * (np.arange(coils) + rng.uniform(-0.25, 0.25, coils)) / coils
    angles += rng.uniform(0, 2 * np.pi)
    reach, power, turn = rng.uniform(0.2, 0.6), rng.uniform(1.5, 3.0), rng.uniform(0.5, 1.0)
    maps = []
    for angle in angles:
        place = complex(*(ring * (math.sin(angle), math.cos(angle))))
        # From the loop, its first axis inwards.
        away = (rows + 1j * columns - place) * abs(place) / -place
        far = np.sqrt(np.abs(away) ** 2 + reach**2)
        # Longer than what it is added to: the phase does not jump behind the loop's back.
        phase = 2 * turn * np.angle(away + far) + rng.uniform(0, 2 * np.pi)
        maps.append(far**-power * np.exp(1j * phase))
    return normalise_maps(torch.from_numpy(np.stack(maps)))


def draw_smooth(size: tuple[int, int], coils: int, *, rng: np.random.Generator) -> Tensor:
    """Maps of no particular coil: few cosines with drawn complex weights, complex64 (coils, H, W).

    Of unit root sum of squares.
    """
    _check(size, coils)
    orders = np.arange(_ORDER)
    waves = [
        np.cos(np.pi * orders[:, None] * (np.arange(side) + 0.5) / side)
        / (1 + orders[:, None]) ** 1.5
        for side in size
    ]
    shape = (coils, _ORDER, _ORDER)
    weights = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return normalise_maps(torch.from_numpy(np.einsum("kij,ih,jw->khw", weights, *waves)))


def warp_maps(
    maps: Tensor, size: tuple[int, int], coils: int, *, rng: np.random.Generator
) -> Tensor:
    """Maps that were measured, as of other coils: complex64 (coils, *size).

    They are turned, stretched, moved a little and mirrored; then some of them are chosen, or all
    are mixed into fewer, as scanners compress their coils.

    Args:
        maps: Measured maps, complex (K, H, W), smooth over the whole field of view.
        size: Of the images.
        coils: How many are wanted; at most K.
        rng: Of the draws.
    """
    if maps.ndim != 3 or not maps.is_complex():
        raise ShapeError(f"measured maps are complex (coils, H, W), got {tuple(maps.shape)}")
    _check(size, coils, len(maps))
    angle, stretch = rng.uniform(-0.5, 0.5), rng.uniform(0.8, 1.0, 2)
    mirror = rng.choice([-1.0, 1.0])
    cosine, sine = math.cos(angle), math.sin(angle)
    # Stretched inwards only: maps are not known outside of their field of view.
    shrink = 1 / (abs(cosine) + abs(sine))
    matrix = shrink * np.array([[cosine, -sine, 0], [sine, cosine, 0]])
    matrix[:, 0] *= stretch[0] * mirror
    matrix[:, 1] *= stretch[1]
    where = affine_grid(torch.from_numpy(matrix)[None].float(), [1, 1, *size], align_corners=False)
    parts = torch.view_as_real(maps.to(torch.complex64)).permute(0, 3, 1, 2).flatten(0, 1)[None]
    moved = grid_sample(parts, where, padding_mode="border", align_corners=False)[0]
    whole = torch.view_as_complex(moved.unflatten(0, (-1, 2)).permute(0, 2, 3, 1).contiguous())
    if rng.uniform() < 0.5:
        chosen = whole[torch.from_numpy(rng.permutation(len(maps))[:coils])]
    else:
        shape = (coils, len(maps))
        mix = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        chosen = torch.einsum("kc,chw->khw", torch.from_numpy(mix).to(whole), whole)
    return normalise_maps(chosen)


def normalise_maps(maps: Tensor) -> Tensor:
    """Maps of unit root sum of squares, complex64; what no coil sees stays unseen.

    >>> normalise_maps(torch.tensor([[[3.0 + 0j, 0.0]], [[4.0 + 0j, 0.0]]])).abs().squeeze()
    tensor([[0.6000, 0.0000],
            [0.8000, 0.0000]])
    """
    total = maps.abs().square().sum(-3, keepdim=True).sqrt()
    return torch.where(total > 0, maps / total.clamp_min(1e-30), 0).to(torch.complex64)


def _make_grid(size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Places of pixels on [-1, 1], (H, 1) and (1, W)."""
    rows, columns = ((2 * np.arange(side) + 1) / side - 1 for side in size)
    return rows[:, None], columns[None]


def _check(size: tuple[int, int], coils: int, most: int = 64) -> None:
    if min(size) < 4 or not 1 <= coils <= most:
        raise InputError(f"{coils} coils of {size} pixels cannot be drawn: 1 to {most}, 4x4 pixels")
