"""The posterior of several coils is exact, although the scale of the output is a stand-in's."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from bcdm.conditioning import Conditioning
from bcdm.diffusion import VP, DPMSolver, sample
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian, ExactPosterior, GaussianMixture, Parameterisation
from bcdm.operators import Dense, Sense

SIZE, STD = (4, 6), 0.6
COUNT = 2 * SIZE[0] * SIZE[1]  # real numbers of an image


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.complex128) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def to_real(x: Tensor) -> Tensor:
    """Complex images (B, 1, H, W) as vectors (B, n)."""
    return torch.view_as_real(x).flatten(1)


def to_complex(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.reshape(-1, 1, *SIZE, 2).contiguous())


def make_operator(tolerance: float = 1e-6) -> Sense:
    mask = torch.rand(SIZE, generator=torch.Generator().manual_seed(1)) < 0.5
    maps = normal(3, *SIZE, seed=2)
    return Sense(maps / maps.abs().square().sum(0).sqrt(), mask, tolerance=tolerance)


def to_dense(operator: Sense) -> Dense:
    """The same on vectors of real numbers, data that are not measured left out."""
    units = torch.eye(COUNT, dtype=torch.float64)
    columns = torch.view_as_real(operator.forward(to_complex(units))).flatten(1).mT
    return Dense(columns[columns.abs().amax(1) > 0])


def make_prior(kind: str) -> GaussianMixture:
    """Correlated and far from white; the mixture has two modes that the data do not tell apart."""
    places = torch.arange(COUNT, dtype=torch.float64) // 2
    covariance = 0.3 * torch.exp(-(places[:, None] - places[None]).abs() / 4)
    covariance = covariance + 1e-3 * torch.eye(COUNT, dtype=torch.float64)
    if kind == "gaussian":
        return GaussianMixture.gaussian(torch.zeros(COUNT).double(), covariance)
    means = normal(2, COUNT, seed=5, dtype=torch.float64)
    return GaussianMixture(torch.zeros(2).double(), means, 0.1 * covariance[None])


def simulate(prior: GaussianMixture, operator: Sense) -> tuple[Measurement, Measurement]:
    """One measurement of complex images, and the same of vectors."""
    measured = Measurement.simulate(to_complex(prior.sample(1, seed=3)), operator, 0.1, seed=4)
    dense = to_dense(operator)
    taken = operator.find_data(measured.y).expand_as(measured.y)
    y = torch.view_as_real(measured.y[taken]).flatten()
    return measured, Measurement(y[None], dense, 0.1)


class Ideal(nn.Module):
    """The best network there is: it sees the statistic alone, and knows the prior."""

    def __init__(self, prior: GaussianMixture, operator: Sense) -> None:
        super().__init__()
        self.prior, self.operator = prior, operator
        units = torch.eye(COUNT, dtype=torch.float64)
        self.gram = to_real(operator.gram(to_complex(units)))

    def forward(self, seen: Tensor, log_snr: Tensor, project) -> Tensor:
        level = VP().level(log_snr.double()[:1])
        alpha, sigma = (float(part) for part in level)
        eye = torch.eye(COUNT, dtype=torch.float64)
        system = alpha**2 * eye + (sigma / 0.1) ** 2 * self.gram
        wiener = torch.linalg.inv(system + (sigma / STD) ** 2 * eye)
        # w = W (M x_0 + sigma M^(1/2) n); for a Gaussian prior its mean of x_0 is linear in w.
        (cov,) = self.prior.covariances
        signal = wiener @ system
        noise = sigma**2 * wiener @ system @ wiener
        gain = cov @ signal.mT @ torch.linalg.inv(signal @ cov @ signal.mT + noise)
        wanted = STD * to_real(seen) @ gain.mT
        # What the output must be for the projection to give it.
        zero = to_real(project(torch.zeros_like(seen)))
        scale = self.measure_scale(alpha, sigma)
        output = torch.linalg.solve(scale.mT, (wanted / STD - zero).mT).mT
        return project(to_complex(output))

    def measure_scale(self, alpha: float, sigma: float) -> Tensor:
        """C of what stands in for the operator, in units of the prior's standard deviation."""

        def scale(a: Tensor) -> Tensor:
            precision = alpha**2 + (sigma / STD) ** 2 + (sigma / 0.1) ** 2 * a
            return sigma / STD * precision.rsqrt()

        units = to_complex(torch.eye(COUNT, dtype=torch.float64))
        return to_real(self.operator.stand_in.gram_function(scale, units))


