"""Rounding where nothing is measured does not grow, however small the noise."""

import pytest
import torch
from torch import Tensor

from bcdm.diffusion import VP
from bcdm.measurement import Measurement
from bcdm.methods import DMPS, DiffPIR, ExactDenoiser, GaussianMixture, PiGDM
from bcdm.operators import Dense, FourierMask, LinearOperator, MatrixFree, PixelMask

SHAPE = (1, 16, 16)
COUNT = 256


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def prior(dtype: torch.dtype) -> ExactDenoiser:
    covariance = 0.1 * torch.eye(COUNT, dtype=dtype) + 0.15
    return ExactDenoiser(
        GaussianMixture.gaussian(torch.zeros(COUNT, dtype=dtype), covariance, SHAPE), VP()
    )


SHOWN = draw(16, 16, seed=1) > 0.5
OPERATORS = {
    "Fourier": FourierMask(SHOWN, real=True),
    "dense": Dense(draw(80, COUNT, seed=2) / 16, SHAPE),
}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
@pytest.mark.parametrize("method", [DMPS, DiffPIR, PiGDM])
def test_means_in_float32_are_those_in_float64(
    method: type[DMPS | DiffPIR | PiGDM], operator: LinearOperator
) -> None:
    exact = Measurement.simulate(prior(torch.float64).prior.sample(1, 0), operator, 0.005, seed=1)
    data = exact.y.to(torch.complex64 if exact.y.is_complex() else torch.float32)
    rounded = Measurement(data, operator.to(torch.float32), 0.005)
    for log_snr in (-9.0, -5.0, 0.0, 5.0):
        level = VP().level(torch.tensor([log_snr], dtype=torch.float64))
        x_t = draw(1, *SHAPE, seed=3)
        mean = method(prior(torch.float64)).condition(exact)(x_t, level)
        found = method(prior(torch.float32)).condition(rounded)(x_t.float(), level)
        # DMPS divides by alpha at high noise: errors are judged beside the means.
        assert (found - mean).norm() <= 1e-4 * mean.norm()


def test_where_nothing_is_measured_an_iterative_operator_leaves_the_prior() -> None:
    shown = SHOWN.float()
    masked = MatrixFree(lambda x: x * shown, lambda y: y * shown, shape=SHAPE)
    truth = prior(torch.float32).prior.sample(1, 0)
    data = Measurement.simulate(truth, PixelMask(SHOWN), 0.02, seed=1).y
    level = VP().level(torch.tensor([-6.0], dtype=torch.float64))
    x_t = level.alpha.float() * truth + level.sigma.float() * draw(1, *SHAPE, seed=4).float()
    prior_mean = prior(torch.float32)(x_t, level)
    mean = DiffPIR(prior(torch.float32)).condition(Measurement(data, masked, 0.02))(x_t, level)
    torch.testing.assert_close(mean[..., ~SHOWN], prior_mean[..., ~SHOWN], rtol=0, atol=1e-4)
