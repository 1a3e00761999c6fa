"""Samplers by exact moments, convergence, and samples that depend on their own seed alone."""

import dataclasses

import pytest
import torch
from torch import Tensor

from bcdm.benchmark.moments import SAMPLERS, VARIANCES, chain_moments
from bcdm.diffusion import (
    DDIM,
    VE,
    VP,
    Ancestral,
    Denoiser,
    DPMSolver,
    NoiseLevel,
    Step,
    paper_grid,
    posterior_mean,
    sample,
    to_noise,
    to_score,
)
from bcdm.errors import InputError, ShapeError
from bcdm.measurement import Measurement
from bcdm.methods import ExactDenoiser, ExactPosterior, GaussianMixture
from bcdm.operators import PixelMask
from bcdm.tensors import ImageSpec, SeededNoise

EVERY = pytest.mark.parametrize("name", SAMPLERS)
SIZE = 6


def gaussian(dtype: torch.dtype = torch.float64) -> GaussianMixture:
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(SIZE, SIZE, generator=generator, dtype=torch.float64) / 3
    mean = torch.randn(SIZE, generator=generator, dtype=torch.float64) / 2
    covariance = root @ root.mT + 0.05 * torch.eye(SIZE).double()
    return GaussianMixture.gaussian(mean.to(dtype), covariance.to(dtype))


@EVERY
def test_chain_reaches_the_target_with_many_steps(name: str) -> None:
    """At 1500 log-SNR-uniform steps every sampler's variance is within 3 %, its mean within 1 %.

    The first-order deterministic and stochastic ones are the slowest; DDIM with eta = 1 loses
    variance at rate 1/steps.
    """
    sampler, _ = SAMPLERS[name]
    mean, variance = chain_moments(sampler, VP().grid(1500))
    target = torch.tensor(VARIANCES).double()
    assert float((variance / target - 1).abs().max()) < 0.03
    assert float(((mean - 0.5) / target.sqrt()).abs().max()) < 0.01


@EVERY
def test_chain_reaches_the_target_for_ve(name: str) -> None:
    mean, variance = chain_moments(SAMPLERS[name][0], VE().grid(1500), schedule=VE())
    target = torch.tensor(VARIANCES).double()
    assert float((variance / target - 1).abs().max()) < 0.03
    assert float(((mean - 0.5) / target.sqrt()).abs().max()) < 0.02


@pytest.mark.parametrize(
    ("churn", "calls", "limit"),
    [(0.0, 15, 0.015), (0.0, 20, 0.005), (1.0, 20, 0.015), (1.0, 30, 0.005), (3.0, 30, 0.015)],
)
def test_second_order_needs_few_calls(churn: float, calls: int, limit: float) -> None:
    _, variance = chain_moments(DPMSolver(churn), VP().grid(calls))
    assert float((variance / torch.tensor(VARIANCES) - 1).abs().max()) < limit


@pytest.mark.parametrize("schedule", [VP(spread=0.1), VE(spread=0.1)], ids=["VP", "VE"])
def test_grids_skip_where_nothing_is_decided(schedule: VP | VE) -> None:
    grid = schedule.grid(20)
    assert len(grid) == 20
    assert (float(grid[0]), float(grid[-1])) == pytest.approx(schedule.log_snr_range)
    assert float(grid[1]) > -1
    for variances in ((0.01, 0.0025), (0.001,)):
        _, variance = chain_moments(DPMSolver(), grid, variances=variances, schedule=schedule)
        assert float((variance / torch.tensor(variances) - 1).abs().max()) < 0.01
    assert len(schedule.grid(1)) == 1
    # What is larger than was said loses variance, as decision 0007 states.
    _, variance = chain_moments(DPMSolver(), grid, variances=(1.0,), schedule=schedule)
    assert float(variance) == pytest.approx(1 / (1 + 0.005 * 100), rel=0.1)
    for steps in range(1, 40):
        assert bool((schedule.grid(steps).diff() > 0).all())
        assert bool((dataclasses.replace(schedule, spread=1e-6).grid(steps).diff() > 0).all())
    with pytest.raises(InputError, match="spread"):
        dataclasses.replace(schedule, spread=0.0).grid(9)


