"""DDRM, DiffPIR and MMPS, each pinned to its published update."""

import pytest
import torch
from torch import Tensor

from bcdm.diffusion import VE, VP, Schedule, Step, sample
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import (
    DDRM,
    MMPS,
    DiffPIR,
    ExactDenoiser,
    ExactPosterior,
    GaussianMixture,
    PointEstimate,
    Renewal,
    Restoration,
)
from bcdm.methods.base import BoundDenoiser
from bcdm.operators import BlockMean, Dense, Identity, LinearOperator, Sense, to_matrix

SHAPE = (1, 2, 4)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gaussian() -> GaussianMixture:
    root = normal(8, 8, seed=1) / 3
    covariance = root @ root.mT + 0.1 * torch.eye(8).double()
    return GaussianMixture.gaussian(normal(8, seed=2), covariance, SHAPE)


SCHEDULES = pytest.mark.parametrize("schedule", [VP(), VE()], ids=["VP", "VE"])
OPERATORS = pytest.mark.parametrize(
    "operator", [Dense(normal(3, 8, seed=3), SHAPE), BlockMean((2, 2))], ids=["dense", "block"]
)


def problem(operator: LinearOperator, schedule: Schedule) -> tuple[ExactDenoiser, Measurement]:
    measurement = Measurement.simulate(gaussian().sample(1, seed=4), operator, 0.2, seed=5)
    return ExactDenoiser(gaussian(), schedule), measurement


@SCHEDULES
@OPERATORS
def test_mmps_is_exact_for_a_gaussian(operator: LinearOperator, schedule: Schedule) -> None:
    denoiser, measurement = problem(operator, schedule)
    guided = MMPS(denoiser, iterations=8).condition(measurement)
    exact = ExactPosterior(gaussian(), schedule).condition(measurement)
    for log_snr in (-4.0, 0.0, 4.0):
        level = schedule.level(torch.tensor([log_snr]).double())
        x_t = normal(3, *SHAPE, seed=6)
        torch.testing.assert_close(guided(x_t, level), exact(x_t, level), rtol=1e-6, atol=1e-6)
    one = MMPS(denoiser, iterations=1).condition(measurement)
    assert not torch.allclose(one(x_t, level), exact(x_t, level), atol=1e-6)


def test_mmps_survives_a_jacobian_that_is_no_covariance() -> None:
    """A learned network may fall where it should rise: its mean then stays without the data."""
    exact, measurement = problem(Dense(normal(3, 8, seed=3), SHAPE), VP())
    falling = BoundDenoiser(exact, lambda x_t, level: -5 * x_t)
    level = VP().level(torch.tensor([-2.0]).double())
    x_t = normal(3, *SHAPE, seed=6)
    found = MMPS(falling).condition(measurement)(x_t, level)
    torch.testing.assert_close(found, -5 * x_t)


def test_mmps_stops_where_no_covariance_would_lead() -> None:
    """A Jacobian that takes away half of the noise's own curvature would double the step."""
    exact, _ = problem(Dense(normal(3, 8, seed=3), SHAPE), VP())
    measurement = Measurement(normal(1, *SHAPE, seed=7), Identity(), 0.2)
    level = VP().level(torch.tensor([-2.0]).double())
    slope = float(-0.5 * 0.2**2 * level.alpha / level.sigma**2)
    falling = BoundDenoiser(exact, lambda x_t, level: slope * x_t)
    x_t = normal(3, *SHAPE, seed=6)
    found = MMPS(falling).condition(measurement)(x_t, level)
    torch.testing.assert_close(found, slope * x_t)


def test_mmps_clips_means_to_the_range() -> None:
    denoiser, measurement = problem(BlockMean((2, 2)), VP())
    level = VP().level(torch.tensor([0.0]).double())
    x_t = normal(3, *SHAPE, seed=6)
    free = MMPS(denoiser).condition(measurement)(x_t, level)
    found = MMPS(denoiser, value_range=(-0.5, 0.4)).condition(measurement)(x_t, level)
    torch.testing.assert_close(found, free.clamp(-0.5, 0.4))
    assert not torch.equal(found, free)


