r"""How uncertain a linear estimate is: what coils and mask do to the noise, before any network."""

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from bcdm.measurement import Measurement

__all__ = ["estimate_linear_std"]

_AT_ONCE = 4
_REACH = 1  # pixels to each side over which variances are averaged
_ENOUGH = 0.02  # of the deviations: solves need not be better


@torch.no_grad()
def estimate_linear_std(
    measurement: Measurement, prior_std: float, *, replicas: int = 16, seed: int = 0
) -> Tensor:
    r"""The standard deviation of each pixel if all that is known beforehand is `prior_std`.

    That of $(A^\top A / \sigma_0^2 + 1 / s^2)^{-1}$, from random numbers of that covariance: noise
    goes through the same solve as the data. Where data fix a pixel it is the noise as coils and
    mask amplify it, where they do not it is the prior's.

    Args:
        measurement: One.
        prior_std: Of each pixel, of the real and of the imaginary part each.
        replicas: So many random numbers a pixel; with its neighbours' the error is about 6 %.
        seed: Of all of them.

    Returns:
        Real (1, C, H, W); of complex images that of the real and of the imaginary part each.
    """
    operator, noise = measurement.operator, float(measurement.std[0])
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for start in range(0, replicas, _AT_ONCE):
        count = min(_AT_ONCE, replicas - start)
        ours = _draw(measurement.y, tuple(measurement.y.shape[1:]), count, generator)
        white = _draw(measurement.back_projection, measurement.image.shape, count, generator)
        # Scaled by the prior's variance, so that the system is near the identity where data lack.
        right = prior_std**2 / noise * operator.adjoint(ours) + prior_std * white
        solved = operator.solve(1.0, (prior_std / noise) ** 2, right, tolerance=_ENOUGH)
        parts.append(solved.abs().square() / (2 if solved.is_complex() else 1))
    variance = torch.cat(parts).mean(0, keepdim=True)
    side = 2 * _REACH + 1
    return avg_pool2d(variance, side, 1, _REACH, count_include_pad=False).sqrt()


def _draw(like: Tensor, shape: tuple[int, ...], count: int, generator: torch.Generator) -> Tensor:
    """Unit noise in the real and in the imaginary part each."""
    real = torch.randn(count, *shape, generator=generator)
    if not like.is_complex():
        return real.to(like)
    return torch.complex(real, torch.randn(count, *shape, generator=generator)).to(like)