def test_moments_by_monte_carlo() -> None:
    """The exact moments are those of real samples, through the same loop."""
    prior = GaussianMixture.gaussian(torch.tensor([0.5]).double(), torch.tensor([[0.1]]).double())
    for sampler in (Ancestral(), DPMSolver(churn=1.0), DDIM(0.5)):
        mean, variance = chain_moments(sampler, VP().grid(12), variances=(0.1,))
        drawn = sample(ExactDenoiser(prior, VP()), sampler, steps=12, indices=range(20000))
        # Four standard errors of a mean and of a variance.
        assert abs(float(drawn.mean() - mean)) < 4 * float(variance / 20000) ** 0.5
        assert abs(float(drawn.var() / variance) - 1) < 4 * (2 / 20000) ** 0.5


def test_ancestral_is_equation_3_on_the_papers_table() -> None:
    """x_{t-1} = (x_t + (1 - alpha_t) score) / sqrt(alpha_t) + sqrt(1 - alpha_t) n."""
    denoiser, schedule = ExactDenoiser(gaussian(), VP()), VP()
    grid = paper_grid()
    abar = torch.sigmoid(grid)
    x = torch.randn(2, SIZE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    noise = torch.randn(2, SIZE, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for k in (0, 500, 998):
        t, s = (schedule.level(grid[i : i + 1]) for i in (k, k + 1))
        got, _ = Ancestral().advance(denoiser, x, Step(t, s, lambda _: noise))
        ratio = abar[k] / abar[k + 1]
        score = to_score(denoiser(x, t), x, t)
        printed = (x + (1 - ratio) * score) / ratio.sqrt() + (1 - ratio).sqrt() * noise
        torch.testing.assert_close(got, printed, rtol=1e-10, atol=1e-10)


def test_papers_table() -> None:
    beta = torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)
    abar = torch.cumprod(1 - beta, 0)
    torch.testing.assert_close(torch.sigmoid(paper_grid()).flip(0), abar, rtol=1e-12, atol=0)


@pytest.mark.parametrize("schedule", [VP(), VE()], ids=["VP", "VE"])
def test_schedule_identities(schedule: VP | VE) -> None:
    low, high = schedule.log_snr_range
    grid = torch.linspace(low, high, 50, dtype=torch.float64)
    level = schedule.level(grid)
    torch.testing.assert_close(level.log_snr, grid, rtol=1e-12, atol=1e-9)
    torch.testing.assert_close(schedule.log_snr(schedule.time(grid)), grid, rtol=1e-9, atol=1e-9)
    # The growth rate is the derivative of log alpha.
    ahead, behind = (schedule.level(grid + e).alpha.log() for e in (1e-5, -1e-5))
    torch.testing.assert_close(
        schedule.growth(level), (ahead - behind) / 2e-5, atol=1e-8, rtol=1e-6
    )
    assert float(schedule.level(schedule.grid(7)).sigma[-1]) == pytest.approx(0.002)


def test_score_and_noise_are_the_mean() -> None:
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mean, level = x.flip(0), VP().level(torch.tensor([-1.0, 0.0, 3.0]).double())
    score, noise = to_score(mean, x, level), to_noise(mean, x, level)
    torch.testing.assert_close(score, -noise / level.sigma[:, None])
    torch.testing.assert_close(level.alpha[:, None] * mean + level.sigma[:, None] * noise, x)


@EVERY
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_samples_depend_on_their_own_seed(name: str, dtype: torch.dtype, tolerance: float) -> None:
    sampler, _ = SAMPLERS[name]
    prior = gaussian(dtype)
    denoiser = ExactDenoiser(prior, VP())
    indices = list(range(64))
    all_at_once = sample(denoiser, sampler, steps=20, seed=5, indices=indices)
    scale = float(all_at_once.abs().max())
    for size in (1, 7):
        batches = sample(denoiser, sampler, steps=20, seed=5, indices=indices, batch=size)
        assert float((batches - all_at_once).abs().max()) <= tolerance * max(1.0, scale)
    backwards = sample(denoiser, sampler, steps=20, seed=5, indices=indices[::-1])
    assert float((backwards.flip(0) - all_at_once).abs().max()) <= tolerance * max(1.0, scale)


@EVERY
def test_samples_are_bit_identical_at_a_fixed_batch(name: str) -> None:
    sampler, _ = SAMPLERS[name]
    denoiser = ExactDenoiser(gaussian(torch.float32), VP())
    whole = sample(denoiser, sampler, steps=8, seed=5, indices=range(20), batch=8)
    for index in (0, 7, 8, 19):
        alone = sample(denoiser, sampler, steps=8, seed=5, indices=[index], batch=8)
        assert torch.equal(alone[0], whole[index])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_noise_bits(dtype: torch.dtype) -> None:
    image = ImageSpec((3, 5, 4), dtype)
    whole = SeededNoise(7, range(64)).normal(image, step=3)
    for size in (1, 7):
        for start in range(0, 64, size):
            part = SeededNoise(7, range(start, min(64, start + size))).normal(image, step=3)
            assert torch.equal(part, whole[start : start + size])
    assert torch.equal(SeededNoise(7, [9, 3]).normal(image, step=3), whole[[9, 3]])


def test_noise_is_standard_normal_and_independent() -> None:
    image = ImageSpec((2000,), torch.float64)
    noise = SeededNoise(1, range(20))
    rows = torch.cat([noise.normal(image, step=s, draw=d) for s in (0, 1) for d in (0, 1)])
    other = SeededNoise(2, range(20)).normal(image, step=0)
    rows = torch.cat([rows, other])
    correlation = rows @ rows.mT / 2000 - torch.eye(100).double()
    # 10,000 entries of std 1/sqrt(2000) (diagonal sqrt(2) more): 5.5 std is a 1e-4 event at most.
    assert float(correlation.abs().max()) < 5.5 * (2 / 2000) ** 0.5
    assert abs(float(rows.mean())) < 4 / 200000**0.5
    complex_rows = SeededNoise(1, range(20)).normal(ImageSpec((2000,), torch.complex128), step=0)
    assert float(complex_rows.real.var()) == pytest.approx(1, abs=0.03)
    assert float(complex_rows.imag.var()) == pytest.approx(1, abs=0.03)


def test_noise_of_items_depends_on_item_and_number_alone() -> None:
    image = ImageSpec((400,), torch.float64)
    items = [f"{item}" for item in range(6) for _ in range(4)]
    whole = SeededNoise(1, list(range(4)) * 6, items).normal(image, step=2, draw=1)
    part = SeededNoise(1, [3, 0], ["5", "2"]).normal(image, step=2, draw=1)
    assert torch.equal(part, whole[[23, 8]])
    # Neither among each other nor with the noise of numbers, other seeds, steps or draws.
    others = [
        SeededNoise(1, range(24)).normal(image, step=2, draw=1),
        SeededNoise(2, list(range(4)) * 6, items).normal(image, step=2, draw=1),
        SeededNoise(1, list(range(4)) * 6, items).normal(image, step=3, draw=1),
        SeededNoise(1, list(range(4)) * 6, items).normal(image, step=2, draw=2),
    ]
    correlation = torch.corrcoef(torch.cat([whole, *others])) - torch.eye(120)
    assert float(correlation.abs().max()) < 6 / 400**0.5
    with pytest.raises(ShapeError, match="1 items for 2 samples"):
        SeededNoise(1, [0, 1], ["a"])


def test_items_in_batches_of_one_size() -> None:
    denoiser = ExactDenoiser(gaussian(), VP())
    items = [item for item in "abcde" for _ in range(2)]
    whole = sample(denoiser, DPMSolver(), steps=5, indices=[0, 1] * 5, items=items)
    parts = sample(denoiser, DPMSolver(), steps=5, indices=[0, 1] * 5, items=items, batch=4)
    torch.testing.assert_close(parts, whole)
    alone = sample(denoiser, DPMSolver(), steps=5, indices=[1], items=["d"])
    torch.testing.assert_close(alone, whole[7:8])


def test_one_call_gives_the_posterior_mean() -> None:
    prior = gaussian()
    mask = PixelMask(torch.tensor([True, False, True, False, False, True]))
    measurement = Measurement.simulate(prior.sample(1, seed=1), mask, 0.1, seed=2)
    bound = ExactPosterior(prior, VP()).condition(measurement)
    exact = prior.condition(measurement).mean
    # What x_T still tells is at most alpha_T |x| / sigma_T.
    torch.testing.assert_close(posterior_mean(bound)[0], exact, atol=0.01, rtol=0.0)


@dataclasses.dataclass
class Counting:
    inner: Denoiser
    calls: int = 0

    @property
    def schedule(self) -> VP:
        return self.inner.schedule

    @property
    def image(self) -> ImageSpec:
        return self.inner.image

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        self.calls += 1
        return self.inner(x_t, level)


@EVERY
def test_stated_calls_are_the_calls_made(name: str) -> None:
    sampler, _ = SAMPLERS[name]
    for steps in (1, 2, 9):
        counting = Counting(ExactDenoiser(gaussian(), VP()))
        sample(counting, sampler, steps=steps)
        assert counting.calls == sampler.calls(steps)


@pytest.mark.parametrize(("batch", "sizes"), [(None, {7}), (1, {1}), (3, {3}), (7, {7}), (9, {9})])
def test_batches_are_as_large_as_asked(batch: int | None, sizes: set[int]) -> None:
    """The last one is filled up, and cut afterwards."""
    seen: set[int] = set()

    class Watching(Counting):
        def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
            seen.add(len(x_t))
            return super().__call__(x_t, level)

    watching = Watching(ExactDenoiser(gaussian(), VP()))
    drawn = sample(watching, DPMSolver(), steps=2, indices=range(7), batch=batch)
    assert seen == sizes
    assert len(drawn) == 7


def test_progress_can_be_shown_and_hidden(capsys) -> None:
    denoiser = ExactDenoiser(gaussian(), VP())
    sample(denoiser, DPMSolver(), steps=3, progress=False)
    assert capsys.readouterr().err == ""
    sample(denoiser, DPMSolver(), steps=3, progress=True)
    assert "sampling: 100%" in capsys.readouterr().err


def test_a_grid_in_single_precision_is_taken_as_it_is() -> None:
    """Levels are computed in double precision, whatever the grid came in."""
    denoiser, grid = ExactDenoiser(gaussian(), VP()), VP().grid(8).float()
    given = sample(denoiser, DPMSolver(), grid=grid)
    assert torch.equal(given, sample(denoiser, DPMSolver(), grid=grid.double()))


def test_errors_name_the_fix() -> None:
    denoiser = ExactDenoiser(gaussian(), VP())
    with pytest.raises(InputError, match="range"):
        sample(denoiser, DPMSolver(), indices=[])
    with pytest.raises(InputError, match="increase"):
        sample(denoiser, DPMSolver(), grid=torch.tensor([1.0, 0.0]))
    with pytest.raises(InputError, match="at least one"):
        sample(denoiser, DPMSolver(), steps=0)
    with pytest.raises(InputError, match="batch"):
        sample(denoiser, DPMSolver(), batch=-1)
    with pytest.raises(InputError, match="eta"):
        DDIM(2.0)
    with pytest.raises(InputError, match=">= 0"):
        sample(denoiser, DPMSolver(), seed=-1)
    with pytest.raises(InputError, match="sigma_min"):
        VP(sigma_min=2.0)