def test_mmps_is_exact_for_a_gaussian_of_complex_images() -> None:
    """White, so that the posterior is the Wiener estimate; clipped in magnitude, phases kept."""
    maps = torch.randn(3, 4, 6, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    mask = torch.rand(4, 6, generator=torch.Generator().manual_seed(1)) < 0.5
    x = torch.randn(2, 1, 4, 6, dtype=torch.complex128, generator=torch.Generator().manual_seed(2))
    measurement = Measurement.simulate(x, Sense(maps, mask, tolerance=1e-10), 0.2, seed=3)
    level, std = VP().level(torch.tensor([0.0]).double()), 0.6
    share = std**2 * level.alpha / (level.alpha**2 * std**2 + level.sigma**2)
    left = float(std**2 * level.sigma**2 / (level.alpha**2 * std**2 + level.sigma**2)) ** 0.5
    nowhere = PointEstimate(torch.zeros_like(x))
    prior = BoundDenoiser(nowhere, lambda x_t, level: share.item() * x_t)
    found = MMPS(prior, iterations=60).condition(measurement)(x, level)
    mean = share.item() * x
    back = measurement.operator.adjoint(measurement.y - measurement.operator.forward(mean))
    expected = mean + measurement.operator.solve((0.2 / left) ** 2, 1.0, back)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    clipped = MMPS(prior, 60, (0.0, 0.3)).condition(measurement)(x, level)
    assert float(clipped.abs().max()) <= 0.3 + 1e-12
    torch.testing.assert_close(clipped.angle(), found.angle())


@SCHEDULES
@OPERATORS
def test_diffpir_is_the_published_update(operator: LinearOperator, schedule: Schedule) -> None:
    """The proximal point by a dense solve, then the mixture of old and new noise."""
    denoiser, measurement = problem(operator, schedule)
    guided = DiffPIR(denoiser, weight=3.0).condition(measurement)
    t, s = (schedule.level(torch.tensor([value]).double()) for value in (0.5, 1.5))
    x_t, noise = normal(1, *SHAPE, seed=6), normal(1, *SHAPE, seed=7)
    matrix = to_matrix(operator, SHAPE, torch.float64)
    rho = 3.0 * 0.2**2 / (t.sigma / t.alpha) ** 2
    right = matrix.mT @ measurement.y.flatten() + rho * denoiser(x_t, t).flatten()
    clean = torch.linalg.solve(matrix.mT @ matrix + rho * torch.eye(8), right).reshape(x_t.shape)
    torch.testing.assert_close(guided(x_t, t), clean)
    old = (x_t - t.alpha * clean) / t.sigma
    published = s.alpha * clean + s.sigma * (0.6**0.5 * old + 0.4**0.5 * noise)
    got, _ = Renewal(0.4).advance(guided, x_t, Step(t, s, lambda _: noise))
    torch.testing.assert_close(got, published)


@SCHEDULES
@OPERATORS
@pytest.mark.parametrize("log_snr", [-2.0, 2.0, 6.0])
def test_ddrm_is_the_published_update(
    operator: LinearOperator, schedule: Schedule, log_snr: float
) -> None:
    """Written out over the singular vectors; the levels meet weak, strong and hidden ones."""
    denoiser, measurement = problem(operator, schedule)
    t, s = (schedule.level(torch.tensor([v]).double()) for v in (log_snr, log_snr + 0.7))
    x_t, noise = normal(1, *SHAPE, seed=6), normal(1, *SHAPE, seed=7)
    left, singular, right = torch.linalg.svd(to_matrix(operator, SHAPE, torch.float64))
    singular = torch.cat([singular, torch.zeros(8 - len(singular)).double()])
    mean = right @ denoiser(x_t, t).flatten()
    here, fresh = right @ (x_t / t.alpha).flatten(), right @ noise.flatten()
    rotated = torch.zeros(8).double()
    rotated[: len(left)] = left.mT @ measurement.y.flatten()
    before, after = float(t.sigma / t.alpha), float(s.sigma / s.alpha)
    eta, eta_b, std, expected = 0.85, 0.9, 0.2, []
    for m, x, y, n, value in zip(mean, here, rotated, fresh, singular, strict=True):
        if value < 1e-9:
            expected.append(m + (1 - eta**2) ** 0.5 * after * (x - m) / before + eta * after * n)
        elif after < std / value:
            pulled = (1 - eta**2) ** 0.5 * after * (y / value - m) / (std / value)
            expected.append(m + pulled + eta * after * n)
        else:
            size = (after**2 - eta_b**2 * std**2 / value**2) ** 0.5
            expected.append((1 - eta_b) * m + eta_b * y / value + size * n)
    published = s.alpha * (right.mT @ torch.stack(expected)).reshape(x_t.shape)
    sampler = Restoration(measurement, eta, eta_b)
    got, _ = sampler.advance(denoiser, x_t, Step(t, s, lambda _: noise))
    torch.testing.assert_close(got, published)


def test_ddrm_knows_no_unit_of_the_data() -> None:
    """A and the noise by the same small factor are the same problem."""
    matrix, x = normal(3, 8, seed=3), gaussian().sample(1, seed=4)
    drawn = []
    for unit in (1.0, 1e-6):
        measurement = Measurement.simulate(x, Dense(unit * matrix, SHAPE), 0.2 * unit, seed=5)
        bound = DDRM(ExactDenoiser(gaussian(), VP())).condition(measurement)
        drawn.append(sample(bound, steps=20, indices=range(4), progress=False))
    torch.testing.assert_close(drawn[1], drawn[0], rtol=1e-6, atol=1e-6)


def test_chains_end_near_the_data() -> None:
    operator = BlockMean((2, 2))
    denoiser, measurement = problem(operator, VP())
    unconditional = measurement.y - operator.forward(gaussian().sample(500, seed=9))
    for prior, sampler in (
        (DDRM(denoiser).condition(measurement), None),
        (DiffPIR(denoiser).condition(measurement), Renewal()),
    ):
        drawn = sample(prior, sampler, steps=50, indices=range(50), progress=False)
        away = measurement.y - operator.forward(drawn)
        assert float(away.square().mean()) < 0.2 * float(unconditional.square().mean())


def test_errors() -> None:
    denoiser, _ = problem(BlockMean((2, 2)), VP())
    with pytest.raises(InputError, match="iterations"):
        MMPS(denoiser, 0)
    with pytest.raises(InputError, match="weight"):
        DiffPIR(denoiser, 0.0)
    for renewed in (-0.1, 1.1):
        with pytest.raises(InputError, match="renewed"):
            Renewal(renewed)
    assert [Renewal(renewed).renewed for renewed in (0.0, 1.0)] == [0.0, 1.0]


def test_settings_are_the_published_ones_unless_said() -> None:
    denoiser, measurement = problem(BlockMean((2, 2)), VP())
    assert MMPS(denoiser) == MMPS(denoiser, 5)
    assert MMPS(denoiser, 1).iterations == 1
    assert DiffPIR(denoiser) == DiffPIR(denoiser, 7 / 4)
    assert Renewal() == Renewal(0.3)
    assert (DDRM(denoiser).eta, DDRM(denoiser).eta_b) == (0.85, 1.0)
    assert DDRM(denoiser).condition(measurement).sampler == Restoration(measurement, 0.85, 1.0)
    for bound in (MMPS(denoiser).condition(measurement), DiffPIR(denoiser).condition(measurement)):
        assert (bound.image, bound.schedule) == (denoiser.image, denoiser.schedule)


def test_rows_of_a_batch_are_as_if_alone() -> None:
    """Also where one row has nothing left to solve for, which ends its own iterations only."""
    denoiser, _ = problem(BlockMean((2, 2)), VP())
    std = torch.tensor([0.1, 0.7]).double()
    both = Measurement.simulate(gaussian().sample(2, seed=4), BlockMean((2, 2)), std, seed=5)
    level = VP().level(torch.tensor([-1.0, 2.0]).double())
    x = normal(2, *SHAPE, seed=1)
    met = BlockMean((2, 2)).forward(denoiser(x, level))
    for data in (both.y, torch.stack([both.y[0], met[1]])):
        given = Measurement(data, BlockMean((2, 2)), std)
        for method in (MMPS(denoiser, 3), DiffPIR(denoiser)):
            together = method.condition(given)(x, level)
            for k in range(2):
                rows = torch.tensor([k])
                own = type(level)(*(part[rows] for part in level))
                alone = method.condition(given.select(rows))(x[rows], own)
                torch.testing.assert_close(together[rows], alone)


def test_ddrm_is_drawn_by_its_own_steps_only() -> None:
    """By any other sampler its means would be the prior's, whatever was measured."""
    denoiser, measurement = problem(BlockMean((2, 2)), VP())
    bound = DDRM(denoiser).condition(measurement)
    with pytest.raises(InputError, match="leave the sampler out"):
        sample(bound, Renewal(), steps=3, progress=False)
    drawn = sample(bound, steps=3, progress=False)
    torch.testing.assert_close(
        drawn, sample(denoiser, Restoration(measurement), steps=3, progress=False)
    )
