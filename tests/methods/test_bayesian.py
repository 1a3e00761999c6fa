"""Learned Bayesian conditioning: parameterisations by algebra, and the posterior by learning."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from bcdm.conditioning import Conditioning
from bcdm.diffusion import VE, VP, DPMSolver, posterior_mean, sample
from bcdm.errors import DtypeError, InputError
from bcdm.evaluation import sliced_wasserstein
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian, GaussianMixture, Parameterisation
from bcdm.networks import NCSNpp, NCSNppConfig, UnrolledNetwork
from bcdm.operators import Dense, FourierMask, PixelMask, Sense
from bcdm.problems import Levels, OneProblem
from bcdm.problems.coils import draw_birdcage
from bcdm.tensors import fit
from bcdm.training.objective import Objective


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("statistic", ["wiener", pytest.param("whitened", marks=pytest.mark.slow)])
def test_learned_posterior_is_the_exact_one(statistic: str, make_vectors) -> None:
    """A mixture in the plane, one coordinate measured: trained in seconds, judged by sliced W1."""
    means = torch.tensor([[-0.8, -0.6], [-0.7, 0.7], [0.8, 0.1], [0.1, -0.9]])
    prior = GaussianMixture(torch.zeros(4), means, 0.01 * torch.eye(2)[None])
    operator, noise_std = Dense(torch.tensor([[1.0, 0.3]])), 0.2
    parameterisation = Parameterisation(statistic, prior_std=0.7)
    trained = Bayesian(make_vectors(192, 4), VP(), parameterisation)
    levels = Levels(mean=1.0, std=2.5, end=0.05)
    objective = Objective(trained, OneProblem(operator, noise_std), levels, seed=0)
    optimizer = torch.optim.Adam(trained.network.parameters(), lr=2e-3)
    average = AveragedModel(trained.network, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    steps, batch = 1500, 256
    images = prior.sample(steps * batch, seed=1)
    for step in range(steps):
        counters = torch.arange(step * batch, (step + 1) * batch)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * (1 - step / steps)
        optimizer.zero_grad()
        objective(images[counters], counters).mean().backward()
        optimizer.step()
        average.update_parameters(trained.network)
    method = Bayesian(average.module, VP(), parameterisation)
    distances, floors = [], []
    for k in range(8):
        measurement = Measurement.simulate(
            prior.sample(1, seed=100 + k), operator, noise_std, seed=k
        )
        drawn = sample(method.condition(measurement), DPMSolver(), steps=30, indices=range(1000))
        posterior = prior.condition(measurement)
        exact = posterior.sample(2000, seed=200 + k)
        distances.append(float(sliced_wasserstein(drawn, exact)))
        floors.append(float(sliced_wasserstein(posterior.sample(1000, seed=300 + k), exact)))
        one_call = posterior_mean(method.condition(measurement))[0]
        assert float((one_call - posterior.mean).abs().max()) < 0.12
    assert sum(distances) <= 2 * sum(floors), (distances, floors)


@pytest.mark.parametrize("schedule", [VP(), VE()], ids=["VP", "VE"])
def test_residual_scale_is_the_spread_a_white_prior_leaves(schedule) -> None:
    r"""Under N(0, s^2 I) the error of w has covariance C^2, so a perfect f has unit size."""
    generator = torch.Generator().manual_seed(0)
    operator = Dense(torch.randn(3, 5, generator=generator, dtype=torch.float64))
    parameterisation = Parameterisation(prior_std=0.7)
    prior = GaussianMixture.gaussian(torch.zeros(5).double(), 0.49 * torch.eye(5).double())
    measurement = Measurement.simulate(prior.sample(1, seed=1), operator, 0.2, seed=2)
    eye = torch.eye(5).double()
    for log_snr in (-8.0, 0.0, 6.0):
        level = schedule.level(torch.tensor([log_snr]).double())
        conditioning = Conditioning(measurement, level)
        given = parameterisation.prepare(conditioning, torch.zeros(5, 5).double())
        zero = given.project(torch.zeros(5, 5).double())
        spread = given.unit * (given.project(eye) - zero)
        # The exact covariance of x_0 given x_t and y.
        both = prior.condition(measurement).condition(
            Measurement(torch.zeros(1, 5).double(), Dense(eye), float(level.sigma / level.alpha))
        )
        torch.testing.assert_close(spread @ spread.mT, both.covariance, rtol=1e-8, atol=1e-8)
        assert float(parameterisation.scales.unknown(level)) >= float(
            both.covariance.diag().max().sqrt()
        )


def test_wiener_is_the_exact_mean_of_a_white_prior() -> None:
    """An untrained network gives zero: the estimate is then the Wiener one, exact for N(0, s^2)."""
    prior = GaussianMixture.gaussian(torch.zeros(64), 0.25 * torch.eye(64), (1, 8, 8))
    mask = torch.rand(8, 8, generator=torch.Generator().manual_seed(0)) < 0.4
    network = UnrolledNetwork(NCSNpp(NCSNppConfig(width=4, multipliers=(1, 2))), 1)
    method = Bayesian(network, VP(), Parameterisation(prior_std=0.5))
    for operator in (PixelMask(mask), FourierMask(mask, real=True)):
        measurement = Measurement.simulate(prior.sample(1, seed=1), operator, 0.1, seed=2)
        level = VP().level(torch.tensor([0.7]).double())
        x_t = normal(2, 1, 8, 8, seed=3)
        exact = prior.condition(measurement).denoise(x_t, level)
        torch.testing.assert_close(
            method.condition(measurement)(x_t, level), exact, rtol=1e-4, atol=1e-4
        )


def test_more_power_in_what_is_known() -> None:
    """The same for a prior of more power in the measured directions: exact for that prior."""
    mask = torch.rand(64, generator=torch.Generator().manual_seed(0)) < 0.4
    power = 0.25 + 4.0 * mask * (0.25 / (0.25 + 0.01))
    prior = GaussianMixture.gaussian(torch.zeros(64), power.diag(), (1, 8, 8))
    network = UnrolledNetwork(NCSNpp(NCSNppConfig(width=4, multipliers=(1, 2))), 1)
    parameterisation = Parameterisation(prior_std=0.5, known_std=2.0)
    method = Bayesian(network, VP(), parameterisation)
    operator = PixelMask(mask.reshape(8, 8))
    measurement = Measurement.simulate(prior.sample(2, seed=1), operator, 0.1, seed=2)
    for k, posterior in enumerate(measurement.select(torch.tensor([i])) for i in range(2)):
        x_t, level = normal(1, 1, 8, 8, seed=k), VP().level(torch.tensor([0.7]).double())
        exact = prior.condition(posterior)
        estimate = method.condition(posterior)(x_t, level)
        torch.testing.assert_close(estimate, exact.denoise(x_t, level), rtol=1e-4, atol=1e-4)
        linear = parameterisation.scales.estimate_linearly(posterior)
        torch.testing.assert_close(linear, exact.mean[None], rtol=1e-4, atol=1e-4)


def test_what_is_measured_well_is_kept() -> None:
    """With a model error, the estimate is data consistency of the network's image with w."""
    x, f = normal(2, 1, 8, 8, seed=0).double(), normal(2, 1, 8, 8, seed=1).double()
    mask = torch.rand(8, 8, generator=torch.Generator().manual_seed(0)) < 0.4
    operator = FourierMask(mask, real=True)
    conditioning = Conditioning(
        Measurement.simulate(x, operator, 0.1, seed=2),
        VP().level(torch.tensor([-1.0, 2.0]).double()),
    )
    trusting = Parameterisation(prior_std=0.5, known_std=2.0).prepare(conditioning, x)
    careful = Parameterisation(prior_std=0.5, known_std=2.0, model_std=0.2)
    image, linear = trusting.project(f), trusting.project(torch.zeros_like(f))
    gram = operator.gram_function(lambda a: a, linear)
    both = operator.solve(1 / 0.2**2, 1 / 0.1**2, image / 0.2**2 + gram / 0.1**2)
    torch.testing.assert_close(careful.prepare(conditioning, x).project(f), both)


