"""The method contract: a measurement in, a denoiser out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from bcdm.diffusion import Denoiser, NoiseLevel, Schedule
from bcdm.measurement import Measurement
from bcdm.tensors import ImageSpec

__all__ = ["BoundDenoiser", "Method"]


class Method(Protocol):
    r"""A way to $E[x_0 \mid x_t, y]$."""

    def condition(self, measurement: Measurement) -> Denoiser:
        """Binds a measurement."""
        ...


@dataclass(frozen=True)
class BoundDenoiser:
    """An unconditional denoiser, turned into a conditional one.

    Args:
        prior: The unconditional denoiser.
        mean: Gives the mean of x_0 with the measurement bound.
    """

    prior: Denoiser
    mean: Callable[[Tensor, NoiseLevel], Tensor]

    @property
    def schedule(self) -> Schedule:
        """The prior's."""
        return self.prior.schedule

    @property
    def image(self) -> ImageSpec:
        """The prior's."""
        return self.prior.image

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        r"""$E[x_0 \mid x_t, y]$."""
        return self.mean(x_t, level)
