"""The bridge of I2SB: pinned to its published marginals, posterior steps and network output."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.benchmark.moments import chain_moments
from bcdm.checkpoint import load, save_model
from bcdm.checkpoint.building import build_method
from bcdm.checkpoint.settings import parse_config
from bcdm.comparison.contenders import ContenderConfig, expand_grid
from bcdm.conditioning import Conditioning
from bcdm.data import ArrayFile
from bcdm.diffusion import DDIM, Bridge, NoiseLevel, Step, posterior_mean, run_chain, sample
from bcdm.errors import InputError
from bcdm.evaluation import sliced_wasserstein
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian, GaussianMixture, LeastSquares, Parameterisation, PointEstimate
from bcdm.operators import BlockMean, Dense, FourierMask, PixelMask
from bcdm.problems import Levels, OneProblem
from bcdm.tensors import ImageSpec, fit
from bcdm.training.objective import Objective
from bcdm.training.train import Processes, Trainer

BRIDGE = Parameterisation("bridge", "bridge", prior_std=0.7)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def integrate(bridge: Bridge, start: float, stop: float) -> float:
    """The variance that the published motion gathers between two times, by quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    edges = [start, *([0.5] if start < 0.5 < stop else []), stop]
    total = 0.0
    for a, b in pairwise(edges):
        t = (a + b) / 2 + (b - a) / 2 * nodes
        early = np.minimum(t, 1 - t)
        root = np.sqrt(bridge.beta_min) * (1 - early) + np.sqrt(bridge.beta_max) * early
        total += (b - a) / 2 * float(weights @ root**2)
    return total


def variances(bridge: Bridge, time: float) -> tuple[float, float]:
    """Gathered from x_0 to x_t, and from there to x_1."""
    return integrate(bridge, 0, time), integrate(bridge, time, 1)


def at(bridge: Bridge, time: float) -> NoiseLevel:
    return bridge.level(bridge.log_snr(torch.tensor([time], dtype=torch.float64)))


@pytest.mark.parametrize("bridge", [Bridge(), Bridge(1e-3, 0.02, 1.0)], ids=["published", "other"])
def test_marginals_are_those_of_the_published_bridge(bridge: Bridge) -> None:
    """Mean and variance of q(x_t | x_0, x_1) at each time: the product of two Gaussians."""
    for time in (0.01, 0.2, 0.5, 0.77, 0.99):
        past, future = variances(bridge, time)
        alpha, sigma = (float(c) for c in at(bridge, time))
        assert alpha == pytest.approx(future / (past + future), rel=1e-10)
        assert 1 - alpha == pytest.approx(past / (past + future), rel=1e-10)
        assert sigma**2 == pytest.approx(past * future / (past + future), rel=1e-10)
        # What the network's output is in units of.
        assert sigma / alpha**0.5 == pytest.approx(past**0.5, rel=1e-10)


def test_published_table() -> None:
    """1000 steps whose root runs from .0001 to half way to .0003, and back."""
    half = (torch.linspace(1e-4**0.5, 3e-4**0.5, 1000, dtype=torch.float64) ** 2)[:500]
    beta = torch.cat([half, half.flip(0)])
    bridge = Bridge()
    assert bridge.variance == pytest.approx(float(beta.sum()), rel=1e-3)
    for step in (99, 499, 899):
        alpha = float(1 - beta[: step + 1].sum() / beta.sum())
        assert float(at(bridge, (step + 1) / 1000).alpha) == pytest.approx(alpha, abs=1e-4)


def test_schedule_identities() -> None:
    bridge = Bridge()
    grid = bridge.grid(50)
    level = bridge.level(grid)
    torch.testing.assert_close(level.log_snr, grid, rtol=1e-12, atol=1e-9)
    torch.testing.assert_close(bridge.log_snr(bridge.time(grid)), grid, rtol=1e-9, atol=1e-9)
    ahead, behind = (bridge.level(grid + e).alpha.log() for e in (1e-5, -1e-5))
    torch.testing.assert_close(bridge.growth(level), (ahead - behind) / 2e-5, atol=1e-8, rtol=1e-6)
    assert [float(level.sigma[k]) for k in (0, -1)] == pytest.approx([0.002, 0.002])
    assert bool((bridge.time_grid(7).diff() > 0).all())
    with pytest.raises(InputError, match="beta"):
        Bridge(beta_min=0.4)
    with pytest.raises(InputError, match="sigma_min"):
        Bridge(0.2)


