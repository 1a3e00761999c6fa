"""By how much intervals of pixels must be wider than those of the samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from pydantic import TypeAdapter
from torch import Tensor

__all__ = ["LocalFactors"]

_NUMBERS: TypeAdapter[list[float]] = TypeAdapter(list[float])


@dataclass(frozen=True)
class LocalFactors:
    """By how much intervals must be wider where the image is dark, and where it is bright.

    One factor for all pixels would be fitted to what most of them show: air.

    Attributes:
        edges: Of bins of the signal (`find_signal`), rising; below the first, between, above.
        factors: By level, one for each bin from dark to bright.
    """

    edges: tuple[float, ...]
    factors: dict[float, list[float]]

    def list_factors(self, level: float) -> list[float]:
        """The factor of each bin; between levels that were fitted it is interpolated."""
        levels = sorted(self.factors)
        bins = zip(*(self.factors[one] for one in levels), strict=True)
        return [float(np.interp(level, levels, one)) for one in bins]

    def find(self, level: float, signal: Tensor) -> Tensor:
        """The factor of each pixel."""
        edges = torch.tensor(self.edges, dtype=signal.dtype, device=signal.device)
        factors = torch.tensor(self.list_factors(level), dtype=signal.dtype, device=signal.device)
        return factors[torch.bucketize(signal, edges, right=True)]

    def to_plain(self) -> dict[str, Any]:
        """As numbers that JSON can hold."""
        factors = {str(level): [round(f, 6) for f in row] for level, row in self.factors.items()}
        return {"edges": list(self.edges), "factors": factors}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """From `to_plain`."""
        factors = {
            float(level): _NUMBERS.validate_python(row) for level, row in plain["factors"].items()
        }
        return cls(tuple(_NUMBERS.validate_python(plain["edges"])), factors)
