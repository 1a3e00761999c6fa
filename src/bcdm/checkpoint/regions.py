"""By how much intervals of the contrast of a region must be wider, by the size of the region.

Factors of single pixels do not serve: errors of neighbouring pixels are alike, and samples show
less of that than there is.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from pydantic import TypeAdapter

__all__ = ["RegionFactors"]

_NUMBERS: TypeAdapter[list[float]] = TypeAdapter(list[float])


@dataclass(frozen=True)
class RegionFactors:
    """The factors of some sizes and levels; between them they are interpolated.

    Attributes:
        sizes: Pixels of a region, rising.
        factors: By level, one for each size.
    """

    sizes: tuple[float, ...]
    factors: dict[float, list[float]]

    def find(self, level: float, pixels: float) -> float:
        """Of a region of so many pixels; beyond what was fitted, that of the nearest."""
        levels = sorted(self.factors)
        sizes = np.log(self.sizes)
        rows = [np.interp(math.log(pixels), sizes, self.factors[one]) for one in levels]
        return float(np.interp(level, levels, rows))

    def to_plain(self) -> dict[str, Any]:
        """As numbers that JSON can hold."""
        factors = {str(level): [round(f, 6) for f in row] for level, row in self.factors.items()}
        return {"sizes": list(self.sizes), "factors": factors}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """From `to_plain`."""
        factors = {
            float(level): _NUMBERS.validate_python(row) for level, row in plain["factors"].items()
        }
        return cls(tuple(_NUMBERS.validate_python(plain["sizes"])), factors)
