"""Several receive coils around k-space masks: what scanners measure, drawn for training."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import torch

from bcdm.errors import InputError
from bcdm.operators import LinearOperator, Sense
from bcdm.problems.coils import draw_birdcage, draw_smooth
from bcdm.problems.families import Family, KSpace

__all__ = ["Receivers"]


@dataclass(frozen=True)
class Receivers(Family):
    """k-space masks seen by several coils: `Sense` operators of complex images.

    Args:
        masks: What is sampled.
        coils: How many, from and to, drawn log-uniformly.
        kind: The name of this family in settings.
    """

    image_dtype: ClassVar[torch.dtype] = torch.complex64

    masks: KSpace = KSpace()  # noqa: RUF009
    coils: tuple[int, int] = (1, 32)
    kind: Literal["receivers"] = field(default="receivers", kw_only=True)

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
        draw_maps = draw_birdcage if rng.integers(2) else draw_smooth
        return Sense(draw_maps(size, count, rng=rng), mask)

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
