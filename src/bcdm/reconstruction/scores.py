r"""Numbers that tell whether a measurement is one that a model knows.

Each needs the measurement alone, no reference, and at most one network call. They mean something
only beside their distribution on measurements that are known to be right: `calibration.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.diffusion import posterior_mean
from bcdm.evaluation import chi_square
from bcdm.measurement import Measurement
from bcdm.operators import FourierMask, LinearOperator, PixelMask

__all__ = ["Typicality", "chi_square_of", "describe", "hold_out", "measure_held_out"]

BANDS = 8
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
HELD = 0.1


def chi_square_of(measurement: Measurement, x: Tensor) -> tuple[Tensor, Tensor]:
    """Chi-square per degree of freedom of images, and its two-sided p-value, (B,) each.

    A sample of the true posterior and the truth have the same law beside y, so its p-value is
    uniform; that of a mean is not.
    """
    result = chi_square(measurement.residual(x), 1.0, mask=measurement.operator.data_mask)
    return result.reduced, result.p_value


def describe(model: Model, measurement: Measurement) -> Tensor:
    """What a linear look at measurements shows: band energies, grey levels, colours; (B, n)."""
    image = model.method.parameterisation.estimate_linearly(measurement).cpu().double()
    if image.is_complex():
        image = image.abs()
    grey = image.mean(1)
    rows, columns = grey.shape[-2:]
    radius = torch.hypot(
        torch.fft.fftfreq(rows).double()[:, None], torch.fft.fftfreq(columns).double()
    )
    power = torch.fft.fft2(grey, norm="ortho").abs().square()
    edges = torch.linspace(0, 0.5**0.5 + 1e-6, BANDS + 1, dtype=torch.float64)
    band = torch.bucketize(radius, edges, right=True) - 1
    energies = [power[:, band == k].mean(1).clamp_min(1e-12).log() for k in range(BANDS)]
    levels = torch.quantile(grey.flatten(1), torch.tensor(QUANTILES, dtype=torch.float64), dim=1)
    colours = image.flatten(2).mean(2).T if image.shape[1] > 1 else image.new_zeros(0, len(image))
    return torch.cat([torch.stack(energies), levels, colours]).T


@dataclass(frozen=True)
class Typicality:
    """The squared distance of a description from the typical one, per number (Mahalanobis)."""

    centre: Tensor
    precision: Tensor

    @classmethod
    def fit(cls, descriptions: Tensor) -> Self:
        """From descriptions (N, n) of measurements that are right."""
        away = descriptions - descriptions.mean(0)
        covariance = away.T @ away / max(1, len(away) - 1)
        # As if a few more had been seen that differ by a hundredth of the usual.
        ridge = 1e-4 * covariance.diagonal().clamp_min(1e-8)
        return cls(descriptions.mean(0), torch.linalg.inv(covariance + ridge.diag()))

    def measure(self, descriptions: Tensor) -> Tensor:
        """(B,)."""
        away = descriptions - self.centre
        return torch.einsum("bi,ij,bj->b", away, self.precision, away) / away.shape[1]

    def to_plain(self) -> dict[str, Any]:
        """As lists of numbers."""
        return {"centre": self.centre.tolist(), "precision": self.precision.tolist()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """From `to_plain`."""
        return cls(*(torch.tensor(plain[k], dtype=torch.float64) for k in ("centre", "precision")))


def hold_out(operator: LinearOperator, seed: int = 0) -> tuple[LinearOperator, Tensor] | None:
    """An operator that measures a tenth less, and what it leaves out: bool, like its mask.

    None where single data cannot be left out (a blur measures everything at once).
    """
    if not isinstance(operator, (FourierMask, PixelMask)):
        return None
    mask = operator.mask
    draw = np.random.default_rng(seed).random(tuple(mask.shape[-2:])) < HELD
    if isinstance(operator, FourierMask):
        # Of a real image the opposite frequency says the same; the mean brightness stays.
        draw |= np.roll(draw[::-1, ::-1], 1, (0, 1))
        draw[0, 0] = False
        draw = np.fft.fftshift(draw) if operator.centered else draw
    held = mask.to(torch.bool) & torch.from_numpy(draw.copy()).to(mask.device)
    return replace(operator, mask=torch.where(held, torch.zeros_like(mask), mask)), held


@torch.no_grad()
def measure_held_out(model: Model, measurement: Measurement, seed: int = 0) -> Tensor | None:
    """How far data are from what the rest of the data predict by one network call.

    Mean square over the held-out data of each measurement, (B,); None where none can be held out.
    """
    split = hold_out(measurement.operator, seed)
    if split is None:
        return None
    less, held = split
    rest = Measurement(measurement.y * ~held, less, measurement.std)
    mean = posterior_mean(model.method.condition(rest), seed=seed, count=len(rest.y))
    away = (measurement.y - measurement.operator.forward(mean)).abs().square()
    counted = held.expand_as(away).double()
    return (away.double() * counted).flatten(1).sum(1) / counted.flatten(1).sum(1).clamp_min(1)
