"""A method and a sampler of our own."""

from dataclasses import dataclass

from torch import Tensor

from bcdm import Measurement
from bcdm.diffusion import Denoiser, NoiseLevel, Sampler, Schedule, Step
from bcdm.tensors import ImageSpec, fit


@dataclass(frozen=True)
class Pulled:
    """The prior's mean, pulled to the data as if its pixels were independent given x_t."""

    prior: Denoiser
    weight: float = 1.0

    def condition(self, measurement: Measurement) -> "Bound":
        return Bound(self, measurement)


@dataclass(frozen=True)
class Bound:
    method: Pulled
    measurement: Measurement

    @property
    def schedule(self) -> Schedule:
        return self.method.prior.schedule

    @property
    def image(self) -> ImageSpec:
        return self.method.prior.image

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        mean, (alpha, sigma) = self.method.prior(x_t, level), level
        doubt = self.method.weight * sigma**2 / (alpha**2 + sigma**2)
        operator = self.measurement.operator
        away = self.measurement.back_projection - operator.gram(mean)
        (scale,) = fit(x_t, doubt)
        return mean + scale * operator.solve(self.measurement.std**2, doubt, away)


@dataclass(frozen=True)
class Plain(Sampler):
    """The deterministic step that keeps the noise it sees."""

    def advance(self, denoiser: Denoiser, x_t: Tensor, step: Step) -> tuple[Tensor, None]:
        mean = denoiser(x_t, step.t)
        here, there, ratio = fit(x_t, step.t.alpha, step.s.alpha, step.s.sigma / step.t.sigma)
        return there * mean + ratio * (x_t - here * mean), None
