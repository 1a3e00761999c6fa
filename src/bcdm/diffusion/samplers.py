r"""Samplers: how to go from one noise level to the next.

A sampler is a small frozen object; what a multistep method remembers travels in an explicit state.
With $h = \ell_s - \ell_t > 0$ the step in log-SNR from $t$ to the cleaner $s$:
$r = \alpha_t / \alpha_s$ and $\tau^2 = \sigma_t^2 - r^2 \sigma_s^2$ describe the forward transition
$x_t = r x_s + \tau n$, for every schedule.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from bcdm.diffusion.denoiser import Denoiser, to_noise, to_score
from bcdm.diffusion.schedules import NoiseLevel
from bcdm.errors import InputError
from bcdm.tensors import fit

__all__ = [
    "DDIM",
    "Ancestral",
    "DPMSolver",
    "EulerMaruyama",
    "Heun",
    "Memory",
    "PredictorCorrector",
    "Sampler",
    "SelfSampled",
    "Step",
    "choose_sampler",
]

Draw = Callable[[int], Tensor]
"""Standard normal noise of this step, by the number of the draw within the step."""


class Memory(NamedTuple):
    """What a multistep sampler remembers: the last mean and the last step in log-SNR."""

    mean: Tensor
    h: Tensor


class Step(NamedTuple):
    """A step from level `t` to the cleaner level `s`, with its noise and what came before."""

    t: NoiseLevel
    s: NoiseLevel
    draw: Draw
    memory: Memory | None = None

    @property
    def h(self) -> Tensor:
        """The step in log-SNR, > 0."""
        return self.s.log_snr - self.t.log_snr


@dataclass(frozen=True)
class Sampler(ABC):
    """How to go from one noise level to the next."""

    @abstractmethod
    def advance(self, denoiser: Denoiser, x_t: Tensor, step: Step) -> tuple[Tensor, Memory | None]:
        """The image at level `step.s` and what to remember."""

    def calls(self, steps: int) -> int:
        """Network calls that `steps` levels take: one each, unless a sampler says otherwise."""
        return steps

    def count_steps(self, calls: int) -> int:
        """As many noise levels as `calls` network calls allow, at least one.

        >>> Heun().count_steps(20)
        10
        """
        return max((n for n in range(1, calls + 1) if self.calls(n) <= calls), default=1)


@runtime_checkable
class SelfSampled(Denoiser, Protocol):
    """A denoiser that only its own sampler can draw with: the data are in its steps."""

    @property
    def sampler(self) -> Sampler:
        """What draws."""
        ...


def choose_sampler(denoiser: Denoiser, asked: Sampler | None, usual: Sampler) -> Sampler:
    """What to draw with: the denoiser's own sampler, the one asked for, or the usual one."""
    if asked is not None and not callable(getattr(asked, "advance", None)):
        raise InputError(f"{asked!r} is no sampler: give one such as bcdm.DPMSolver()")
    if not isinstance(denoiser, SelfSampled):
        return usual if asked is None else asked
    own = denoiser.sampler
    if asked is not None and asked != own:
        raise InputError(
            f"{type(own).__name__} holds the data in its own steps: leave the sampler out"
        )
    return own


@dataclass(frozen=True)
class Ancestral(Sampler):
    r"""The paper's sampling chain (Eq. 3): $x_s = (x_t + \tau^2 \nabla\log q(x_t)) / r + \tau n$.

    For VP this is DDPM with the large variance $1 - \alpha_t$; for VE it is the reverse diffusion
    predictor. No noise is added at the last step.
    """

    def advance(self, denoiser: Denoiser, x_t: Tensor, step: Step) -> tuple[Tensor, None]:
        """One step of Eq. 3."""
        t, s = step.t, step.s
        tau = t.sigma * torch.expm1(-step.h).neg().sqrt()
        r, variance, tau = fit(x_t, t.alpha / s.alpha, tau**2, tau)
        score = to_score(denoiser(x_t, t), x_t, t)
        return (x_t + variance * score) / r + tau * step.draw(0), None


@dataclass(frozen=True)
class PredictorCorrector(Sampler):
    r"""Reverse diffusion, then Langevin steps at the new level (the paper's VE section).

    $$ x \leftarrow x + \epsilon \nabla\log q(x) + \sqrt{2 \epsilon}\, n,
       \qquad \epsilon = 2 (\rho\, \sigma_s)^2 $$

    score_sde sets $\epsilon = 2 (\rho |n| / |score|)^2$; the norms are replaced by what they
    estimate, $|n| / |score| \approx \sigma$, so that a sample does not depend on its batch.

    Args:
        snr: $\rho$, the size of a Langevin step relative to the noise.
        corrections: Langevin steps per level.
    """

    snr: float = 0.16
    corrections: int = 1

    def advance(self, denoiser: Denoiser, x_t: Tensor, step: Step) -> tuple[Tensor, None]:
        """A predictor step and the corrections."""
        x, _ = Ancestral().advance(denoiser, x_t, step)
        s = step.s
        size, root = fit(x, 2 * (self.snr * s.sigma) ** 2, 2 * self.snr * s.sigma)
        for k in range(self.corrections):
            score = to_score(denoiser(x, s), x, s)
            x = x + size * score + root * step.draw(k + 1)
        return x, None

    def calls(self, steps: int) -> int:
        """One for each prediction, correction and the end."""
        return (steps - 1) * (1 + self.corrections) + 1