def test_paper_form_ends_in_data_consistency() -> None:
    """x_hat in, four passes of backbone and data consistency out (paper, Sec. 4)."""
    backbone = NCSNpp(NCSNppConfig(width=4, multipliers=(1, 2)))
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter += 0.02
    method = Bayesian(
        UnrolledNetwork(backbone, 4), VP(), Parameterisation("whitened", "image", weight=0.01)
    )
    mask = torch.rand(8, 8, generator=torch.Generator().manual_seed(0)) < 0.4
    measurement = Measurement(normal(1, 1, 8, 8, seed=1), PixelMask(mask), 0.1)
    level = VP().level(torch.tensor([0.7]).double())
    x_t = normal(1, 1, 8, 8, seed=3)
    conditioning = Conditioning(measurement, level)
    x = conditioning.whitened_statistic(x_t)
    natural = conditioning.natural_statistic(x_t)
    for _ in range(4):
        x = conditioning.data_consistency(backbone(x, level.log_snr.float()), natural, 0.01)
    torch.testing.assert_close(method.condition(measurement)(x_t, level), x)


def test_pivot_input_has_unit_size_where_nothing_is_measured() -> None:
    operator = PixelMask(torch.zeros(4, 4, dtype=torch.bool))
    parameterisation = Parameterisation("pivot", prior_std=0.5)
    x_0 = 0.5 * normal(4000, 1, 4, 4, seed=1)
    for log_snr in (-8.0, 0.0, 8.0):
        level = VP().level(torch.tensor([log_snr]).double())
        alpha, sigma = fit(x_0, *level)
        x_t = alpha * x_0 + sigma * normal(4000, 1, 4, 4, seed=2)
        conditioning = Conditioning(Measurement(torch.zeros(1, 1, 4, 4), operator, 0.1), level)
        seen = parameterisation.prepare(conditioning, x_t).seen
        assert float(seen.std()) == pytest.approx(1, abs=0.02)


