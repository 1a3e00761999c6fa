"""The control of every table: our method with a network of zeros, so with nothing learned."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bcdm.diffusion import VP, Schedule
from bcdm.measurement import NEGLIGIBLE, Measurement
from bcdm.methods.bayesian import Bayesian, BayesianDenoiser
from bcdm.methods.outputs import Projection
from bcdm.methods.parameterisation import Parameterisation
from bcdm.methods.view import Scales
from bcdm.tensors import ImageSpec, SeededNoise, fit

__all__ = ["CONTROL", "LinearGaussian"]

CONTROL = "linear Gaussian posterior"
"""What tables and records call it."""


class _Zeros(nn.Module):
    """Gives zero, so that only the linear estimate is left."""

    def forward(
        self, x: Tensor, log_snr: Tensor, project: Projection, extra: Tensor | None = None
    ) -> Tensor:
        """As `UnrolledNetwork` with one iteration."""
        return project(0 * x)


@dataclass(frozen=True)
class LinearGaussian:
    """The posterior of the Gaussian prior that linear estimates are made with.

    A trained network must be better than this to have learned anything. Coverage and chi-square of
    it are nearly right, too: they say little about learning. The CRPS does.

    Args:
        scales: That prior; `Model.scales` is a model's.
        schedule: Of its denoiser.
    """

    scales: Scales
    schedule: Schedule = VP()  # noqa: RUF009

    def condition(self, measurement: Measurement) -> BayesianDenoiser:
        r"""$E[x_0 \mid x_t, y]$, for any sampler."""
        settings = Parameterisation(
            prior_std=self.scales.prior_std, known_std=self.scales.known_std
        )
        return Bayesian(_Zeros(), self.schedule, settings).condition(measurement)

    @torch.no_grad()
    def draw(self, measurement: Measurement, noise: SeededNoise) -> Tensor:
        r"""Exact samples, one of each measurement, by one solve and without a sampler.

        With $x$ of the prior and $y' = A x + \sigma_0 n$, the sum of $x$ and the Wiener estimate of
        $y - y'$ is a sample of the posterior given $y$.

        Args:
            measurement: Data of B images.
            noise: Of B samples.
        """
        operator, y = measurement.operator, measurement.y
        x = self._draw_prior(measurement, noise.normal(measurement.image, step=0))
        (std,) = fit(y, measurement.std)
        again = operator.forward(x) + std * noise.normal(ImageSpec.of(y), step=1)
        away = Measurement(y - again, operator, measurement.std)
        return x + self.scales.estimate_linearly(away)

    def draw_many(
        self, measurement: Measurement, names: Sequence[str], count: int, seed: int
    ) -> Tensor:
        """Exact samples (count, B, ...): `count` of each measurement, which has a name."""
        noises = [SeededNoise(seed, [k] * len(names), names) for k in range(count)]
        return torch.stack([self.draw(measurement, noise) for noise in noises])

    def _draw_prior(self, measurement: Measurement, n: Tensor) -> Tensor:
        r"""$s(A^\top A) n$; see `Measurement.estimate_linearly`."""
        s, share = self.scales.prior_std, (self.scales.known_std / self.scales.prior_std) ** 2
        if not share:
            return s * n
        (doubt,) = fit(n, (measurement.std / s) ** 2)
        enough = NEGLIGIBLE * measurement.std / s
        return s * measurement.operator.approximate(
            lambda a: (1 + share * a / (a + doubt)).sqrt(), n, enough
        )
