r"""Methods over an unconditional denoiser that solve for the data instead of following a gradient.

Each is pinned by a test to its published update. They are what a user would try otherwise.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from bcdm.diffusion import Denoiser, NoiseLevel, Sampler, Step, to_noise
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods.base import BoundDenoiser, check_batch, solve_seen
from bcdm.operators.iteration import conjugate_gradients
from bcdm.tensors import fit

__all__ = ["DDRM", "MMPS", "DiffPIR", "Renewal", "Restoration"]


# Of MMPS over a learned prior, whose Jacobian is no covariance: more do harm (decision 0046).
LEARNED_ITERATIONS = 2


@dataclass(frozen=True)
class MMPS:
    r"""Moment matching posterior sampling (Rozet et al., 2024).

    $\hat x_0 + V A^\top (\sigma_0^2 I + A V A^\top)^{-1} (y - A \hat x_0)$ with the covariance
    $V = \frac{\sigma^2}{\alpha} \partial \hat x_0 / \partial x_t$ (Tweedie): exact for a Gaussian
    prior. The solve is by conjugate gradients, a product with the network's Jacobian each.

    The Jacobian of a learned network is no covariance: where the curvature
    $d^\top (\sigma_0^2 I + A V A^\top) d$ is below $\sigma_0^2 |d|^2$, which no covariance gives,
    the solve stops. Give it two iterations for a network, and a value range. A prior that clips by
    itself has no gradient there, and its samples are too wide.

    Args:
        prior: An unconditional denoiser.
        iterations: Of conjugate gradients.
        value_range: Means are clipped to it, those of complex images to its upper end in magnitude;
            None leaves them.
    """

    prior: Denoiser
    iterations: int = 5
    value_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise InputError(f"iterations must be >= 1, got {self.iterations}")

    def condition(self, measurement: Measurement) -> BoundDenoiser:
        """Binds measurements."""

        def mean_given_data(x_t: Tensor, level: NoiseLevel) -> Tensor:
            operator = measurement.operator
            (scale,) = fit(x_t, level.sigma**2 / level.alpha)
            with torch.enable_grad():
                x_t = x_t.detach().requires_grad_()
                mean = self.prior(x_t, level)

            def spread(u: Tensor) -> Tensor:
                (product,) = torch.autograd.grad(mean, x_t, u, retain_graph=True)
                return scale * product

            away = measurement.y - operator.forward(mean.detach())
            (variance,) = fit(away, measurement.std**2)
            found = conjugate_gradients(
                lambda v: variance * v + operator.forward(spread(operator.adjoint(v))),
                away,
                iterations=self.iterations,
                least_curvature=measurement.std.to(away.device) ** 2,
            )
            return self._clip(mean.detach() + spread(operator.adjoint(found.x)))

        return BoundDenoiser(self.prior, mean_given_data, measurement)

    def _clip(self, mean: Tensor) -> Tensor:
        if self.value_range is None:
            return mean
        low, high = self.value_range
        if not mean.is_complex():
            return mean.clamp(low, high)
        return mean * (high / mean.abs().clamp_min(high))


@dataclass(frozen=True)
class DiffPIR:
    r"""Denoising diffusion for plug-and-play restoration (Zhu et al., 2023).

    The mean is $\operatorname{argmin}_x |y - A x|^2 + \rho |x - \hat x_0|^2$,
    $\rho = \lambda \sigma_0^2 \alpha^2 / \sigma^2$. Published with the sampler `Renewal`.

    Args:
        prior: An unconditional denoiser.
        weight: $\lambda$, for $\sigma_0$ in the units of the images. The published code states
            $\sigma_0$ for images on [0, 1] but works on [-1, 1]: its 7 is 7 / 4 here.
    """

    prior: Denoiser
    weight: float = 1.75

    def __post_init__(self) -> None:
        if self.weight <= 0:
            raise InputError(f"weight must be > 0, got {self.weight}")

    def condition(self, measurement: Measurement) -> BoundDenoiser:
        """Binds measurements."""

        def mean_given_data(x_t: Tensor, level: NoiseLevel) -> Tensor:
            rho = self.weight * (measurement.std * level.alpha / level.sigma) ** 2
            operator, mean = measurement.operator, self.prior(x_t, level)
            away = measurement.back_projection - operator.gram(mean)
            return mean + solve_seen(operator, rho, torch.ones_like(rho), away)

        return BoundDenoiser(self.prior, mean_given_data, measurement)


@dataclass(frozen=True)
class Renewal(Sampler):
    r"""DiffPIR's step: $x_s = \alpha_s m + \sigma_s (\sqrt{1 - \zeta}\, \hat n + \sqrt\zeta\, n)$.

    Args:
        renewed: $\zeta$, the part of the noise that is drawn anew.
    """

    renewed: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.renewed <= 1:
            raise InputError(f"renewed must lie in [0, 1], got {self.renewed}")

    def advance(self, denoiser: Denoiser, x_t: Tensor, step: Step) -> tuple[Tensor, None]:
        """One step."""
        mean = denoiser(x_t, step.t)
        kept, fresh, after = fit(
            x_t,
            (1 - self.renewed) ** 0.5 * step.s.sigma,
            self.renewed**0.5 * step.s.sigma,
            step.s.alpha,
        )
        return after * mean + kept * to_noise(mean, x_t, step.t) + fresh * step.draw(0), None


@dataclass(frozen=True)
class DDRM:
    """Denoising diffusion restoration (Kawar et al., 2022): means of the prior, by `Restoration`.

    Args:
        prior: An unconditional denoiser.
        eta: Of `Restoration`.
        eta_b: Of `Restoration`.
    """

    prior: Denoiser
    eta: float = 0.85
    eta_b: float = 1.0

    def condition(self, measurement: Measurement) -> "RestoredDenoiser":
        """Binds measurements, to the sampler."""
        sampler = Restoration(measurement, self.eta, self.eta_b)
        return RestoredDenoiser(self.prior, self.prior, measurement, sampler=sampler)


@dataclass(frozen=True)
class RestoredDenoiser(BoundDenoiser):
    """The prior's means, and the only sampler that brings the data in."""

    sampler: "Restoration" = field(kw_only=True)


