r"""Noise levels and schedules, in log signal-to-noise ratio.

A level is $x_t = \alpha x_0 + \sigma n$; its log-SNR is $\ell = \log(\alpha^2 / \sigma^2)$.
Samplers step from level to level; nothing depends on an integer time.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import log, sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from bcdm.errors import InputError

__all__ = ["VE", "VP", "Bridge", "NoiseLevel", "Schedule", "Tabled", "paper_grid"]

# Power of the unknown over that of the noise up to which a level holds nothing of the image: a step
# across all such levels misses this part of the variance that it should add.
_FAINT = 0.005


class NoiseLevel(NamedTuple):
    """The coefficients of x_t = alpha x_0 + sigma n: float64, of shape (1,) or (B,)."""

    alpha: Tensor
    sigma: Tensor

    @property
    def log_snr(self) -> Tensor:
        """The log signal-to-noise ratio."""
        return 2 * (self.alpha.log() - self.sigma.log())


@dataclass(frozen=True)
class Schedule(ABC):
    """A family of noise levels by log-SNR, its range, and the time that runs over it.

    Args:
        spread: The standard deviation of the images along their most uncertain direction (a hole's
            brightness, not a pixel's). Where even that drowns in the noise there is nothing to
            decide, and grids cross those levels in their first step. None: grids are uniform over
            the whole range.
    """

    spread: float | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def log_snr_range(self) -> tuple[float, float]:
        """(lowest, highest) log-SNR: pure noise to nearly clean."""

    @abstractmethod
    def level(self, log_snr: Tensor) -> NoiseLevel:
        """The level at a log-SNR; float64 in, float64 out."""

    @abstractmethod
    def growth(self, level: NoiseLevel) -> Tensor:
        r"""How fast the signal grows, $d \log\alpha / d\ell$, for the reverse SDE."""

    @abstractmethod
    def log_snr(self, time: Tensor) -> Tensor:
        """The log-SNR at time 0 (clean) to 1 (noise)."""

    @abstractmethod
    def time(self, log_snr: Tensor) -> Tensor:
        """The time at a log-SNR: the inverse of `log_snr`."""

    def grid(self, steps: int) -> Tensor:
        """`steps` levels from noise to nearly clean, uniform in log-SNR but for `spread`."""
        if steps < 1:
            raise InputError(f"a sampler needs at least one step, got {steps}")
        low, high = self.log_snr_range
        if self.spread is None or steps < 3:
            return torch.linspace(low, high, steps, dtype=torch.float64)
        first = torch.tensor([low], dtype=torch.float64)
        if self.spread <= 0:
            raise InputError(f"spread must be > 0, got {self.spread}")
        even = (high - low) / (steps - 1)
        start = min(max(low + even, log(_FAINT / self.spread**2)), high - even)
        return torch.cat([first, torch.linspace(start, high, steps - 1, dtype=torch.float64)])

    def time_grid(self, steps: int) -> Tensor:
        """`steps` levels, uniform in time from 1 down to 1 / steps: the classical choice."""
        if steps < 1:
            raise InputError(f"a sampler needs at least one step, got {steps}")
        return self.log_snr(torch.arange(steps, 0, -1, dtype=torch.float64) / steps)


@dataclass(frozen=True)
class _VariancePreserving(Schedule):
    r"""$\alpha^2 + \sigma^2 = 1$, whatever the time."""

    def level(self, log_snr: Tensor) -> NoiseLevel:
        """Alpha and sigma are roots of a logistic function and its complement."""
        # Through log-sigmoid, so that 1 - abar keeps its digits at both ends.
        log_sigmoid = torch.nn.functional.logsigmoid
        return NoiseLevel((log_sigmoid(log_snr) / 2).exp(), (log_sigmoid(-log_snr) / 2).exp())

    def growth(self, level: NoiseLevel) -> Tensor:
        r"""$\sigma^2 / 2$."""
        return level.sigma**2 / 2


@dataclass(frozen=True)
class VP(_VariancePreserving):
    r"""Variance preserving: $\alpha^2 + \sigma^2 = 1$, with the paper's linear schedule as time.

    $$ \bar\alpha(t) = \exp(-\beta_0 t - \tfrac12 (\beta_1 - \beta_0) t^2) $$

    Args:
        sigma_min: The last noise level. The paper's table ends at .01; going below removes a
            bias of $-\sigma_{min}^2 / (s^2 + \sigma_{min}^2)$ in directions of posterior
            variance $s^2$.
        beta_min: $\beta_0$.
        beta_max: $\beta_1$.

    >>> VP().level(torch.tensor([0.0]))
    NoiseLevel(alpha=tensor([0.7071]), sigma=tensor([0.7071]))
    """

    sigma_min: float = 0.002
    beta_min: float = 0.1
    beta_max: float = 20.0

    def __post_init__(self) -> None:
        if not 0 < self.sigma_min < 1 or not 0 < self.beta_min < self.beta_max:
            raise InputError("VP needs 0 < sigma_min < 1 and 0 < beta_min < beta_max")

    @property
    def log_snr_range(self) -> tuple[float, float]:
        """From the linear schedule's end to `sigma_min`."""
        low = float(self.log_snr(torch.ones(1, dtype=torch.float64)))
        variance = self.sigma_min**2
        return low, log((1 - variance) / variance)

    def log_snr(self, time: Tensor) -> Tensor:
        """Of the linear schedule."""
        integral = self.beta_min * time + (self.beta_max - self.beta_min) * time**2 / 2
        return -torch.log(torch.expm1(integral))

    def time(self, log_snr: Tensor) -> Tensor:
        """By the quadratic formula; levels below the table get the times just above 0."""
        integral = torch.nn.functional.softplus(-log_snr)
        slope = self.beta_max - self.beta_min
        root = torch.sqrt(self.beta_min**2 + 2 * slope * integral)
        return 2 * integral / (self.beta_min + root)


@dataclass(frozen=True, eq=False, repr=False)
class Tabled(_VariancePreserving):
    r"""Variance preserving, with a table of $\bar\alpha$ as time: that of a network by others.

    Between the entries the log-SNR is linear in time. There are no levels beyond the table's ends.

    Args:
        abar: $\bar\alpha_k$ for k = 0, 1, ..., from nearly clean to noise, (T,). An end at 0, pure
            noise, is taken as 1e-6.

    >>> Tabled(torch.tensor([0.9, 0.5, 0.1])).find_position(torch.tensor([0.0]).double())
    tensor([1.], dtype=torch.float64)
    """

    abar: Tensor

    def __post_init__(self) -> None:
        abar = torch.as_tensor(self.abar, dtype=torch.float64).detach().cpu()
        right = abar.ndim == 1 and len(abar) > 1 and bool((abar.diff() < 0).all())
        if not right or not 0 <= float(abar[-1]) < float(abar[0]) < 1:
            raise InputError("a table of abar falls from below 1 to 0 or above, one number a step")
        object.__setattr__(self, "abar", abar.clamp_min(1e-6))

    def __repr__(self) -> str:
        return f"Tabled({len(self.abar)} steps)"

    @property
    def log_snr_range(self) -> tuple[float, float]:
        """The table's ends."""
        return float(self._log_snrs[-1]), float(self._log_snrs[0])

    def log_snr(self, time: Tensor) -> Tensor:
        """Entry k is at time (k + 1) / T; earlier times have the first."""
        place = (time * len(self.abar) - 1).clamp(0, len(self.abar) - 1)
        return _interpolate(place, torch.arange(len(self.abar)).double(), self._log_snrs)

    def time(self, log_snr: Tensor) -> Tensor:
        """The inverse of `log_snr`."""
        return (self.find_position(log_snr) + 1) / len(self.abar)

    def find_position(self, log_snr: Tensor) -> Tensor:
        """The place in the table, between entries a fraction: what the network is told."""
        places = torch.arange(len(self.abar)).double()
        return _interpolate(log_snr, self._log_snrs.flip(0), places.flip(0))

    @property
    def _log_snrs(self) -> Tensor:
        return self.abar.log() - (-self.abar).log1p()


def _interpolate(x: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Linear between rising places, constant beyond them; float64."""
    x = x.double().clamp(places[0], places[-1])
    above = torch.searchsorted(places, x).clamp(1, len(places) - 1)
    share = (x - places[above - 1]) / (places[above] - places[above - 1])
    return values[above - 1] + share * (values[above] - values[above - 1])


@dataclass(frozen=True)
class VE(Schedule):
    r"""Variance exploding: $\alpha = 1$, $\sigma(t)$ geometric from `sigma_min` to `sigma_max`.

    >>> VE().level(torch.tensor([0.0]))
    NoiseLevel(alpha=tensor([1.]), sigma=tensor([1.]))
    """

    sigma_min: float = 0.002
    sigma_max: float = 100.0

    def __post_init__(self) -> None:
        if not 0 < self.sigma_min < self.sigma_max:
            raise InputError("VE needs 0 < sigma_min < sigma_max")

    @property
    def log_snr_range(self) -> tuple[float, float]:
        """From `sigma_max` to `sigma_min`."""
        return -2 * log(self.sigma_max), -2 * log(self.sigma_min)

    def level(self, log_snr: Tensor) -> NoiseLevel:
        """Alpha is one."""
        return NoiseLevel(torch.ones_like(log_snr), (-log_snr / 2).exp())

    def growth(self, level: NoiseLevel) -> Tensor:
        """Zero: the signal does not change."""
        return torch.zeros_like(level.sigma)

    def log_snr(self, time: Tensor) -> Tensor:
        """Linear in time."""
        low, high = self.log_snr_range
        return high + (low - high) * time

    def time(self, log_snr: Tensor) -> Tensor:
        """Linear in log-SNR."""
        low, high = self.log_snr_range
        return (high - log_snr) / (high - low)


@dataclass(frozen=True)
class Bridge(Schedule):
    r"""From an image to a known one, $x_1$: the bridge of I2SB (Liu et al., 2023).

    A Brownian motion of variance $\int_0^t \beta = B s$, with $s = 1$ at $t = 1$, that ends in
    $x_1$ is $(1 - s) x_0 + s x_1 + \sqrt{B s (1 - s)}\, n$ on its way. Less what is known,
    $s x_1$, that is a level with $\alpha = 1 - s$ and $\sigma^2 = B \alpha (1 - \alpha)$, and its
    transitions are those of any schedule: DDIM with $\eta = 1$ is the published sampler. At both
    ends there is no noise.

    Args:
        sigma_min: The first and the last noise level.
        beta_min: $\beta_0$.
        beta_max: $\beta_1$. As published, $\sqrt\beta$ runs half the way from $\sqrt{\beta_0}$ to
            $\sqrt{\beta_1}$ and back again.

    >>> float(Bridge().level(torch.tensor([0.0]).double()).sigma.square() / Bridge().variance)
    0.108
    """

    sigma_min: float = 0.002
    beta_min: float = 0.1
    beta_max: float = 0.3

    def __post_init__(self) -> None:
        if not 0 < self.beta_min < self.beta_max:
            raise InputError("a bridge needs 0 < beta_min < beta_max")
        if not 0 < 4 * self.sigma_min**2 < self.variance:
            raise InputError(f"a bridge needs 0 < sigma_min < {sqrt(self.variance) / 2:.3f}")

    @property
    def variance(self) -> float:
        """That of the whole motion, B."""
        return 2 * float(self._gather(torch.tensor(0.5, dtype=torch.float64)))

    @property
    def log_snr_range(self) -> tuple[float, float]:
        """Where the noise is `sigma_min`, near either end."""
        share = self.sigma_min**2 / self.variance
        root = (1 + sqrt(1 - 4 * share)) / 2
        reach, centre = 2 * log(root) - log(share), -log(self.variance)
        return centre - reach, centre + reach

    def level(self, log_snr: Tensor) -> NoiseLevel:
        """Alpha is a logistic function."""
        log_sigmoid = torch.nn.functional.logsigmoid
        shifted = log_snr + log(self.variance)
        ahead, behind = log_sigmoid(shifted), log_sigmoid(-shifted)
        return NoiseLevel(ahead.exp(), ((ahead + behind + log(self.variance)) / 2).exp())

    def growth(self, level: NoiseLevel) -> Tensor:
        r"""$1 - \alpha$."""
        return 1 - level.alpha

    def log_snr(self, time: Tensor) -> Tensor:
        """Within the range: the bridge's ends have none."""
        low, high = self.log_snr_range
        passed, left = self._pass(time), self._pass(1 - time)
        return (left.log() - passed.log() - log(self.variance)).clamp(low, high)

    def time(self, log_snr: Tensor) -> Tensor:
        """The bridge is the same seen from its other end."""
        shifted = log_snr + log(self.variance)
        short = self.variance * torch.sigmoid(-shifted.abs())
        first, slope = self._roots
        early = ((first**3 + 3 * slope * short) ** (1 / 3) - first) / slope
        return torch.where(shifted > 0, early, 1 - early)

    @property
    def _roots(self) -> tuple[float, float]:
        r"""$\sqrt\beta$ at the start, and its slope."""
        return sqrt(self.beta_min), sqrt(self.beta_max) - sqrt(self.beta_min)

    def _gather(self, time: Tensor) -> Tensor:
        r"""$\int_0^t \beta$ up to half the time."""
        first, slope = self._roots
        return time * (first**2 + first * slope * time + slope**2 * time**2 / 3)

    def _pass(self, time: Tensor) -> Tensor:
        """The same at all times."""
        early = self._gather(torch.minimum(time, 1 - time))
        return torch.where(time < 0.5, early, self.variance - early)


def paper_grid(steps: int = 1000) -> Tensor:
    r"""The paper's discretisation: $\bar\alpha_t = \prod_i (1 - \beta_i)$, from t = `steps` to 1.

    $\beta_i$ runs linearly from .1 / `steps` to 20 / `steps` (1e-4 to .02 at T = 1000). Returned as
    log-SNR in float64, computed in log space.

    >>> f"{float(VP().level(paper_grid()).sigma[-1]):.4f}"
    '0.0100'
    """
    if steps < 21:
        raise InputError(f"the linear table needs more than 20 steps, got {steps}")
    beta = torch.linspace(0.1 / steps, 20.0 / steps, steps, dtype=torch.float64)
    log_abar = torch.log1p(-beta).cumsum(0)
    return (log_abar - torch.log(-torch.expm1(log_abar))).flip(0)
