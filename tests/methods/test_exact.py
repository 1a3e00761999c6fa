"""Closed-form posteriors, by brute force."""

import pytest
import torch
from torch import Tensor

from bcdm.diffusion import VP, DPMSolver, sample
from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.evaluation import sliced_wasserstein
from bcdm.measurement import Measurement
from bcdm.methods import ExactPosterior, GaussianMixture
from bcdm.operators import Dense, FourierMask, PixelMask


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mixture(shared: bool) -> GaussianMixture:
    roots = normal(3, 2, 2, seed=1) / 2
    covariances = roots @ roots.mT + 0.05 * torch.eye(2).double()
    weights = torch.tensor([0.0, 1.0, -0.5]).double()
    return GaussianMixture(weights, normal(3, 2, seed=2), covariances[: 1 if shared else 3])


def density(prior: GaussianMixture, x: Tensor) -> Tensor:
    component = torch.distributions.MultivariateNormal(prior.means, prior.covariances)
    mix = torch.distributions.Categorical(logits=prior.log_weights)
    return torch.distributions.MixtureSameFamily(mix, component).log_prob(x).exp()


@pytest.mark.parametrize("shared", [True, False])
def test_posterior_mean_by_quadrature(shared: bool) -> None:
    """Integrals over a fine grid of the plane: no formula in common with the code."""
    prior = mixture(shared)
    axis = torch.linspace(-6, 6, 601, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    measurement = Measurement(torch.tensor([[0.3]]).double(), Dense(normal(1, 2, seed=3)), 0.4)
    away = measurement.y - measurement.operator.forward(grid)
    weight = density(prior, grid) * torch.exp(-away[:, 0].square() / (2 * 0.4**2))
    expected = (weight[:, None] * grid).sum(0) / weight.sum()
    torch.testing.assert_close(prior.condition(measurement).mean, expected, rtol=1e-6, atol=1e-6)
    # And with a diffused image besides.
    level = VP().level(torch.tensor([0.4]).double())
    x_t = torch.tensor([[0.2, -0.7]]).double()
    both = weight * torch.exp(-(x_t - level.alpha * grid).square().sum(1) / (2 * level.sigma**2))
    expected = (both[:, None] * grid).sum(0) / both.sum()
    got = ExactPosterior(prior, VP()).condition(measurement)(x_t, level)[0]
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shared", [True, False])
def test_samples_have_the_moments(shared: bool) -> None:
    prior = mixture(shared)
    drawn = prior.sample(40000, seed=1)
    torch.testing.assert_close(drawn.mean(0), prior.mean, atol=0.03, rtol=0.0)
    torch.testing.assert_close(drawn.T.cov(), prior.covariance, atol=0.05, rtol=0.0)


def test_points_select_the_nearest() -> None:
    prior = GaussianMixture.points(torch.tensor([[0.0, 0.0], [3.0, 1.0]]).double())
    measurement = Measurement(
        torch.tensor([[2.9, 0.0]]).double(), PixelMask(torch.tensor([True, False])), 0.1
    )
    torch.testing.assert_close(prior.condition(measurement).mean, torch.tensor([3.0, 1.0]).double())


def test_sampled_posterior_is_the_exact_one() -> None:
    """Sliced W1 of 20-call samples to exact ones, against that of exact ones to each other."""
    prior = mixture(False)
    measurement = Measurement(torch.tensor([[0.3]]).double(), Dense(normal(1, 2, seed=3)), 0.4)
    bound = ExactPosterior(prior, VP()).condition(measurement)
    posterior = prior.condition(measurement)
    drawn = sample(bound, DPMSolver(), steps=20, indices=range(4000))
    exact = posterior.sample(8000, seed=1)
    floor = max(sliced_wasserstein(posterior.sample(4000, seed=s), exact) for s in range(2, 8))
    assert sliced_wasserstein(drawn, exact) < 1.5 * floor


def test_real_images_with_complex_data() -> None:
    """Against the stacked real system written out by hand."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand(3, 3, generator=generator) < 0.5
    prior = GaussianMixture.gaussian(normal(9, seed=1), torch.eye(9).double(), (1, 3, 3))
    operator = FourierMask(mask, real=True, centered=False)
    measurement = Measurement.simulate(prior.sample(1, seed=2), operator, 0.2, seed=3)
    line = torch.fft.fft(torch.eye(3).to(torch.complex128), norm="ortho")
    full = torch.kron(line, line)[mask.flatten()]
    A, y = torch.cat([full.real, full.imag]), measurement.y[0, 0][mask]
    y = torch.cat([y.real, y.imag])
    precision = torch.eye(9).double() + A.mT @ A / 0.04
    expected = torch.linalg.solve(precision, prior.mean.flatten() + A.mT @ y / 0.04)
    torch.testing.assert_close(prior.condition(measurement).mean.flatten(), expected)


def test_one_measurement_at_a_time() -> None:
    with pytest.raises(ShapeError, match="one measurement"):
        mixture(True).condition(
            Measurement(torch.zeros(2, 1).double(), Dense(torch.ones(1, 2).double()), 0.1)
        )


@pytest.mark.parametrize(
    ("weights", "means", "covariances", "shape"),
    [
        (2, (3, 4), (3, 4, 4), None),
        (3, (3, 4), (3, 4, 4), (1, 5)),
        (3, (3, 4), (2, 4, 4), None),
        (3, (3, 4), (3, 4, 5), None),
        (3, (3, 4), (3, 5, 5), None),
    ],
)
def test_parts_that_do_not_fit_are_refused(weights, means, covariances, shape) -> None:
    with pytest.raises(ShapeError, match=r"do not fit|must be"):
        GaussianMixture(torch.zeros(weights), torch.zeros(means), torch.zeros(covariances), shape)


def test_what_a_prior_is_over_is_checked() -> None:
    with pytest.raises(DtypeError, match="real images"):
        GaussianMixture.points(torch.zeros(2, 3, dtype=torch.complex64))
    flat = Measurement(torch.zeros(1, 3).double(), PixelMask(torch.ones(3) > 0), 0.1)
    with pytest.raises(InputError, match=r"over images \(2,\), the measurement gives \(3,\)"):
        ExactPosterior(mixture(True), VP()).condition(flat)
    prior = GaussianMixture.points(torch.zeros(2, 6).double(), (1, 2, 3))
    assert prior.image.shape == prior.mean.shape == (1, 2, 3)
    assert GaussianMixture.points(torch.zeros(2, 6)).image.shape == (6,)


def test_posterior_covariance_and_weights_by_quadrature() -> None:
    """The second moments too, and those of what is not normalised."""
    prior = mixture(False)
    axis = torch.linspace(-6, 6, 601, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    measurement = Measurement(torch.tensor([[0.3]]).double(), Dense(normal(1, 2, seed=3)), 0.4)
    away = measurement.y - measurement.operator.forward(grid)
    weight = density(prior, grid) * torch.exp(-away[:, 0].square() / (2 * 0.4**2))
    weight = weight / weight.sum()
    centred = grid - weight @ grid
    expected = centred.mT @ (weight[:, None] * centred)
    torch.testing.assert_close(
        prior.condition(measurement).covariance, expected, rtol=1e-5, atol=1e-6
    )
    assert float(prior.log_weights.exp().sum()) == pytest.approx(1)


def test_exact_samples_are_a_function_of_their_seed() -> None:
    one, same, other = (mixture(False).sample(5, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    unit = GaussianMixture.gaussian(torch.zeros(3).double(), torch.eye(3).double())
    drawn = unit.sample(5, seed=1)
    # In the precision of the prior.
    assert drawn.dtype == torch.float64
    assert not torch.equal(drawn, drawn.float().double())
