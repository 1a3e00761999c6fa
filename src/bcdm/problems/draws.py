"""What training measures its images with: one operator, or one drawn for each image."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from bcdm.errors import InputError
from bcdm.operators import LinearOperator, Root
from bcdm.problems.families import Family, draw_operators

__all__ = ["PROBLEM_STEP", "DrawnProblems", "OneProblem", "Problems"]

PROBLEM_STEP = 1 << 60
"""Counter of what a sample is measured with, far from those of its noise."""


class Problems(Protocol):
    """A source of inverse problems."""

    def draw(self, counters: Sequence[int]) -> tuple[LinearOperator, Tensor]:
        """The operator for samples with these counters, and their noise_std, (1,) or (B,)."""


@dataclass(frozen=True)
class OneProblem:
    """The same operator and noise level for all."""

    operator: LinearOperator
    noise_std: float

    def draw(self, counters: Sequence[int]) -> tuple[LinearOperator, Tensor]:
        """Both, as they are."""
        # The root tells the same of the images by half of the numbers.
        operator = Root((self.operator,)) if self.operator.closed_form else self.operator
        return operator, torch.tensor([self.noise_std], dtype=torch.float64)

    def to(self, device: torch.device) -> "OneProblem":
        """On another device."""
        return OneProblem(self.operator.to(device), self.noise_std)


@dataclass(frozen=True)
class DrawnProblems:
    """An operator and a noise level for each sample, as a function of its counter.

    Args:
        families: Equally likely.
        size: Of the images.
        noise_std: Range, drawn log-uniformly.
        seed: Of all draws.
        device: Of the operators.
        nothing: The fraction of samples of which nothing is measured, so that the same network is
            also the prior.
    """

    families: tuple[Family, ...]
    size: tuple[int, int]
    noise_std: tuple[float, float]
    seed: int
    device: torch.device = torch.device("cpu")  # noqa: RUF009
    nothing: float = 0.0

    def to(self, device: torch.device) -> "DrawnProblems":
        """With operators on another device."""
        return replace(self, device=device)

    def __post_init__(self) -> None:
        low, high = self.noise_std
        if not 0 < low <= high:
            raise InputError(f"noise_std is a range [low, high] of numbers > 0, got {[low, high]}")
        if not 0 <= self.nothing < 1:
            raise InputError(f"nothing is a fraction in [0, 1), got {self.nothing}")
        for family in self.families:
            family.check(self.size)

    @property
    def image_dtype(self) -> torch.dtype:
        """The numbers of the images that are measured."""
        return self.families[0].image_dtype

    def draw(self, counters: Sequence[int]) -> tuple[LinearOperator, Tensor]:
        """Draws both."""
        place = [0, 0, 0, PROBLEM_STEP]
        rngs = [
            np.random.Generator(np.random.Philox(key=[self.seed, k], counter=place))
            for k in counters
        ]
        low, high = (math.log(bound) for bound in self.noise_std)
        std = torch.tensor([rng.uniform(low, high) for rng in rngs], dtype=torch.float64).exp()
        operator = draw_operators(self.families, self.size, rngs, self.nothing)
        return operator if self.device.type == "cpu" else operator.to(self.device), std
