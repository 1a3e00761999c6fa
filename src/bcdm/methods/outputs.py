r"""What the network's output means: the way from it to $E[x_0 \mid x_t, y]$, one class each."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from bcdm.diffusion import NoiseLevel
from bcdm.methods.view import Scales, View

__all__ = ["Image", "Output", "Projection", "Residual"]

Projection = Callable[[Tensor], Tensor]


class Output(ABC):
    """A meaning of the network's output."""

    @abstractmethod
    def explain(
        self, view: View, seen: Tensor, left: Tensor | None = None
    ) -> tuple[Projection, float]:
        """From the output to an image, and that image's unit.

        Args:
            view: The diffused image and its measurement.
            seen: The statistic that the network sees.
            left: See `Scales.spread`.
        """

    @abstractmethod
    def weigh(self, level: NoiseLevel, scales: Scales) -> Tensor:
        """What squared errors at a level count in training."""


@dataclass(frozen=True)
class Image(Output):
    r"""The paper's: the network gives $x_d$, and data consistency follows in each iteration.

    Args:
        weight: $\lambda$ of data consistency.
    """

    weight: float

    def explain(
        self, view: View, seen: Tensor, left: Tensor | None = None
    ) -> tuple[Projection, float]:
        """Data consistency."""
        natural = view.conditioning.natural_statistic(view.x_t)
        consist = view.conditioning.data_consistency
        return partial(consist, natural=natural, weight=self.weight), 1.0

    def weigh(self, level: NoiseLevel, scales: Scales) -> Tensor:
        """The paper's plain loss."""
        return torch.ones_like(level.sigma)


@dataclass(frozen=True)
class Residual(Output):
    r"""$w + C f$ with $C = \sigma (\sigma^2 / s^2 + M_t)^{-1/2}$.

    $C$ is the standard deviation that the prior leaves after $x_t$ and $y$: what is known well is
    moved little, by construction.

    Args:
        model_std: $\tau$, how far off the network itself may be: $w + K C f$ with
            $K = (1 + \tau^2 A^\top A / \sigma_0^2)^{-1}$. That is the paper's data consistency, the
            network's image being an observation of standard deviation $\tau$. Where $y$ is more
            precise than the network, $y$ is kept; 0 believes the network.
    """

    model_std: float = 0.0

    def explain(
        self, view: View, seen: Tensor, left: Tensor | None = None
    ) -> tuple[Projection, float]:
        """The Wiener statistic moved by the output."""
        # In units of the prior's spread, so that further iterations see what the first one saw.
        start, conditioning, scales = view.wiener, view.conditioning, view.scales
        operator = conditioning.measurement.operator.stand_in

        def project(f: Tensor) -> Tensor:
            return start + scales.spread(conditioning, operator, f, self.model_std, left)

        return project, scales.prior_std

    def weigh(self, level: NoiseLevel, scales: Scales) -> Tensor:
        """Errors are relative to what is unknown."""
        return scales.unknown(level) ** -2
