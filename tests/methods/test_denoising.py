"""An unconditional VE model in closed form, against Gaussian algebra written out here."""

import pytest
import torch
from torch import Tensor

from bcdm.diffusion import VE, VP, NoiseLevel, Schedule
from bcdm.measurement import Measurement
from bcdm.methods import Denoising, ExactDenoiser, GaussianMixture
from bcdm.operators import Identity

SHAPE = (1, 2, 4)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


MEAN = normal(8, seed=1)
ROOT = normal(8, 8, seed=2) / 3
COVARIANCE = ROOT @ ROOT.mT + 0.05 * torch.eye(8).double()


def add_precisions(x_t: Tensor, y: Tensor, level: NoiseLevel, std: float) -> tuple[Tensor, Tensor]:
    """Mean (B, 8) and covariance (8, 8) of x_0 given x_t and y: precisions add."""
    alpha, sigma = level
    prior, eye = torch.linalg.inv(COVARIANCE), torch.eye(8).double()
    covariance = torch.linalg.inv(prior + (alpha / sigma) ** 2 * eye + eye / std**2)
    pull = prior @ MEAN + alpha / sigma**2 * x_t.flatten(1) + y.flatten(1) / std**2
    return pull @ covariance, covariance


@pytest.mark.parametrize("noise_std", [0.02, 0.5, 3.0])
@pytest.mark.parametrize("sigma", [0.003, 0.1, 0.5, 4.0, 90.0])
@pytest.mark.parametrize("schedule", [VE(), VP()], ids=["VE", "VP"])
def test_mean_and_covariance_are_the_posterior(
    schedule: Schedule, sigma: float, noise_std: float
) -> None:
    r"""The covariance is $\frac{\sigma^2}{\alpha}$ times the Jacobian of the mean (Tweedie)."""
    prior = GaussianMixture.gaussian(MEAN, COVARIANCE, SHAPE)
    measurement = Measurement.simulate(prior.sample(1, seed=3), Identity(), noise_std, seed=4)
    denoiser = Denoising(ExactDenoiser(prior, schedule)).condition(measurement)
    level = schedule.level(-2 * torch.tensor([sigma]).double().log())
    # Where such a chain is, and far from there.
    x_0 = prior.sample(2, seed=5)
    x_t = level.alpha * x_0 + level.sigma * normal(2, *SHAPE, seed=6)
    x_t = torch.cat([x_t, x_t + 3])
    mean, covariance = add_precisions(x_t, measurement.y, level, noise_std)
    assert float((denoiser(x_t, level).flatten(1) - mean).norm() / mean.norm()) < 1e-6
    jacobian = torch.autograd.functional.jacobian(
        lambda x: denoiser(x.reshape(1, *SHAPE), level).flatten(), x_t[0].flatten()
    )
    found = level.sigma**2 / level.alpha * jacobian
    assert float((found - covariance).norm() / covariance.norm()) < 1e-6