def test_step_is_the_published_posterior_and_keeps_the_marginals() -> None:
    """p(x_s | x_0, x_t) as printed; drawn from the marginal at t it gives that at s."""
    bridge = Bridge()
    x_0, x_1, x_t, n = (normal(2, 5, seed=seed) for seed in range(4))

    def step(x: Tensor, noise: Tensor, t: float, s: float) -> Tensor:
        """One step of the sampler in the bridge's own coordinates."""
        level, after = at(bridge, t), at(bridge, s)
        given = PointEstimate(x_0, bridge)
        moved, _ = DDIM(1.0).advance(
            given, x - (1 - level.alpha) * x_1, Step(level, after, lambda _: noise)
        )
        return moved + (1 - after.alpha) * x_1

    for t, s in ((0.999, 0.6), (0.7, 0.69), (0.5, 0.01)):
        (past, future), (past_s, future_s) = variances(bridge, t), variances(bridge, s)
        between = past - past_s
        printed = (between * x_0 + past_s * x_t) / past
        spread = (past_s * between / past) ** 0.5
        torch.testing.assert_close(step(x_t, n, t, s), printed + spread * n, rtol=1e-10, atol=1e-10)
        # The step is affine: its mean and what it makes of the variance follow from two calls.
        middle = (future * x_0 + past * x_1) / (past + future)
        mean = step(middle, torch.zeros_like(n), t, s)
        expected = (future_s * x_0 + past_s * x_1) / (past_s + future_s)
        torch.testing.assert_close(mean, expected, rtol=1e-10, atol=1e-10)
        kept = float((step(middle + 1, torch.zeros_like(n), t, s) - mean)[0, 0])
        fresh = float((step(middle, torch.ones_like(n), t, s) - mean)[0, 0])
        variance = kept**2 * past * future / (past + future) + fresh**2
        assert variance == pytest.approx(past_s * future_s / (past_s + future_s), rel=1e-10)


def test_exact_denoiser_keeps_the_mean_at_any_number_of_calls() -> None:
    """One call is the posterior mean without spread; more calls add the spread, never too much."""
    bridge, target = Bridge(), torch.tensor([1.0, 0.1, 0.01]).double()
    before = torch.zeros(3).double()
    for calls in (1, 3, 10, 100, 1000):
        grid = bridge.time_grid(calls)
        mean, variance = chain_moments(
            DDIM(1.0), grid, variances=tuple(target.tolist()), schedule=bridge
        )
        # The start is x_1 itself: the mean there is short of alpha, 3e-5.
        assert float((mean - 0.5).abs().max()) < 1e-3
        assert bool((variance > before).all())
        assert bool((variance < target).all())
        if calls == 1:
            assert float((variance / target).max()) < 1e-3
        before = variance
    assert float((before / target - 1).abs().max()) < 0.05


def test_input_and_output_are_those_of_the_bridge() -> None:
    """Given what the bridge moved over its size, the image is x_0; the loss is that of the size."""
    bridge, x_0 = Bridge(), normal(2, 1, 4, 6, seed=0)
    n = normal(2, 1, 4, 6, seed=1)
    mask = torch.rand(4, 6, generator=torch.Generator().manual_seed(0)) < 0.5
    for operator in (PixelMask(mask), BlockMean((2, 2)), FourierMask(mask, real=True)):
        measurement = Measurement.simulate(x_0, operator, 0.001, seed=2)
        x_1 = BRIDGE.scales.estimate_linearly(measurement)
        least = LeastSquares().condition(measurement).estimate
        torch.testing.assert_close(x_1, least, rtol=0, atol=1e-4)
        level = bridge.level(torch.tensor([-3.0, 4.0]).double())
        alpha, sigma = fit(x_0, *level)
        x_t = alpha * x_0 + sigma * n
        given = BRIDGE.prepare(Conditioning(measurement, level), x_t)
        place = alpha * x_0 + (1 - alpha) * x_1 + sigma * n
        torch.testing.assert_close(given.seen, place)
        past = bridge.variance * (1 - alpha)
        torch.testing.assert_close(given.project((place - x_0) / past.sqrt()), x_0)
        away = given.project((place - x_0) / past.sqrt() + 0.3) - x_0
        loss = BRIDGE.weigh(level) * away.square().flatten(1).mean(1)
        torch.testing.assert_close(loss, torch.full_like(loss, 0.09))


class _Markov:
    """The best denoiser that sees the bridge's place alone, for x_0 ~ N(0, 1) and x_1 = w y."""

    def __init__(self, x_1: Tensor, gain: float, noise_std: float) -> None:
        self.schedule, self.image = Bridge(), ImageSpec((1,), torch.float64)
        self.x_1, self.gain, self.noise_std = x_1, gain, noise_std

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        alpha, sigma = level
        known = alpha + (1 - alpha) * self.gain
        unknown = ((1 - alpha) * self.gain * self.noise_std) ** 2 + sigma**2
        place = x_t + (1 - alpha) * self.x_1
        return known / (known**2 + unknown) * place