def test_dual_input_starts_as_the_denoiser_of_a_white_prior() -> None:
    """Without the network: E[x_0 | x_t] of a white prior, and y only among the channels."""
    x = normal(2, 3, 6, 8, seed=0).double()
    operator = PixelMask(torch.rand(6, 8, generator=torch.Generator().manual_seed(1)) < 0.5)
    measurement = Measurement.simulate(x, operator, 0.1, seed=2)
    parameterisation = Parameterisation("dual", "denoised", prior_std=0.7)
    level = VP().level(torch.tensor([-1.0, 2.0]).double())
    given = parameterisation.prepare(Conditioning(measurement, level), x)
    alpha, sigma = fit(x, *level)
    mean = 0.49 * alpha * x / (0.49 * alpha**2 + sigma**2)
    torch.testing.assert_close(given.unit * given.project(0 * x), mean)
    scale = given.unit * (given.project(torch.ones_like(x)) - given.project(0 * x))
    torch.testing.assert_close(scale[:, 0, 0, 0], parameterisation.scales.unknown(level))
    assert given.extra is not None
    torch.testing.assert_close(0.7 * given.extra, measurement.back_projection)


def test_normalised_input_has_unit_size_in_every_direction() -> None:
    """Over x_0 of a white prior and all noise, its covariance is the identity."""
    operator = Dense(normal(3, 5, seed=3).double())
    parameterisation = Parameterisation("normalised", prior_std=0.7)
    x = 0.7 * normal(40000, 5, seed=0).double()
    measurement = Measurement.simulate(x, operator, 0.2, seed=1)
    for log_snr in (-6.0, 0.0, 6.0):
        level = VP().level(torch.tensor([log_snr]).double())
        alpha, sigma = fit(x, *level)
        x_t = alpha * x + sigma * normal(40000, 5, seed=2).double()
        seen = parameterisation.prepare(Conditioning(measurement, level), x_t).seen
        # Five standard errors of an entry of a covariance.
        assert float((seen.mT @ seen / len(seen) - torch.eye(5)).abs().max()) < 5 * 2**0.5 / 200


def test_noise_output_is_the_noise_of_x_t() -> None:
    """Given the very noise, the image is x_0; and its loss is the error of the noise."""
    x_0, n = normal(2, 1, 6, 8, seed=0).double(), normal(2, 1, 6, 8, seed=1).double()
    measurement = Measurement.simulate(
        x_0, PixelMask(torch.ones(6, 8, dtype=torch.bool)), 0.1, seed=2
    )
    level = VP().level(torch.tensor([-1.0, 2.0]).double())
    alpha, sigma = (part[:, None, None, None] for part in level)
    parameterisation = Parameterisation("dual", "noise")
    given = parameterisation.prepare(Conditioning(measurement, level), alpha * x_0 + sigma * n)
    torch.testing.assert_close(given.project(n), x_0)
    away = (given.project(n + 0.3) - x_0).square().flatten(1).mean(1)
    torch.testing.assert_close(parameterisation.weigh(level) * away, torch.full_like(away, 0.09))


