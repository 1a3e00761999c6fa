r"""Estimates without a learned prior: least squares and total variation.

Each gives one image and no spread, as a denoiser that does not look at $x_t$: so one call is the
estimate, and every command that takes a method takes these.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bcdm.diffusion import VP, NoiseLevel, Schedule
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods.base import check_count
from bcdm.tensors import ImageSpec

__all__ = ["LeastSquares", "PointEstimate", "TotalVariation"]


@dataclass(frozen=True, eq=False)
class PointEstimate:
    """An estimate (B, *shape) in the place of a denoiser."""

    estimate: Tensor
    schedule: Schedule = VP()  # noqa: RUF009

    @property
    def image(self) -> ImageSpec:
        """That of the estimate."""
        return ImageSpec.of(self.estimate)

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        """The estimate, whatever x_t is."""
        check_count(len(self.estimate), x_t)
        return self.estimate.expand(len(x_t), *self.estimate.shape[1:])


@dataclass(frozen=True)
class LeastSquares:
    r"""$A^+ y$, the least-squares solution of least norm: what a prior of hardly any weight leaves.

    Args:
        prior_std: Of that prior, in the units of images: the wider, the closer.
    """

    prior_std: float = 100.0

    def condition(self, measurement: Measurement) -> PointEstimate:
        """Solves."""
        return PointEstimate(measurement.estimate_linearly(self.prior_std))


@dataclass(frozen=True)
class TotalVariation:
    r"""The real image of least $|A x - y|^2 / 2 \sigma_0^2 + \lambda\, TV(x)$, by ADMM.

    The proximal map of total variation is scikit-image's (Chambolle); the other half is our solve.

    Args:
        weight: $\lambda$, per unit of the image.
        iterations: Of ADMM.
        penalty: Of ADMM, over the noise's precision; it changes the speed, not the result.
    """

    weight: float
    iterations: int = 100
    penalty: float = 0.1

    def __post_init__(self) -> None:
        if min(self.weight, self.iterations, self.penalty) <= 0:
            raise InputError("weight, iterations and penalty must be > 0")

    def condition(self, measurement: Measurement) -> PointEstimate:
        """Iterates."""
        back, operator = measurement.back_projection, measurement.operator
        if back.is_complex():
            raise InputError("total variation is for real images")
        weights = (self.weight * measurement.std**2 / self.penalty).expand(len(back)).tolist()
        z = torch.zeros_like(back)
        u = torch.zeros_like(back)
        for _ in range(self.iterations):
            x = operator.solve(self.penalty, 1.0, back + self.penalty * (z - u))
            z = torch.stack(
                [_smooth(one, weight) for one, weight in zip(x + u, weights, strict=True)]
            )
            u = u + x - z
        return PointEstimate(z)


def _smooth(image: Tensor, weight: float) -> Tensor:
    """The proximal map of the channels' total variation."""
    from skimage.restoration import denoise_tv_chambolle

    given = image.double().cpu().numpy()
    found = denoise_tv_chambolle(  # type: ignore[no-untyped-call]
        given, weight, eps=1e-6, max_num_iter=50, channel_axis=0
    )
    return torch.from_numpy(np.ascontiguousarray(found)).to(image)