def test_moments_through_the_whole_sampler() -> None:
    """3000 samples of 50 calls: the standard error of a mean variance is far below a per cent."""
    prior, operator = make_prior("gaussian"), make_operator()
    measurement, dense = simulate(prior, operator)
    exact = prior.condition(dense)
    method = Bayesian(Ideal(prior, operator), VP(), Parameterisation(prior_std=STD))
    drawn = to_real(
        sample(method.condition(measurement), DPMSolver(), steps=50, indices=range(3000))
    )
    values, vectors = torch.linalg.eigh(exact.covariance)
    away = (drawn - exact.mean) @ vectors
    ratios = away.var(0) / values
    assert float(ratios.mean()) == pytest.approx(1, abs=0.02)
    assert float(ratios.min()) > 0.85
    assert float(ratios.max()) < 1.15
    # Of n numbers of unit variance, averaged over 3000: their mean square is 1 / 3000.
    assert float((away.mean(0).square() / values).mean()) < 3 / 3000


@pytest.mark.parametrize("kind", ["gaussian", "mixture"])
@pytest.mark.parametrize("log_snr", [-6.0, -1.0, 1.0, 4.0, 8.0])
def test_the_statistic_holds_all_that_both_say(kind: str, log_snr: float) -> None:
    """E[x_0 | w] is E[x_0 | x_t, y]: to rounding by an exact solve, unseen by an adaptive one."""
    prior = make_prior(kind)
    level = VP().level(torch.tensor([log_snr], dtype=torch.float64))
    alpha, sigma = (float(part) for part in level)
    truth = prior.sample(1, seed=3)
    x_t = alpha * truth + sigma * normal(1, COUNT, seed=6, dtype=torch.float64)
    errors = []
    for adaptive in (False, True):
        strict = make_operator(1e-12)
        operator = Sense(strict.maps, strict.mask, tolerance=1e-12, adaptive=adaptive)
        measurement, dense = simulate(prior, operator)
        exact = ExactPosterior(prior, VP()).condition(dense)(x_t, level)
        w = to_real(Conditioning(measurement, level).wiener_statistic(to_complex(x_t), STD))
        units = torch.eye(COUNT, dtype=torch.float64)
        gram = to_real(operator.gram(to_complex(units)))
        system = alpha**2 * units + (sigma / 0.1) ** 2 * gram
        wiener = torch.linalg.inv(system + (sigma / STD) ** 2 * units)
        noise = sigma**2 * wiener @ system @ wiener
        seen = Measurement.with_covariance(
            w, Dense(wiener @ system), covariance=(noise + noise.mT) / 2
        )
        found = prior.condition(seen)
        spread = prior.condition(dense).covariance.diagonal().mean().sqrt()
        errors.append(float((found.mean - exact).square().mean().sqrt() / spread))
    assert errors[0] < 1e-5
    assert errors[1] < 0.01


@pytest.mark.parametrize("log_snr", [-9.0, -1.0, 4.0, 9.0])
def test_where_a_solve_starts_changes_nothing(log_snr: float) -> None:
    """From the truth, as in training, and from far away: within a hundredth of what is left."""
    operator = make_operator(1e-12)
    truth = to_complex(make_prior("mixture").sample(1, seed=3))
    measurement = Measurement.simulate(truth, operator, 0.02, seed=4)
    level = VP().level(torch.tensor([log_snr], dtype=torch.float64))
    alpha, sigma = (float(part) for part in level)
    x_t = alpha * truth + sigma * normal(1, 1, *SIZE, seed=6)
    strict = replace(operator, adaptive=False)
    exact = Conditioning(Measurement(measurement.y, strict, 0.02), level).wiener_statistic(x_t, STD)
    left = sigma / (alpha**2 + (sigma / STD) ** 2) ** 0.5
    for near in (truth, 5 * normal(1, 1, *SIZE, seed=8)):
        found = Conditioning(measurement, level, near=near).wiener_statistic(x_t, STD)
        assert float((found - exact).abs().square().mean().sqrt()) < 0.02 * left