def test_joint_input_holds_the_statistic_and_its_parts() -> None:
    x = normal(2, 3, 6, 8, seed=0).double()
    mask = torch.rand(6, 8, generator=torch.Generator().manual_seed(1)) < 0.5
    conditioning = Conditioning(
        Measurement.simulate(x, PixelMask(mask), 0.1, seed=2),
        VP().level(torch.tensor([-1.0, 2.0]).double()),
    )
    joint = Parameterisation("joint", prior_std=0.7).prepare(conditioning, x)
    wiener = Parameterisation("wiener", prior_std=0.7).prepare(conditioning, x)
    dual = Parameterisation("dual", prior_std=0.7).prepare(conditioning, x)
    assert joint.extra is not None
    assert dual.extra is not None
    torch.testing.assert_close(joint.seen, wiener.seen)
    torch.testing.assert_close(joint.extra, torch.cat([dual.seen, dual.extra], 1))
    fair = Parameterisation("dual_wiener", prior_std=0.7).prepare(conditioning, x)
    best = conditioning.measurement.estimate_linearly(0.7)
    torch.testing.assert_close(fair.seen, dual.seen)
    torch.testing.assert_close(fair.extra, best / 0.7)


def test_probes_show_what_is_unknown() -> None:
    """Under a pixel mask the flat probe is the relative standard deviation of each pixel."""
    mask = torch.rand(6, 8, generator=torch.Generator().manual_seed(1)) < 0.5
    x = normal(2, 3, 6, 8, seed=0).double()
    measurement = Measurement.simulate(x, PixelMask(mask), 0.1, seed=2)
    parameterisation = Parameterisation(prior_std=0.7, probes=True)
    level = VP().level(torch.tensor([-1.0, 2.0]).double())
    extra = parameterisation.prepare(Conditioning(measurement, level), x).extra
    assert extra is not None
    assert extra.shape == (2, parameterisation.extra_channels, 6, 8)
    alone = 1 / parameterisation.scales.unknown(level) ** 2
    shown = (1 + 100 / alone[:, None, None] * mask) ** -0.5
    torch.testing.assert_close(extra[:, 0], shown.expand(2, 6, 8))
    torch.testing.assert_close(extra[:, 1].abs(), extra[:, 0])


def _map_uncertainty(measurement: Measurement, x: Tensor, log_snr: float = 0.0) -> Tensor:
    parameterisation = Parameterisation(prior_std=0.7, uncertainty=True)
    level = VP().level(torch.tensor([log_snr]).double())
    extra = parameterisation.prepare(Conditioning(measurement, level), x).extra
    assert extra is not None
    assert extra.shape[1] == parameterisation.extra_channels == 1
    return extra


def test_the_map_of_uncertainty_is_that_of_each_pixel() -> None:
    """Where pixels are measured alone, the estimate of the diagonal is exact."""
    mask = torch.zeros(32, 32, dtype=torch.bool)
    mask[:, 16:] = True
    x = normal(2, 1, 32, 32, seed=0)
    found = _map_uncertainty(Measurement.simulate(x, PixelMask(mask), 0.1, seed=1), x)
    alone = (
        1 / Parameterisation(prior_std=0.7).scales.unknown(VP().level(torch.zeros(1).double())) ** 2
    )
    shown = float((1 + 100 / alone) ** -0.5)
    torch.testing.assert_close(found[..., :12], torch.zeros(2, 1, 32, 12))
    torch.testing.assert_close(found[..., 20:].exp(), torch.full((2, 1, 32, 12), shown))


def test_the_map_of_uncertainty_tells_coils_apart() -> None:
    """One mask, one coil or eight: the exact standard deviation within 5 %."""
    mask = torch.zeros(32, 32, dtype=torch.bool)
    mask[:, ::2] = True
    x = torch.complex(normal(1, 1, 32, 32, seed=0), normal(1, 1, 32, 32, seed=1)).cdouble()
    means = []
    for coils in (1, 8):
        maps = torch.ones(1, 32, 32, dtype=torch.complex64)
        if coils > 1:
            maps = draw_birdcage((32, 32), coils, rng=np.random.default_rng(0))
        operator = Sense(maps.to(x.dtype), mask)
        measurement = Measurement.simulate(x, operator, 0.05, seed=2)
        found = _map_uncertainty(measurement, x)
        level = VP().level(torch.zeros(1).double())
        least = float(level.alpha**2 + (level.sigma / 0.7) ** 2)
        gram = operator.gram(torch.eye(1024, dtype=x.dtype).reshape(1024, 1, 32, 32)).flatten(1)
        whole = least * torch.eye(1024) + float(level.sigma / 0.05) ** 2 * gram
        exact = (least * torch.linalg.inv(whole).diagonal().real).mean().log() / 2
        means.append(float((2 * found).exp().mean().log() / 2))
        assert abs(means[-1] - float(exact)) < 0.05
    assert means[1] < 2 * means[0]  # logs: eight coils leave far less


