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
from torch.nn.functional import avg_pool2d

from bcdm.checkpoint import Model
from bcdm.diffusion import posterior_mean
from bcdm.evaluation import chi_square
from bcdm.identity import identify
from bcdm.measurement import Measurement
from bcdm.operators import FourierMask, LinearOperator, PixelMask

__all__ = [
    "Typicality",
    "chi_square_of",
    "describe",
    "find_spots",
    "hold_out",
    "measure_brightness",
    "measure_held_out",
]

BANDS = 12
QUANTILES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.999)
HELD = 0.1


def chi_square_of(measurement: Measurement, x: Tensor) -> tuple[Tensor, Tensor]:
    """Chi-square per degree of freedom of images, and its two-sided p-value, (B,) each.

    A sample of the true posterior and the truth have the same law beside y, so its p-value is
    uniform; that of a mean is not.
    """
    result = chi_square(measurement.residual(x), 1.0, mask=measurement.data_mask)
    return result.reduced, result.p_value


def measure_brightness(image: Tensor, black: float) -> Tensor:
    """The 99 % quantile of images above black, (B,)."""
    away = image.abs() if image.is_complex() else image - black
    return away.mean(1).flatten(1).quantile(0.99, 1).clamp_min(1e-6)


def describe(image: Tensor, black: float) -> Tensor:
    """What images (B, C, H, W) look like, whatever their brightness: (B, n).

    Energies of bands of frequency, grey levels, spots, and colours if there are some.
    """
    scaled, grey = _scale(image, black)
    rows, columns = grey.shape[-2:]
    radius = torch.hypot(
        torch.fft.fftfreq(rows).double()[:, None], torch.fft.fftfreq(columns).double()
    )
    power = torch.fft.fft2(grey, norm="ortho").abs().square()
    edges = torch.linspace(0, 0.5**0.5 + 1e-6, BANDS + 1, dtype=torch.float64)
    band = torch.bucketize(radius, edges, right=True) - 1
    energies = [
        power[:, band == k].mean(1).clamp_min(1e-12).log()
        for k in range(BANDS)
        if bool((band == k).any())
    ]
    levels = torch.quantile(grey.flatten(1), torch.tensor(QUANTILES, dtype=torch.float64), dim=1)
    colours = scaled.flatten(2).mean(2).T[: -1 if scaled.shape[1] == 1 else None]
    return torch.cat([torch.stack(energies).T, levels.T, find_spots(image, black), colours.T], 1)


def find_spots(image: Tensor, black: float) -> Tensor:
    """The brightest point of images, the sharpest, and the brightest small patch: logs, (B, 3)."""
    grey = _scale(image, black)[1][:, None]
    around = sum(grey.roll(step, axis) for step in (1, -1) for axis in (-2, -1)) / 4
    patch = avg_pool2d(grey, 3, 1, 1) - avg_pool2d(grey, 7, 1, 3)
    spots = [part.flatten(1).amax(1) for part in (grey, grey - around, patch)]
    return torch.stack(spots, 1).clamp_min(1e-6).log()


def _scale(image: Tensor, black: float) -> tuple[Tensor, Tensor]:
    """Images above black over their brightness, and the mean of their channels; float64."""
    image = image.cpu()
    away = image.abs() if image.is_complex() else image - black
    scaled = away.double() / measure_brightness(image, black).double()[:, None, None, None]
    return scaled, scaled.mean(1)


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
    denoiser = model.method.condition(rest)
    mean = posterior_mean(denoiser, seed=seed, items=identify(measurement))
    away = (measurement.y - measurement.operator.forward(mean)).abs().square()
    counted = held.expand_as(away).double()
    return (away.double() * counted).flatten(1).sum(1) / counted.flatten(1).sum(1).clamp_min(1)
