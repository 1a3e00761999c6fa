"""Guided methods, each pinned to its published update."""

import pytest
import torch
from torch import Tensor

from bcdm.diffusion import VE, VP, Ancestral, DPMSolver, Schedule, Step, Tabled, sample, to_score
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import DMPS, DPS, ExactDenoiser, GaussianMixture, PiGDM, PostConditioned
from bcdm.operators import BlockMean, Dense, LinearOperator, to_matrix

SHAPE = (1, 2, 4)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def prior() -> GaussianMixture:
    roots = normal(2, 8, 8, seed=1) / 4
    covariances = roots @ roots.mT + 0.1 * torch.eye(8).double()
    return GaussianMixture(torch.zeros(2).double(), normal(2, 8, seed=2), covariances, SHAPE)


SCHEDULES = pytest.mark.parametrize("schedule", [VP(), VE()], ids=["VP", "VE"])
OPERATORS = pytest.mark.parametrize(
    "operator", [Dense(normal(3, 8, seed=3), SHAPE), BlockMean((2, 2))], ids=["dense", "block"]
)


def problem(operator: LinearOperator, schedule: Schedule) -> tuple[ExactDenoiser, Measurement]:
    denoiser = ExactDenoiser(prior(), schedule)
    return denoiser, Measurement.simulate(prior().sample(1, seed=4), operator, 0.2, seed=5)


@SCHEDULES
@OPERATORS
def test_dps_is_the_published_update(operator: LinearOperator, schedule: Schedule) -> None:
    """An unconditional ancestral step, then minus zeta / |r| times the gradient of |r|^2."""
    denoiser, measurement = problem(operator, schedule)
    guided = DPS(denoiser, weight=0.7).condition(measurement)
    grid = schedule.time_grid(1000)
    noise = normal(2, *SHAPE, seed=7)
    for k in (0, 300, 998):
        t, s = (schedule.level(grid[i : i + 1]) for i in (k, k + 1))
        x = t.alpha * prior().sample(2, seed=6) + t.sigma * normal(2, *SHAPE, seed=8)
        x = x.requires_grad_()
        plain, _ = Ancestral().advance(denoiser, x, Step(t, s, lambda _: noise))
        away = measurement.y - operator.forward(denoiser(x, t))
        norm = away.flatten(1).norm(dim=1)
        (gradient,) = torch.autograd.grad(norm.square().sum(), x)
        published = plain - 0.7 / norm.reshape(2, 1, 1, 1) * gradient
        got, _ = Ancestral().advance(guided, x.detach(), Step(t, s, lambda _: noise))
        torch.testing.assert_close(got, published, rtol=1e-8, atol=1e-8)


def test_dps_at_the_last_step_of_the_table() -> None:
    """The step to the clean image is the mean, minus the same push."""
    schedule = VP()
    denoiser, measurement = problem(BlockMean((2, 2)), schedule)
    t = schedule.level(schedule.time_grid(1000)[-1:])
    x = normal(1, *SHAPE, seed=1).requires_grad_()
    mean = denoiser(x, t)
    norm = (measurement.y - measurement.operator.forward(mean)).norm()
    (gradient,) = torch.autograd.grad(norm.square(), x)
    got = DPS(denoiser, weight=0.7).condition(measurement)(x.detach(), t)
    torch.testing.assert_close(got, mean.detach() - 0.7 / norm * gradient, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("count", [100, 999, 1000, 4000])
def test_dps_is_finite_over_a_table_of_any_length(count: int) -> None:
    abar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, count).double() * 1000 / count, 0)
    denoiser, measurement = problem(BlockMean((2, 2)), Tabled(abar))
    drawn = sample(DPS(denoiser, weight=0.3).condition(measurement), steps=20, progress=False)
    assert drawn.isfinite().all()


@SCHEDULES
@OPERATORS
def test_dmps_is_the_published_score(operator: LinearOperator, schedule: Schedule) -> None:
    denoiser, measurement = problem(operator, schedule)
    guided = DMPS(denoiser, weight=1.75).condition(measurement)
    A = to_matrix(operator, SHAPE, torch.float64)
    for log_snr in (-6.0, 0.0, 5.0):
        t = schedule.level(torch.tensor([log_snr]).double())
        x = normal(2, *SHAPE, seed=1)
        noise = 0.2**2 * torch.eye(len(A)).double() + (t.sigma / t.alpha) ** 2 * (A @ A.mT)
        away = measurement.y.flatten() - x.flatten(1) @ A.mT / t.alpha
        likelihood = torch.linalg.solve(noise, away.mT).mT @ A / t.alpha
        expected = to_score(denoiser(x, t), x, t).flatten(1) + 1.75 * likelihood
        got = to_score(guided(x, t), x, t).flatten(1)
        torch.testing.assert_close(got, expected, rtol=1e-8, atol=1e-8)


