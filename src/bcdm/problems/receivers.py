"""Several receive coils around k-space masks: what scanners measure, drawn for training."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bcdm.errors import InputError
from bcdm.operators import LinearOperator, Sense
from bcdm.problems.coils import draw_birdcage, draw_smooth, warp_maps
from bcdm.problems.families import Family, KSpace

__all__ = ["Receivers"]


@dataclass(frozen=True, eq=False)
class Receivers(Family):
    """k-space masks seen by several coils: `Sense` operators of complex images.

    Args:
        masks: What is sampled.
        coils: How many, from and to, drawn log-uniformly.
        measured: Maps that were measured, complex (K, H, W): a third of the draws are made of
            them, warped. None: all coils are birdcages or any smooth ones.
    """

    masks: KSpace = KSpace()  # noqa: RUF009
    coils: tuple[int, int] = (1, 32)
    measured: Tensor | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.coils[0] <= self.coils[1] <= 64:
            raise InputError(f"coils is a range [from, to] within [1, 64], got {self.coils}")

    def check(self, size: tuple[int, int]) -> None:
        """As the masks ask."""
        super().check(size)
        self.masks.check(size)

    def draw(self, size: tuple[int, int], rng: np.random.Generator) -> Sense:
        """A mask, and coils of a drawn kind and number."""
        mask = self.masks.draw(size, rng).mask
        low, high = self.coils
        count = math.floor(math.exp(rng.uniform(math.log(low), math.log(high + 1))))
        kind = rng.integers(2 if self.measured is None else 3)
        if kind == 2 and self.measured is not None:
            maps = warp_maps(self.measured, size, min(count, len(self.measured)), rng=rng)
        else:
            maps = (draw_birdcage if kind == 0 else draw_smooth)(size, count, rng=rng)
        return Sense(maps, mask)

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