class _UnitNoise:
    """Row 0 has no noise, row k one in draw k: the responses of an affine chain."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def normal(self, image: ImageSpec, *, step: int, draw: int = 0) -> Tensor:
        out = torch.zeros(self.rows, *image.shape, dtype=image.dtype)
        out[step + 1] = 1
        return out


def test_place_alone_is_not_sufficient() -> None:
    """A chain by E[x_0 | place], as published, has the prior's law but not the posterior's.

    In closed form for one number measured with noise: over all y the samples have variance 1, but
    given y they have less than half of the posterior's, and their mean follows y too far.
    """
    noise_std, calls = 1.0, 1000
    gain = 1 / (1 + noise_std**2)
    posterior = noise_std**2 / (1 + noise_std**2)
    moments = {}
    for y in (0.0, 1.0):
        x_1 = torch.full((calls + 1, 1), gain * y).double()
        grid = Bridge().time_grid(calls)
        rows = run_chain(_Markov(x_1, gain, noise_std), DDIM(1.0), grid, _UnitNoise(calls + 1))
        moments[y] = float(rows[0]), float((rows[1:] - rows[0]).square().sum())
    (still, variance), (slope, same) = moments[0.0], moments[1.0]
    assert still == 0
    assert variance == pytest.approx(same)
    # All of it: what follows y, and what does not.
    assert slope**2 * (1 + noise_std**2) + variance == pytest.approx(1, abs=0.02)
    assert variance < 0.5 * posterior
    assert slope > 1.2 * gain


def test_learned_bridge_ends_near_the_posterior(make_vectors) -> None:
    """A mixture in the plane, one coordinate measured: samples are far better than their mean."""
    means = torch.tensor([[-0.8, -0.6], [-0.7, 0.7], [0.8, 0.1], [0.1, -0.9]])
    prior = GaussianMixture(torch.zeros(4), means, 0.01 * torch.eye(2)[None])
    operator, noise_std = Dense(torch.tensor([[1.0, 0.3]])), 0.2
    method = Bayesian(make_vectors(96, 3), Bridge(), BRIDGE)
    levels = Levels(end=0.05, uniform_time=True)
    objective = Objective(method, OneProblem(operator, noise_std), levels, seed=0)
    optimizer = torch.optim.Adam(method.network.parameters(), lr=2e-3)
    steps, batch = 1000, 256
    images = prior.sample(steps * batch, seed=1)
    for step in range(steps):
        counters = torch.arange(step * batch, (step + 1) * batch)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * (1 - step / steps)
        optimizer.zero_grad()
        objective(images[counters], counters).mean().backward()
        optimizer.step()
    distances, points = [], []
    for k in range(5):
        measurement = Measurement.simulate(
            prior.sample(1, seed=100 + k), operator, noise_std, seed=k
        )
        denoiser = method.condition(measurement)
        drawn = sample(denoiser, DDIM(1.0), grid=Bridge().time_grid(100), indices=range(1000))
        posterior = prior.condition(measurement)
        exact = posterior.sample(2000, seed=200 + k)
        distances.append(float(sliced_wasserstein(drawn, exact)))
        points.append(float(sliced_wasserstein(posterior.mean.expand(1000, 2), exact)))
        assert float((posterior_mean(denoiser)[0] - posterior.mean).abs().max()) < 0.2
    assert sum(distances) < 0.4 * sum(points)


SETTINGS = {
    "name": "bridge",
    "operator": {"kind": "centre_box", "box": [6, 6]},
    "noise_std": 0.05,
    "schedule": {"kind": "bridge"},
    "parameterisation": {"statistic": "bridge", "output": "bridge"},
    "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
    "training": {"steps": 3, "batch": 4, "levels": {"uniform_time": True, "end": 0.0}},
}


def test_trained_from_settings_and_compared(tmp_path: Path) -> None:
    """From a file of settings over a stored model to a contender's samples."""
    images = np.random.default_rng(0).integers(0, 255, (12, 16, 16), np.uint8)
    path = tmp_path / "images.npz"
    np.savez(path, images=images)
    config = parse_config(SETTINGS | {"data": {"path": str(path), "channels": 1}})
    source = ArrayFile(path)
    trainer = Trainer(config, source, source, tmp_path, Processes())
    assert trainer.run()
    save_model(tmp_path / "model", trainer.config, trainer.state.average.module,
               trainer.problems.operator, trainer.shape, {})  # fmt: skip
    model = load(tmp_path / "model")
    (contender,) = expand_grid(
        ContenderConfig(kind="bridge", network="bridge", calls=4), {"bridge": model}
    )
    assert contender.describe() == {"calls": 4, "sampler": "posterior of the bridge"}
    x = torch.stack([model.preparation(source[i]) for i in range(2)])
    measurement = Measurement.simulate(x, model.operator, model.noise_std, seed=0)
    drawn = contender.draw(measurement, [0, 1], 3, seed=0).samples
    assert drawn.shape == (3, 2, 1, 16, 16)
    denoiser = model.condition(measurement)
    expected = sample(
        denoiser, DDIM(1.0), grid=Bridge().time_grid(4), indices=[1, 1], items=["0", "1"]
    )
    torch.testing.assert_close(drawn[1], expected)


def test_a_bridge_is_whole_or_not_at_all() -> None:
    with pytest.raises(InputError, match="both a bridge"):
        Parameterisation("bridge")
    with pytest.raises(InputError, match="statistic bridge needs"):
        build_method(parse_config(SETTINGS | {"data": {"path": "a"}, "schedule": {}}), (1, 16, 16))
