"""A cloud of operators: what a measurement's operator is compared with, in numbers."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bcdm.errors import InputError

__all__ = ["Cloud"]

_NEIGHBOURS = 3
_LEAST = 1e-2  # a difference that matters, of probes of unit norm


@dataclass(frozen=True, eq=False)
class Cloud:
    """Descriptions of operators that training may draw.

    Attributes:
        places: Numbers that operators are compared by, (draws, numbers) in float64.
        parts: Of the energy of white noise, how much each measures, (draws,).
        threshold: The distance from the cloud that other draws keep within, but for a few.
    """

    places: Tensor
    parts: Tensor
    threshold: float

    def __post_init__(self) -> None:
        draws = self.places.shape[0] if self.places.ndim == 2 else 0
        if draws < _NEIGHBOURS or self.parts.shape != (draws,) or not self.threshold > 0:
            raise InputError(
                f"{_NEIGHBOURS} or more operators make a cloud, not {tuple(self.places.shape)} "
                f"with {tuple(self.parts.shape)} parts and a threshold of {self.threshold}"
            )

    @cached_property
    def scale(self) -> Tensor:
        """Of each number of a description."""
        return self.places.std(0).clamp_min(_LEAST)

    def find_distance(self, places: Tensor) -> Tensor:
        """The mean distance of descriptions (B, numbers) to the nearest ones of the cloud, (B,)."""
        distances = torch.cdist(places / self.scale, self.places / self.scale)
        return distances.topk(_NEIGHBOURS, largest=False).values.mean(1)

    def to_tensors(self) -> dict[str, Tensor]:
        """What there is to store."""
        threshold = torch.tensor([self.threshold], dtype=torch.float64)
        return {"places": self.places, "parts": self.parts, "threshold": threshold}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "Cloud":
        """From `to_tensors`."""
        places, parts = tensors["places"].double(), tensors["parts"]
        return cls(places, parts, float(tensors["threshold"]))
