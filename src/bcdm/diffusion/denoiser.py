"""The denoiser contract, and the three names of one thing: mean, score and noise."""

from typing import Protocol, runtime_checkable

from torch import Tensor

from bcdm.diffusion.schedules import NoiseLevel, Schedule
from bcdm.tensors import ImageSpec, fit

__all__ = ["Denoiser", "to_noise", "to_score"]


@runtime_checkable
class Denoiser(Protocol):
    r"""$E[x_0 \mid x_t]$, or $E[x_0 \mid x_t, y]$ with the measurement already bound.

    Attributes:
        schedule: The noise levels it knows.
        image: What one image is.
    """

    @property
    def schedule(self) -> Schedule:
        """The noise levels it knows."""
        ...

    @property
    def image(self) -> ImageSpec:
        """What one image is."""
        ...

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        """The mean of x_0, a tensor like `x_t` (B, *shape)."""
        ...


def to_score(mean: Tensor, x_t: Tensor, level: NoiseLevel) -> Tensor:
    r"""Tweedie: $\nabla \log q(x_t) = (\alpha E[x_0] - x_t) / \sigma^2$ (paper, Eq. 7)."""
    alpha, sigma = fit(x_t, *level)
    return (alpha * mean - x_t) / sigma**2


def to_noise(mean: Tensor, x_t: Tensor, level: NoiseLevel) -> Tensor:
    r"""The expected noise $(x_t - \alpha E[x_0]) / \sigma$."""
    alpha, sigma = fit(x_t, *level)
    return (x_t - alpha * mean) / sigma
