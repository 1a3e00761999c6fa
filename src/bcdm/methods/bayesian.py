r"""Learned Bayesian conditioning: a network fed with a sufficient statistic of $x_t$ and $y$."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from bcdm.conditioning import Conditioning
from bcdm.diffusion import NoiseLevel, Schedule
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.tensors import ImageSpec, fit

__all__ = ["Bayesian", "BayesianDenoiser", "Parameterisation"]


@dataclass(frozen=True)
class Parameterisation:
    r"""What the network sees and what its output means.

    Args:
        statistic: The input. "whitened" is the paper's $\hat x_t$; "pivot" is $M_t^{-1} r_t$,
            scaled to unit size where nothing is measured; "wiener" is the linear estimate $w$.
        output: "image" is the paper's: the network gives $x_d$ and data consistency follows, each
            iteration. "residual" is $w + C f$ with $C = \sigma (\sigma^2 / s^2 + M_t)^{-1/2}$, the
            standard deviation that a white prior leaves after $x_t$ and $y$: what is known well is
            moved little, by construction.
        weight: $\lambda$ of data consistency ("image" only).
        prior_std: $s$, the standard deviation of a pixel.
    """

    statistic: Literal["whitened", "pivot", "wiener"] = "wiener"
    output: Literal["image", "residual"] = "residual"
    weight: float = 0.01
    prior_std: float = 0.5

    def __post_init__(self) -> None:
        if self.statistic not in ("whitened", "pivot", "wiener"):
            raise InputError(f"statistic is whitened, pivot or wiener, not {self.statistic!r}")
        if self.output not in ("image", "residual"):
            raise InputError(f"output is image or residual, not {self.output!r}")
        if self.weight <= 0 or self.prior_std <= 0:
            raise InputError("weight and prior_std must be > 0")

    def prepare(
        self, conditioning: Conditioning, x_t: Tensor
    ) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """The network's input, and the map from its output to the mean of x_0."""
        if self.output == "image":
            natural = conditioning.natural_statistic(x_t)
            return self._input(conditioning, x_t), lambda x_d: conditioning.data_consistency(
                x_d, natural, self.weight
            )
        wiener = conditioning.wiener_statistic(x_t, self.prior_std)
        seen = self._input(conditioning, x_t, wiener)
        return seen, lambda f: wiener + self._spread(conditioning, f)

    def scale(self, level: NoiseLevel) -> Tensor:
        r"""$s \sigma (s^2 \alpha^2 + \sigma^2)^{-1/2}$: what $x_t$ alone leaves unknown."""
        alpha, sigma = level
        return self.prior_std * sigma / (self.prior_std**2 * alpha**2 + sigma**2).sqrt()

    def _input(
        self, conditioning: Conditioning, x_t: Tensor, wiener: Tensor | None = None
    ) -> Tensor:
        if self.statistic == "whitened":
            return conditioning.whitened_statistic(x_t)
        if self.statistic == "pivot":
            alpha, sigma = conditioning.level
            size = alpha / (self.prior_std**2 * alpha**2 + sigma**2).sqrt()
            return fit(x_t, size)[0] * conditioning.pivot(x_t)
        if wiener is None:
            wiener = conditioning.wiener_statistic(x_t, self.prior_std)
        return wiener / self.prior_std

    def _spread(self, conditioning: Conditioning, f: Tensor) -> Tensor:
        alpha, sigma = conditioning.level
        flat, steep, size = fit(
            f, alpha**2 + (sigma / self.prior_std) ** 2, conditioning.gain**2, sigma
        )
        operator = conditioning.measurement.operator
        return size * operator.gram_function(lambda e: (flat + steep * e).rsqrt(), f)


@dataclass(frozen=True, eq=False)
class Bayesian:
    r"""A network that gives $E[x_0 \mid \text{statistic}]$ for every noise level.

    Args:
        network: Called as network(statistic, log_snr, project) with images (B, C, H, W).
        schedule: The noise levels it was trained on.
        parameterisation: What the network sees and gives.
    """

    network: nn.Module
    schedule: Schedule
    parameterisation: Parameterisation

    def condition(self, measurement: Measurement) -> "BayesianDenoiser":
        """Binds measurements; one network call then gives their posterior means."""
        return BayesianDenoiser(self, measurement)

    def estimate(self, conditioning: Conditioning, x_t: Tensor) -> Tensor:
        r"""$E[x_0 \mid x_t, y]$, differentiable: the same code trains and samples."""
        # The statistic is exact arithmetic, whatever precision the network runs in.
        with torch.autocast(x_t.device.type, enabled=False):
            seen, project = self.parameterisation.prepare(conditioning, x_t)
        log_snr = conditioning.level.log_snr.to(x_t.device, torch.float32)
        out: Tensor = self.network(seen, log_snr, project)
        return out


@dataclass(frozen=True, eq=False)
class BayesianDenoiser:
    """A learned posterior with its measurements bound."""

    method: Bayesian
    measurement: Measurement

    @property
    def schedule(self) -> Schedule:
        """That of the method."""
        return self.method.schedule

    @property
    def image(self) -> ImageSpec:
        """What the measurement gives."""
        return self.measurement.image

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        r"""$E[x_0 \mid x_t, y]$ by one pass of the network."""
        return self.method.estimate(Conditioning(self.measurement, level), x_t)
