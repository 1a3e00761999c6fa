"""Straight rays through an image: which pixels each one crosses, and over what length."""

import math
import warnings
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Beam", "trace_beam"]

# In pixels: shorter pieces are rounding, and directions nearer to an axis run along it.
_SHORTEST = 1e-9


class Beam(NamedTuple):
    """The rays of one projection before it is turned, in pixels from the axis of rotation.

    Attributes:
        origin: A point of each ray as (column, row), (detectors, rays, 2).
        direction: Of length 1, (detectors, rays, 2).
    """

    origin: Tensor
    direction: Tensor

    @classmethod
    def parallel(cls, offsets: Tensor) -> "Beam":
        """Rays along the rows' axis at these offsets (detectors, rays) along the columns' axis."""
        zero = torch.zeros_like(offsets)
        along = torch.stack([zero, torch.ones_like(offsets)], -1)
        return cls(torch.stack([offsets, zero], -1), along)

    @classmethod
    def fan(cls, offsets: Tensor, source: float, detector: float) -> "Beam":
        """Rays from a source above the axis to offsets on a flat detector below it."""
        origin = torch.zeros(*offsets.shape, 2, dtype=offsets.dtype)
        origin[..., 1] = -source
        way = torch.stack([offsets, torch.full_like(offsets, source + detector)], -1)
        return cls(origin, way / way.norm(dim=-1, keepdim=True))

    def turn(self, angle: float) -> "Beam":
        """Turned by degrees from the columns' axis towards the rows' axis."""
        c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        rotation = self.origin.new_tensor([[c, s], [-s, c]])
        return Beam(self.origin @ rotation, self.direction @ rotation)


def trace_beam(beam: Beam, angles: list[float], size: tuple[int, int]) -> Tensor:
    """Mean lengths in pixels, sparse CSR (angles * detectors, rows * columns), float64.

    Each detector averages over its rays.
    """
    detectors, rays = beam.origin.shape[:2]
    pixels = size[0] * size[1]
    places, lengths = [], []
    for number, angle in enumerate(angles):
        turned = beam.turn(angle)
        ray, pixel, length = _cross(turned.origin.reshape(-1, 2), turned.direction, size)
        where = torch.stack([ray // rays, pixel])
        summed = _gather(where, length / rays, (detectors, pixels))
        places.append(summed.indices() + torch.tensor([[number * detectors], [0]]))
        lengths.append(summed.values())
    shape = (len(angles) * detectors, pixels)
    return to_rows(torch.cat(places, 1), torch.cat(lengths), shape)


def to_rows(indices: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A sparse CSR matrix of entries in any order."""
    whole = _gather(indices, values, shape)
    with warnings.catch_warnings():
        # torch says once that the layout may still change; we only multiply by it.
        warnings.filterwarnings("ignore", "Sparse CSR tensor support", UserWarning)
        return whole.to_sparse_csr()


def _gather(indices: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Entries in order, those of one place summed."""
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=True).coalesce()


def _cross(
    origin: Tensor, direction: Tensor, size: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Ray, pixel and length of each crossing: a ray is cut wherever it meets a line of the grid."""
    direction = direction.reshape(-1, 2)
    small = direction.abs() < _SHORTEST
    direction = torch.where(small, torch.full_like(direction, _SHORTEST), direction)
    cuts = []
    for axis, side in enumerate((size[1], size[0])):
        grid = torch.arange(side + 1, dtype=origin.dtype) - side / 2
        cuts.append((grid - origin[:, axis, None]) / direction[:, axis, None])
    enter = torch.stack([torch.minimum(c[:, 0], c[:, -1]) for c in cuts]).amax(0)[:, None]
    leave = torch.stack([torch.maximum(c[:, 0], c[:, -1]) for c in cuts]).amin(0)[:, None]
    # A ray that misses the image leaves before it enters: all its pieces then have no length.
    at = torch.cat(cuts, 1).clamp(enter, leave).sort(1).values
    length = at.diff(dim=1)
    ray, piece = (length > _SHORTEST).nonzero(as_tuple=True)
    middle = (at[ray, piece] + at[ray, piece + 1]) / 2
    point = origin[ray] + middle[:, None] * direction[ray]
    column = (point[:, 0] + size[1] / 2).floor().long().clamp(0, size[1] - 1)
    row = (point[:, 1] + size[0] / 2).floor().long().clamp(0, size[0] - 1)
    return ray, row * size[1] + column, length[ray, piece]
