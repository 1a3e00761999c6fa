"""Several receive coils around k-space masks: what scanners measure, drawn for training."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from bcdm.errors import InputError
from bcdm.operators import LinearOperator, Sense
from bcdm.problems.coils import draw_birdcage, draw_smooth, warp_maps
from bcdm.problems.families import Family, KSpace
from bcdm.problems.mapfile import read_measured

__all__ = ["Receivers", "cut_mask"]

# How much of an axis partial Fourier leaves, in eighths.
_EIGHTHS = (5, 6, 7)


@dataclass(frozen=True)
class Receivers(Family):
    """k-space masks seen by several coils: `Sense` operators of complex images.

    Args:
        masks: What is sampled.
        coils: How many, from and to, drawn log-uniformly.
        maps: A file of measured maps, relative to the data folder or absolute: a quarter of coils
            are these, warped, wherever a set has as many as are drawn.
        partial: The fraction of masks that are cut to 5/8, 6/8 or 7/8 of an axis (partial Fourier).
        kind: The name of this family in settings.
    """

    image_dtype: ClassVar[torch.dtype] = torch.complex64

    masks: KSpace = KSpace()  # noqa: RUF009
    coils: tuple[int, int] = (1, 32)
    maps: str | None = None
    partial: float = 0.0
    kind: Literal["receivers"] = field(default="receivers", kw_only=True)

    def __post_init__(self) -> None:
        if not 1 <= self.coils[0] <= self.coils[1] <= 64:
            raise InputError(f"coils is a range [from, to] within [1, 64], got {self.coils}")
        if not 0 <= self.partial <= 1:
            raise InputError(f"partial is a fraction from 0 to 1, got {self.partial}")

    def check(self, size: tuple[int, int]) -> None:
        """As the masks ask."""
        super().check(size)
        self.masks.check(size)

    def draw(self, size: tuple[int, int], rng: np.random.Generator) -> Sense:
        """A mask, and coils of a drawn kind and number."""
        mask = self.masks.draw(size, rng).mask
        if self.partial and rng.uniform() < self.partial:
            mask = cut_mask(mask, rng)
        low, high = self.coils
        count = math.floor(math.exp(rng.uniform(math.log(low), math.log(high + 1))))
        held = () if self.maps is None else read_measured(Path(self.maps))
        measured = [maps for maps in held if len(maps) >= count]
        # Half of all are loops around the object: only they tell its parts apart as arrays do.
        choice = rng.integers(4 if measured else 3)
        if choice == 3:
            chosen = measured[int(rng.integers(len(measured)))]
            return Sense(warp_maps(chosen, size, count, rng=rng), mask)
        draw_maps = draw_birdcage if choice else draw_smooth
        return Sense(draw_maps(size, count, rng=rng), mask)

    def locate(self, find: Callable[[str], Path]) -> "Receivers":
        """With the place of its maps."""
        return self if self.maps is None else replace(self, maps=str(find(self.maps)))

    def leave_files(self) -> "Receivers":
        """With one drawn map; masks are drawn before them, and stay the same."""
        return replace(self, maps=None, coils=(1, 1))

    def draw_nothing(self, size: tuple[int, int]) -> Sense:
        """One coil, and no sample."""
        maps = torch.ones(1, *size, dtype=torch.complex64)
        return Sense(maps, torch.zeros(size, dtype=torch.bool))

    def stack(self, operators: Sequence[LinearOperator]) -> list[tuple[LinearOperator, list[int]]]:
        """One operator with maps and a mask per sample; coils that others have are dark."""
        own = [operator for operator in operators if isinstance(operator, Sense)]
        most = max(len(operator.maps) for operator in own)
        maps = torch.zeros(len(own), most, *own[0].maps.shape[1:], dtype=torch.complex64)
        for row, operator in zip(maps, own, strict=True):
            row[: len(operator.maps)] = operator.maps
        masks = torch.stack([operator.mask for operator in own])[:, None]
        return [(Sense(maps, masks), list(range(len(own))))]


def cut_mask(mask: Tensor, rng: np.random.Generator) -> Tensor:
    """A mask (H, W) of which a part at one end of a drawn axis is not measured.

    Masks of whole lines are cut across them, as scanners leave out lines at one side.
    """
    rows, columns = ((mask == mask.select(axis, 0).unsqueeze(axis)).all() for axis in (-1, -2))
    axis = -2 if rows and not columns else -1 if columns and not rows else -int(rng.integers(1, 3))
    side = mask.shape[axis]
    first = side - round(side * rng.choice(_EIGHTHS) / 8)
    kept = torch.zeros_like(mask)
    kept.narrow(axis, first, side - first).fill_(True)
    if rng.integers(2):
        # The origin is at side // 2: mirrored about it, not about the middle of the array.
        kept = kept.flip(axis).roll(1 - side % 2, axis)
    return mask & kept