@dataclass(frozen=True)
class EulerMaruyama(Sampler):
    r"""The reverse SDE by Euler's rule in log-SNR.

    $$ x_s = x_t + h \left(\tfrac{d\log\alpha}{d\ell} x_t + \sigma_t^2 \nabla\log q(x_t)\right)
       + \sigma_t \sqrt h\, n $$
    """

    def advance(self, denoiser: Denoiser, x_t: Tensor, step: Step) -> tuple[Tensor, None]:
        """One Euler step."""
        t, h = step.t, step.h
        growth, pull, spread = fit(
            x_t, h * denoiser.schedule.growth(t), h * t.sigma**2, h.sqrt() * t.sigma
        )
        score = to_score(denoiser(x_t, t), x_t, t)
        return x_t + growth * x_t + pull * score + spread * step.draw(0), None


@dataclass(frozen=True)
class DDIM(Sampler):
    r"""$x_s = \alpha_s E[x_0] + \sqrt{\sigma_s^2 - v^2}\, E[n] + v n$, $v^2 = \eta^2 \sigma_s^2 (1 - e^{-h})$.

    Args:
        eta: 0 is deterministic; 1 is DDPM with the small variance.
    """  # noqa: E501

    eta: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.eta <= 1:
            raise InputError(f"DDIM needs 0 <= eta <= 1, got {self.eta}")

    def advance(self, denoiser: Denoiser, x_t: Tensor, step: Step) -> tuple[Tensor, None]:
        """One DDIM step."""
        t, s = step.t, step.s
        fresh = -(self.eta**2) * torch.expm1(-step.h)
        alpha, old, new = fit(x_t, s.alpha, s.sigma * (1 - fresh).sqrt(), s.sigma * fresh.sqrt())
        mean = denoiser(x_t, t)
        x_s = alpha * mean + old * to_noise(mean, x_t, t)
        return (x_s + new * step.draw(0) if self.eta else x_s), None


@dataclass(frozen=True)
class DPMSolver(Sampler):
    r"""DPM-Solver++ (2M): exact in the linear part, second order in the mean, one call a step.

    With $m = E[x_0]$ extrapolated from this and the last level, and $\eta$ the churn:

    $$ x_s = \frac{\sigma_s}{\sigma_t} e^{-\eta h/2} x_t + \alpha_s (1 - e^{-(1 + \eta) h/2}) m
       + \sigma_s \sqrt{1 - e^{-\eta h}}\, n $$

    Args:
        churn: How fast noise is renewed: 0 is the ODE, 1 the reverse SDE. The law is the same for
            an exact denoiser; more churn forgets the errors of a learned one sooner, and needs
            more calls.
        published: Extrapolate by half a step, as the published rule does.
    """

    churn: float = 0.0
    published: bool = False

    def __post_init__(self) -> None:
        if not self.churn >= 0:
            raise InputError(f"churn must be >= 0, got {self.churn}")

    def advance(self, denoiser: Denoiser, x_t: Tensor, step: Step) -> tuple[Tensor, Memory]:
        """One multistep update."""
        t, s, h, last = step.t, step.s, step.h, step.memory
        mean = ahead = denoiser(x_t, t)
        if last is not None:
            (slope,) = fit(x_t, self._reach(h) * h / last.h)
            ahead = mean + slope * (mean - last.mean)
        keep, pull, spread = fit(
            x_t,
            s.sigma / t.sigma * torch.exp(-self.churn * h / 2),
            -s.alpha * torch.expm1(-(1 + self.churn) * h / 2),
            s.sigma * (-torch.expm1(-self.churn * h)).sqrt(),
        )
        x_s = keep * x_t + pull * ahead
        return (x_s + spread * step.draw(0) if self.churn else x_s), Memory(mean, h)

    def _reach(self, h: Tensor) -> Tensor:
        r"""How far ahead the mean is extrapolated, in steps: $\frac12$ less a term of order $h$.

        Any such term keeps second order. With this one the leading error of a Gaussian posterior's
        variance vanishes as well, for every variance and churn (docs/decisions/0007).
        """
        if self.published:
            return torch.full_like(h, 0.5)
        curb = (1 + self.churn) / (4 * (2 + self.churn)) * h / 2
        return 0.5 - curb * torch.exp(-(2 + self.churn) / 6 * h)


@dataclass(frozen=True)
class Heun(Sampler):
    r"""The probability flow in $u = x / \alpha$ over $\rho = \sigma / \alpha$ by Heun's rule.

    $du / d\rho = (u - E[x_0]) / \rho$: an Euler step, then the mean of both slopes.
    """

    def advance(self, denoiser: Denoiser, x_t: Tensor, step: Step) -> tuple[Tensor, None]:
        """One Heun step: two calls."""
        t, s = step.t, step.s
        scale, span = fit(x_t, s.alpha / t.alpha, s.sigma - t.sigma * s.alpha / t.alpha)
        here = to_noise(denoiser(x_t, t), x_t, t)
        guess = scale * x_t + span * here
        there = to_noise(denoiser(guess, s), guess, s)
        return scale * x_t + span * (here + there) / 2, None

    def calls(self, steps: int) -> int:
        """Two a step and one for the end."""
        return 2 * steps - 1
