r"""Instances of the mixture benchmark of MCGDiff (Cardoso et al., 2024), and their prior.

The prior has 25 equal modes at $(8i, 8j)$, $i, j \in \{-2..2\}$, repeated $d/2$ times, with unit
covariance. Instances ($A$ with singular values uniform on (0, 1), $y$, and a noise level uniform on
(0, 1) times the largest singular value) are shipped as a file. Everything is divided by the prior's
standard deviation, so that the schedule's end is pure noise.
"""

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import torch
from torch import Tensor

from bcdm.measurement import Measurement
from bcdm.methods import GaussianMixture
from bcdm.operators import Dense

__all__ = [
    "CASES",
    "FULL_CASES",
    "SCALE",
    "Instance",
    "load_instances",
    "make_instances",
    "make_prior",
]

SCALE = float(np.sqrt(128 + 1))  # standard deviation of each coordinate of the prior
CASES = ((8, 1), (8, 2), (8, 4), (80, 1), (80, 2), (80, 4))
FULL_CASES = (*CASES, (800, 1))
SEEDS = {8: 40, 80: 20, 800: 20}
SPARE = 4  # more of each are in the shipped file, and taken by nobody


@dataclass(frozen=True)
class Instance:
    """One inverse problem: a matrix (dy, d), data (dy,) and a noise level, in original units."""

    matrix: Tensor
    y: Tensor
    noise_std: float

    @property
    def measurement(self) -> Measurement:
        """In standardised units."""
        return Measurement(self.y[None] / SCALE, Dense(self.matrix), self.noise_std / SCALE)


def make_prior(dimension: int) -> GaussianMixture:
    """The standardised prior over vectors of an even dimension."""
    steps = 8.0 * torch.arange(-2, 3, dtype=torch.float64)
    pairs = torch.cartesian_prod(steps, steps).repeat(1, dimension // 2)
    eye = torch.eye(dimension, dtype=torch.float64)[None]
    return GaussianMixture(torch.zeros(25).double(), pairs / SCALE, eye / SCALE**2)


def make_instances(seed: int = 0) -> dict[str, np.ndarray]:
    """Draws the instances of the shipped file."""
    arrays: dict[str, np.ndarray] = {}
    for dimension, measured in FULL_CASES:
        count = SEEDS[dimension] + SPARE
        matrices = np.empty((count, measured, dimension), np.float64)
        data, stds = np.empty((count, measured)), np.empty(count)
        for k in range(count):
            rng = np.random.default_rng([seed, dimension, measured, k])
            left, _, right = np.linalg.svd(
                rng.standard_normal((measured, dimension)), full_matrices=False
            )
            singular = rng.uniform(size=measured)
            matrices[k] = left * singular @ right
            stds[k] = rng.uniform() * singular.max()
            corner = np.tile(8.0 * rng.integers(-2, 3, 2), dimension // 2)
            x_0 = corner + rng.standard_normal(dimension)
            data[k] = matrices[k] @ x_0 + stds[k] * rng.standard_normal(measured)
        name = f"{dimension}/{measured}"
        arrays |= {f"{name}/matrix": matrices, f"{name}/y": data, f"{name}/noise_std": stds}
    return arrays


def load_instances(dimension: int, measured: int) -> list[Instance]:
    """The shipped instances of one case."""
    with (files("bcdm.benchmark") / "mixture_instances.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        name = f"{dimension}/{measured}"
        rows = zip(
            *(stored[f"{name}/{part}"] for part in ("matrix", "y", "noise_std")), strict=True
        )
        return [
            Instance(torch.from_numpy(matrix), torch.from_numpy(y), float(std))
            for matrix, y, std in rows
        ][: SEEDS[dimension]]