@dataclass(frozen=True)
class Restoration(Sampler):
    r"""The steps of DDRM.

    In coordinates $x / \alpha$ with noise $\rho = \sigma / \alpha$, along every right singular
    vector of singular value $s$, with $\bar y = A^+ y$ and the prior's mean $m$:

    - $s = 0$: $m + \sqrt{1 - \eta^2}\, \rho_s (x_t - m) / \rho_t + \eta \rho_s n$
    - $\rho_s < \sigma_0 / s$:
      $m + \sqrt{1 - \eta^2}\, \rho_s (\bar y - m) s / \sigma_0 + \eta \rho_s n$
    - else: $(1 - \eta_b) m + \eta_b \bar y + \sqrt{\rho_s^2 - \eta_b^2 \sigma_0^2 / s^2}\, n$

    Args:
        measurement: What the samples are conditioned on.
        eta: $\eta$.
        eta_b: $\eta_b$.
    """

    measurement: Measurement
    eta: float = 0.85
    eta_b: float = 1.0

    def advance(self, denoiser: Denoiser, x_t: Tensor, step: Step) -> tuple[Tensor, None]:
        """One step."""
        t, s, measurement = step.t, step.s, self.measurement
        check_batch(measurement, x_t)
        alpha_t, alpha_s, before, after, std = fit(
            x_t, t.alpha, s.alpha, t.sigma / t.alpha, s.sigma / s.alpha, measurement.std
        )
        keep = (1 - self.eta**2) ** 0.5

        def split(e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            """Singular values, and where they are zero or drown in the noise."""
            root = e.clamp_min(0).sqrt()
            hidden = root <= 1e-4 * root.amax()
            return root, hidden, ~hidden & (after * root < std)

        def on_data(e: Tensor) -> Tensor:
            root, hidden, weak = split(e)
            share = torch.where(weak, keep * after * root / std, torch.full_like(root, self.eta_b))
            return torch.where(hidden, torch.zeros_like(share), share)

        def on_noise(e: Tensor) -> Tensor:
            root, hidden, weak = split(e)
            strong = after**2 - (self.eta_b * std / torch.where(hidden, 1, root)) ** 2
            plain = self.eta * after * torch.ones_like(root)
            return torch.where(hidden | weak, plain, strong.clamp_min(0).sqrt())

        def per_datum(e: Tensor) -> Tensor:
            _, hidden, _ = split(e)
            return on_data(e) / torch.where(hidden, 1, e)

        def on_image(e: Tensor) -> Tensor:
            _, hidden, _ = split(e)
            return torch.where(hidden, keep * after / before, 0 * after)

        apply = measurement.operator.gram_function
        mean = denoiser(x_t, t)
        here = x_t / alpha_t
        u = mean + apply(on_image, here - mean) + apply(on_noise, step.draw(0))
        u = u - apply(on_data, mean)
        u = u + apply(per_datum, measurement.back_projection)
        return alpha_s * u, None
