r"""Guided methods: an unconditional denoiser, moved by an approximate likelihood score.

$\nabla\log q(x_t \mid y) \approx \nabla\log q(x_t) + g$ is, by Tweedie, the denoiser
$E[x_0 \mid x_t] + \frac{\sigma^2}{\alpha} g$. So every sampler serves every method here.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bcdm.diffusion import Denoiser, NoiseLevel
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods.base import BoundDenoiser, solve_seen
from bcdm.tensors import fit, inner

__all__ = ["DMPS", "DPS", "PiGDM", "PostConditioned"]

Likelihood = Callable[[Tensor, NoiseLevel], tuple[Tensor, Tensor]]
"""Maps (x_t, level) to the prior's mean and the approximate score of y given x_t."""


def _guide(prior: Denoiser, measurement: Measurement, likelihood: Likelihood) -> BoundDenoiser:
    r"""The denoiser $E[x_0 \mid x_t] + \frac{\sigma^2}{\alpha} g$."""

    def guided_mean(x_t: Tensor, level: NoiseLevel) -> Tensor:
        mean, score = likelihood(x_t, level)
        (scale,) = fit(x_t, level.sigma**2 / level.alpha)
        return mean + scale * score

    return BoundDenoiser(prior, guided_mean, measurement)


def _check_weight(weight: float) -> None:
    if weight < 0:
        raise InputError(f"a guidance weight is >= 0, got {weight}")


@dataclass(frozen=True)
class PostConditioned:
    r"""The paper's post-conditioned score (Eq. 6): $g = -\frac{1}{\sigma_0^2} A^\top (A x_t - y)$.

    It takes the likelihood of the clean image at the diffused one.
    """

    prior: Denoiser

    def condition(self, measurement: Measurement) -> BoundDenoiser:
        """Binds measurements."""

        def likelihood(x_t: Tensor, level: NoiseLevel) -> tuple[Tensor, Tensor]:
            (precision,) = fit(x_t, measurement.std**-2)
            away = measurement.back_projection - measurement.operator.gram(x_t)
            return self.prior(x_t, level), precision * away

        return _guide(self.prior, measurement, likelihood)


@dataclass(frozen=True)
class DPS:
    r"""Diffusion posterior sampling (Chung et al., 2023).

    Published: after an unconditional ancestral step, subtract
    $\frac{\zeta}{|y - A \hat x_0|} \nabla_{x_t} |y - A \hat x_0|^2$, for 1000 steps. An ancestral
    step turns a score $g$ into $\frac{\tau^2}{r} g$, so the same push is
    $g = -\frac{r}{\tau^2} \frac{\zeta}{|\cdot|} \nabla |\cdot|^2$, with $r$ and $\tau$ of a step of
    1/`steps` of the schedule's time: identical with 1000 ancestral steps, and defined for any other
    sampler and number of steps.

    Args:
        prior: An unconditional denoiser.
        weight: $\zeta$.
        steps: The number of steps that `weight` refers to.
    """

    prior: Denoiser
    weight: float = 1.0
    steps: int = 1000

    def __post_init__(self) -> None:
        _check_weight(self.weight)

    def condition(self, measurement: Measurement) -> BoundDenoiser:
        """Binds measurements."""
        return _guide(
            self.prior, measurement, lambda x, level: self._likelihood(measurement, x, level)
        )

    def _likelihood(
        self, measurement: Measurement, x_t: Tensor, level: NoiseLevel
    ) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            x_t = x_t.detach().requires_grad_()
            mean = self.prior(x_t, level)
            away = measurement.y - measurement.operator.forward(mean)
            squared = inner(away, away)
            (gradient,) = torch.autograd.grad(squared.sum(), x_t)
        (push,) = fit(x_t, self.weight * self._per_score(level))
        (size,) = fit(x_t, squared.detach().sqrt())
        return mean.detach(), -push * gradient / size

    def _per_score(self, level: NoiseLevel) -> Tensor:
        """The factor r / tau^2 of the reference step that ends below this level."""
        schedule = self.prior.schedule
        before = schedule.time(level.log_snr) - 1 / self.steps
        earlier = schedule.level(schedule.log_snr(before.clamp_min(1e-9)))
        # The first step ends at the clean image: time 0, or what a table has no earlier entry for.
        last = (before < 1e-9) | (earlier.log_snr <= level.log_snr)
        r = torch.where(last, level.alpha, level.alpha / earlier.alpha)
        fresh = -torch.expm1(level.log_snr - earlier.log_snr)
        variance = level.sigma**2 * torch.where(last, 1, fresh)
        return r / variance


@dataclass(frozen=True)
class DMPS:
    r"""Diffusion model based posterior sampling (Meng and Kabashima, 2022).

    $g = \frac1\alpha A^\top (\sigma_0^2 I + \frac{\sigma^2}{\alpha^2} A A^\top)^{-1}
    (y - \frac1\alpha A x_t)$, the likelihood under an uninformative prior.

    Args:
        prior: An unconditional denoiser.
        weight: The published scale of the guidance.
    """

    prior: Denoiser
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_weight(self.weight)

    def condition(self, measurement: Measurement) -> BoundDenoiser:
        """Binds measurements."""

        def likelihood(x_t: Tensor, level: NoiseLevel) -> tuple[Tensor, Tensor]:
            alpha, scale = fit(x_t, level.alpha, self.weight / level.alpha)
            operator = measurement.operator
            # A^T (a + b A A^T)^-1 = (a + b A^T A)^-1 A^T: the image-side solve serves.
            away = measurement.back_projection - operator.gram(x_t) / alpha
            spread = (level.sigma / level.alpha) ** 2
            pulled = solve_seen(operator, measurement.std**2, spread, away)
            return self.prior(x_t, level), scale * pulled

        return _guide(self.prior, measurement, likelihood)


@dataclass(frozen=True)
class PiGDM:
    r"""Pseudoinverse-guided diffusion (Song et al., 2023).

    $g = J^\top A^\top (r^2 A A^\top + \sigma_0^2 I)^{-1} (y - A \hat x_0)$, with
    $J = \partial \hat x_0 / \partial x_t$ and $r^2 = \sigma^2 / (\alpha^2 + \sigma^2)$, the
    variance of $x_0$ given $x_t$ under a prior of unit variance.

    Args:
        prior: An unconditional denoiser.
        weight: The scale of the guidance; 1 is the derivation's.
    """

    prior: Denoiser
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_weight(self.weight)

    def condition(self, measurement: Measurement) -> BoundDenoiser:
        """Binds measurements."""

        def likelihood(x_t: Tensor, level: NoiseLevel) -> tuple[Tensor, Tensor]:
            operator = measurement.operator
            with torch.enable_grad():
                x_t = x_t.detach().requires_grad_()
                mean = self.prior(x_t, level)
                away = measurement.back_projection - operator.gram(mean.detach())
                spread = level.sigma**2 / (level.alpha**2 + level.sigma**2)
                pulled = solve_seen(operator, measurement.std**2, spread, away)
                (score,) = torch.autograd.grad(mean, x_t, pulled)
            return mean.detach(), self.weight * score

        return _guide(self.prior, measurement, likelihood)