def test_output_and_loss_are_in_units_of_what_is_left() -> None:
    """Where nothing is measured C^2 is the share that is left; a zero of the network is w."""
    mask = torch.zeros(32, 32, dtype=torch.bool)
    mask[:, ::2] = True
    maps = draw_birdcage((32, 32), 8, rng=np.random.default_rng(0)).to(torch.complex128)
    x = torch.complex(normal(2, 1, 32, 32, seed=0), normal(2, 1, 32, 32, seed=1)).cdouble()
    measurement = Measurement.simulate(x, Sense(maps, mask), 0.05, seed=2)
    level = VP().level(torch.zeros(1).double())
    plain, own = (Parameterisation(prior_std=0.7, uncertainty=u) for u in (False, True))
    given, other = (p.prepare(Conditioning(measurement, level), x) for p in (own, plain))
    assert given.extra is not None
    left = (2 * given.extra).exp().flatten(1).mean(1)
    assert 0.02 < float(left[0]) < 0.5
    # What is all but unknown counts less, see Parameterisation.
    faint = 1 + 10 * (-given.log_snr).sigmoid()
    torch.testing.assert_close(given.weight, plain.weigh(level) / left / faint)
    torch.testing.assert_close(other.weight, plain.weigh(level))
    torch.testing.assert_close(given.project(torch.zeros_like(x)), given.seen)
    # A single line of k-space: known to the mask alone, and to no image, so C leaves it all.
    wave = torch.exp(2j * torch.pi * torch.arange(32).double() * 7 / 32).expand(2, 1, 32, 32)
    moved, more = (one.project(wave) - one.seen for one in (given, other))
    torch.testing.assert_close(moved, more * left.sqrt()[:, None, None, None])


def test_samples_of_one_measurement_share_the_map() -> None:
    mask = torch.rand(8, 8, generator=torch.Generator().manual_seed(0)) < 0.4
    x = normal(3, 1, 8, 8, seed=0)
    together = _map_uncertainty(Measurement.simulate(x[:1], PixelMask(mask), 0.1, seed=1), x)
    alone = _map_uncertainty(Measurement.simulate(x[:1], PixelMask(mask), 0.1, seed=1), x[:1])
    torch.testing.assert_close(together, alone.expand(3, -1, -1, -1))


def test_loss_does_not_depend_on_the_batch() -> None:
    network = UnrolledNetwork(NCSNpp(NCSNppConfig(width=4, multipliers=(1, 2))), 1)
    method = Bayesian(network, VP(), Parameterisation())
    operator = PixelMask(torch.rand(8, 8, generator=torch.Generator().manual_seed(0)) < 0.4)
    objective = Objective(method, OneProblem(operator, 0.1), Levels(), seed=1)
    x, counters = normal(6, 1, 8, 8, seed=1), torch.arange(6)
    whole = objective(x, counters)
    parts = torch.cat([objective(x[k : k + 2], counters[k : k + 2]) for k in (0, 2, 4)])
    torch.testing.assert_close(parts, whole)


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_data_of_another_precision_is_refused(kind: str) -> None:
    network = UnrolledNetwork(NCSNpp(NCSNppConfig(width=4, multipliers=(1, 2))), 1)
    method = Bayesian(network, VP(), Parameterisation())
    x = normal(1, 1, 8, 8, seed=0)

    def measure(precision: torch.dtype) -> Measurement:
        mask = torch.ones(8, 8, dtype=precision)
        operator = FourierMask(mask, real=True) if kind == "complex" else PixelMask(mask != 0)
        return Measurement.simulate(x.to(precision), operator, 0.1, seed=0)

    assert posterior_mean(method.condition(measure(torch.float32))).isfinite().all()
    with pytest.raises(DtypeError, match=r"convert y .*to the network's precision$") as caught:
        method.condition(measure(torch.float64))
    assert "\n" not in str(caught.value)
    network.double()
    method.condition(measure(torch.float64))
    level = VP().level(torch.zeros(1, dtype=torch.float64))
    with pytest.raises(DtypeError, match=r"network torch\.float64: convert y"):
        method.estimate(Conditioning(measure(torch.float32), level), x)


def test_errors() -> None:
    with pytest.raises(InputError, match="statistic"):
        Parameterisation("white")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="output"):
        Parameterisation(output="score")  # type: ignore[arg-type]