@SCHEDULES
@OPERATORS
def test_pigdm_is_the_published_score(operator: LinearOperator, schedule: Schedule) -> None:
    denoiser, measurement = problem(operator, schedule)
    guided = PiGDM(denoiser).condition(measurement)
    A = to_matrix(operator, SHAPE, torch.float64)
    for log_snr in (-6.0, 0.0, 5.0):
        t = schedule.level(torch.tensor([log_snr]).double())
        x = normal(1, *SHAPE, seed=1)
        jacobian = torch.autograd.functional.jacobian(lambda z, t=t: denoiser(z, t), x)
        jacobian = jacobian.reshape(8, 8)
        # Published: r^2 = sigma^2 / (1 + sigma^2) for VE, which is 1 - abar in VP's variables.
        spread = t.sigma**2 / (t.alpha**2 + t.sigma**2)
        noise = spread * A @ A.mT + 0.2**2 * torch.eye(len(A)).double()
        away = measurement.y.flatten() - A @ denoiser(x, t).flatten()
        likelihood = jacobian.mT @ A.mT @ torch.linalg.solve(noise, away)
        expected = to_score(denoiser(x, t), x, t).flatten() + likelihood
        torch.testing.assert_close(to_score(guided(x, t), x, t).flatten(), expected)


@OPERATORS
def test_post_conditioned_is_equation_6(operator: LinearOperator) -> None:
    denoiser, measurement = problem(operator, VP())
    t = VP().level(torch.tensor([0.3]).double())
    x = normal(2, *SHAPE, seed=1)
    A = to_matrix(operator, SHAPE, torch.float64)
    away = x.flatten(1) @ A.mT - measurement.y.flatten()
    expected = to_score(denoiser(x, t), x, t).flatten(1) - away @ A / 0.2**2
    got = PostConditioned(denoiser).condition(measurement)(x, t)
    torch.testing.assert_close(to_score(got, x, t).flatten(1), expected)


def test_every_sampler_serves_a_guided_method_and_no_gradient_leaks() -> None:
    denoiser, measurement = problem(BlockMean((2, 2)), VP())
    drawn = sample(PiGDM(denoiser).condition(measurement), DPMSolver(), indices=range(3))
    assert drawn.shape == (3, *SHAPE)
    assert not drawn.requires_grad


@pytest.mark.parametrize("method", [DPS, DMPS, PiGDM])
def test_the_image_that_is_given_stays_as_it_is(method: type[DPS | DMPS | PiGDM]) -> None:
    denoiser, measurement = problem(BlockMean((2, 2)), VP())
    x = normal(2, *SHAPE, seed=6)
    mean = method(denoiser).condition(measurement)(x, VP().level(torch.zeros(1).double()))
    assert not mean.requires_grad
    assert not x.requires_grad
    assert torch.equal(x, normal(2, *SHAPE, seed=6))


def test_pigdm_is_exact_for_a_unit_gaussian() -> None:
    """Under N(0, I) its approximation is the truth: the one prior where guidance is Bayes."""
    unit = GaussianMixture.gaussian(torch.zeros(8).double(), torch.eye(8).double(), SHAPE)
    denoiser = ExactDenoiser(unit, VP())
    operator = Dense(normal(3, 8, seed=3), SHAPE)
    measurement = Measurement.simulate(unit.sample(1, seed=4), operator, 0.2, seed=5)
    t, x = VP().level(torch.tensor([0.3]).double()), normal(2, *SHAPE, seed=1)
    exact = unit.condition(measurement).denoise(x, t)
    torch.testing.assert_close(PiGDM(denoiser).condition(measurement)(x, t), exact)


def test_weights_are_checked() -> None:
    denoiser, _ = problem(BlockMean((2, 2)), VP())
    for method in (DPS, DMPS, PiGDM):
        with pytest.raises(InputError, match="weight"):
            method(denoiser, -1.0)


def test_settings_are_the_published_ones_unless_said() -> None:
    denoiser, measurement = problem(BlockMean((2, 2)), VP())
    assert DPS(denoiser) == DPS(denoiser, 1.0, 1000)
    assert DMPS(denoiser) == DMPS(denoiser, 1.0)
    assert PiGDM(denoiser) == PiGDM(denoiser, 1.0)
    x, t = normal(2, *SHAPE, seed=1), VP().level(torch.tensor([0.3]).double())
    for method in (DPS, DMPS, PiGDM):
        # Without guidance the prior is left as it is; twice the weight is twice the push.
        plain, once, twice = (
            method(denoiser, weight).condition(measurement)(x, t) for weight in (0.0, 1.0, 2.0)
        )
        torch.testing.assert_close(plain, denoiser(x, t))
        torch.testing.assert_close(twice - plain, 2 * (once - plain))
        assert method(denoiser).condition(measurement).image == denoiser.image


def test_a_push_is_per_measurement() -> None:
    """Rows of a batch, with a noise level each, are moved as if each were alone."""
    denoiser, _ = problem(BlockMean((2, 2)), VP())
    images, std = prior().sample(2, seed=4), torch.tensor([0.1, 0.7]).double()
    both = Measurement.simulate(images, BlockMean((2, 2)), std, seed=5)
    level = VP().level(torch.tensor([-1.0, 2.0]).double())
    x = normal(2, *SHAPE, seed=1)
    for method in (DPS, DMPS, PiGDM, PostConditioned):
        together = method(denoiser).condition(both)(x, level)
        for k in range(2):
            rows = torch.tensor([k])
            own = type(level)(*(part[rows] for part in level))
            alone = method(denoiser).condition(both.select(rows))(x[rows], own)
            torch.testing.assert_close(together[rows], alone)
