r"""What is used for several coils without a learned prior: sums of squares, and sparsity by sigpy.

Each gives one image and no spread. Least squares with a Tikhonov weight, which users call CG-SENSE,
is `LeastSquares` with a finite `prior_std`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fft import fftshift, ifft2, ifftshift

from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods.classical import PointEstimate
from bcdm.operators import Sense

__all__ = ["RootSumOfSquares", "SparseGradients", "SparseWavelets"]

_PENALTY = 0.02  # of ADMM, over the power of the operator: it changes the speed, not the result
_INNER = 8  # conjugate gradients of each of its iterations


@dataclass(frozen=True)
class RootSumOfSquares:
    """The coils' images, zero where nothing was measured, as one magnitude without a phase."""

    def condition(self, measurement: Measurement) -> PointEstimate:
        """Transforms back, and sums."""
        operator, axes = _check(measurement), (-2, -1)
        y = measurement.y
        seen = fftshift(ifft2(ifftshift(y, axes), norm="ortho"), axes)
        seen = seen if operator.centered else ifft2(y, norm="ortho")
        return PointEstimate(seen.abs().square().sum(1, keepdim=True).sqrt().to(y.dtype))


@dataclass(frozen=True)
class SparseWavelets:
    r"""The image of least $|A x - y|^2 / 2 \sigma_0^2 + \lambda |W x|_1$, Daubechies wavelets.

    Args:
        weight: $\lambda$, per unit of the image.
        iterations: Of FISTA, by sigpy.
    """

    weight: float
    iterations: int = 150

    def __post_init__(self) -> None:
        _check_weight(self.weight, self.iterations)

    def condition(self, measurement: Measurement) -> PointEstimate:
        """Iterates."""
        from sigpy.mri.app import L1WaveletRecon

        rows = []
        for y, maps, mask, std in _list_rows(measurement):
            app = L1WaveletRecon(
                y,
                maps,
                self.weight * std**2,
                weights=mask,
                # The step is stated: sigpy would look for it by a global random generator.
                alpha=1 / _bound_power(maps),
                max_iter=self.iterations,
                show_pbar=False,
            )
            rows.append(app.run())
        return _gather(rows, measurement)


@dataclass(frozen=True)
class SparseGradients:
    r"""The same with $|\nabla x|_1$: total variation, also of complex images.

    Args:
        weight: $\lambda$, per unit of the image.
        iterations: Of ADMM, by sigpy. Its default, primal-dual hybrid gradients, was measured three
            times as wrong in the same time.
    """

    weight: float
    iterations: int = 20

    def __post_init__(self) -> None:
        _check_weight(self.weight, self.iterations)

    def condition(self, measurement: Measurement) -> PointEstimate:
        """Iterates."""
        from sigpy.mri.app import TotalVariationRecon

        rows = []
        for y, maps, mask, std in _list_rows(measurement):
            app = TotalVariationRecon(
                y,
                maps,
                self.weight * std**2,
                weights=mask,
                solver="ADMM",
                rho=_PENALTY * _bound_power(maps),
                max_iter=self.iterations,
                max_cg_iter=_INNER,
                show_pbar=False,
            )
            rows.append(app.run())
        return _gather(rows, measurement)


def _check(measurement: Measurement) -> Sense:
    if not isinstance(measurement.operator, Sense):
        raise InputError("this method takes data of several coils: the operator is Sense")
    return measurement.operator


def _check_weight(weight: float, iterations: int) -> None:
    if weight <= 0 or iterations < 1:
        raise InputError(f"weight is > 0 and iterations >= 1, got {weight} and {iterations}")


def _list_rows(measurement: Measurement) -> list[tuple[Any, Any, Any, float]]:
    """k-space, maps, mask and noise level of each measurement, as sigpy takes them."""
    operator = _check(measurement)
    if not operator.centered:
        raise InputError("sigpy takes k-space with its origin in the middle: centered=True")
    rows = []
    for number, y in enumerate(measurement.y):
        one = operator.select(torch.tensor([number]))
        assert isinstance(one, Sense)
        maps = one.maps[0] if one.maps.ndim == 4 else one.maps
        mask = one.mask[0, 0] if one.mask.ndim == 4 else one.mask
        std = float(measurement.std[number if len(measurement.std) > 1 else 0])
        real = np.float32 if y.dtype == torch.complex64 else np.float64
        rows.append((y.cpu().numpy(), maps.cpu().numpy(), mask.cpu().numpy().astype(real), std))
    return rows


def _bound_power(maps: Any) -> float:
    r"""The largest eigenvalue of $A^H A$ is at most this."""
    return float((np.abs(maps) ** 2).sum(0).max())


def _gather(rows: list[Any], measurement: Measurement) -> PointEstimate:
    found: Tensor = torch.from_numpy(np.stack(rows))[:, None]
    return PointEstimate(found.to(measurement.y))
