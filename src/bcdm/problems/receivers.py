"""Several receive coils around k-space masks: what scanners measure, drawn for training."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch

from bcdm.errors import InputError
from bcdm.operators import LinearOperator, Sense
from bcdm.problems.coils import draw_birdcage, draw_smooth, warp_maps
from bcdm.problems.families import Family, KSpace
from bcdm.problems.mapfile import read_measured

__all__ = ["Receivers"]


@dataclass(frozen=True)
class Receivers(Family):
    """k-space masks seen by several coils: `Sense` operators of complex images.

    Args:
        masks: What is sampled.
        coils: How many, from and to, drawn log-uniformly.
        maps: A file of measured maps, relative to the data folder or absolute: a third of the coils
            are these, warped, wherever a set has as many as are drawn.
        kind: The name of this family in settings.
    """

    image_dtype: ClassVar[torch.dtype] = torch.complex64

    masks: KSpace = KSpace()  # noqa: RUF009
    coils: tuple[int, int] = (1, 32)
    maps: str | None = None
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
        held = () if self.maps is None else read_measured(Path(self.maps))
        measured = [maps for maps in held if len(maps) >= count]
        choice = rng.integers(3 if measured else 2)
        if choice == 2:
            chosen = measured[int(rng.integers(len(measured)))]
            return Sense(warp_maps(chosen, size, count, rng=rng), mask)
        draw_maps = draw_birdcage if choice else draw_smooth
        return Sense(draw_maps(size, count, rng=rng), mask)

    def locate(self, find: Callable[[str], Path]) -> "Receivers":
        """With the place of its maps."""
        return self if self.maps is None else replace(self, maps=str(find(self.maps)))

    def leave_files(self) -> "Receivers":
        """With drawn maps alone; masks are drawn before them, and stay the same."""
        return replace(self, maps=None)

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
