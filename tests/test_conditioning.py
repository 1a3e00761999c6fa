"""The paper's theorems, against posteriors in closed form whose covariance does not commute."""

import pytest
import torch
from torch import Tensor

from bcdm.conditioning import Conditioning
from bcdm.diffusion import VE, VP, NoiseLevel, Schedule
from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.measurement import Measurement
from bcdm.methods import Denoising, ExactDenoiser, ExactPosterior, GaussianMixture
from bcdm.operators import (
    BlockMean,
    CircularBlur,
    Dense,
    FourierMask,
    Identity,
    LinearOperator,
    MatrixFree,
    PixelMask,
    to_matrix,
)

SHAPE = (1, 4, 4)
SIZE = 16
LEVELS = [-9.0, -3.0, 0.0, 4.0, 10.0]
SCHEDULES = [VP(), VE()]
OPERATORS: dict[str, LinearOperator] = {
    "identity": Identity(),
    "inpainting": PixelMask(torch.arange(SIZE).reshape(4, 4) % 3 == 0),
    "super-resolution": BlockMean((2, 2)),
    "mri": FourierMask(torch.rand(4, 4, generator=torch.Generator().manual_seed(0)) < 0.4, True),
    "deblurring": CircularBlur(torch.tensor([[0.1, 0.2, 0.1], [0.0, 0.4, 0.2]]).double(), (4, 4)),
    "dense": Dense(
        torch.randn(5, SIZE, generator=torch.Generator().manual_seed(1)).double(), SHAPE
    ),
}


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def covariance(seed: int) -> Tensor:
    root = normal(SIZE, SIZE, seed=seed) / 4
    return root @ root.mT + 0.05 * torch.eye(SIZE).double()


def gaussian() -> GaussianMixture:
    return GaussianMixture.gaussian(normal(SIZE, seed=3), covariance(4), SHAPE)


def mixture() -> GaussianMixture:
    means = normal(3, SIZE, seed=5)
    covariances = torch.stack([covariance(seed) for seed in (6, 7, 8)])
    return GaussianMixture(torch.tensor([0.1, 0.7, -0.4]).double(), means, covariances, SHAPE)


def points() -> GaussianMixture:
    return GaussianMixture.points(0.4 * normal(6, SIZE, seed=9), SHAPE)


PRIORS = {"gaussian": gaussian, "mixture": mixture, "points": points}
EVERY = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS.keys())
EVERY_PRIOR = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
EVERY_SCHEDULE = pytest.mark.parametrize("schedule", SCHEDULES, ids=["VP", "VE"])


def setting(prior: GaussianMixture, operator: LinearOperator) -> Measurement:
    return Measurement.simulate(prior.sample(1, seed=1), operator, 0.3, seed=2)


def noised(x: Tensor, level: NoiseLevel, seed: int = 5) -> Tensor:
    return level.alpha * x + level.sigma * normal(*x.shape, seed=seed)


def levels(schedule: Schedule) -> list[NoiseLevel]:
    return [schedule.level(torch.tensor([value]).double()) for value in LEVELS]


def test_the_covariances_do_not_commute() -> None:
    for name, operator in OPERATORS.items():
        A = to_matrix(operator, SHAPE, torch.float64)
        gram, C = A.mT @ A, gaussian().covariance
        assert name == "identity" or float((gram @ C - C @ gram).norm()) > 1e-2


@EVERY_SCHEDULE
@EVERY_PRIOR
@EVERY
def test_corollary_1_score_of_the_conditional(operator, prior, schedule) -> None:
    """Tweedie with E[x_0 | x_t, y] is the gradient of log q(x_t | y)."""
    posterior = prior().condition(setting(prior(), operator))
    for level in levels(schedule):
        x_t = noised(posterior.sample(2, seed=3), level).flatten(1).requires_grad_()
        mixed = torch.distributions.MixtureSameFamily(
            torch.distributions.Categorical(logits=posterior.log_weights),
            torch.distributions.MultivariateNormal(
                level.alpha * posterior.means,
                level.alpha**2 * posterior.covariances + level.sigma**2 * torch.eye(SIZE).double(),
            ),
        )
        (expected,) = torch.autograd.grad(mixed.log_prob(x_t).sum(), x_t)
        x_t = x_t.detach().reshape(2, *SHAPE)
        conditioning = Conditioning(setting(prior(), operator), level)
        score = conditioning.score(posterior.denoise(x_t, level), x_t)
        error = (score.flatten(1) - expected).norm() / expected.norm()
        assert float(error) <= 1e-8


@EVERY_SCHEDULE
@EVERY_PRIOR
@EVERY
def test_corollary_2_statistics_are_sufficient(operator, prior, schedule) -> None:
    """E[x_0 | x_t, y] = E[x_0 | statistic] for each of the statistics."""
    prior, eye = prior(), torch.eye(SIZE).double()
    measurement = setting(prior, operator)
    A = to_matrix(operator, SHAPE, torch.float64)
    for level in levels(schedule):
        x_t = noised(prior.sample(1, seed=7), level)
        expected = ExactPosterior(prior, schedule).condition(measurement)(x_t, level)
        conditioning = Conditioning(measurement, level)
        M = level.alpha**2 * eye + conditioning.gain**2 * (A.mT @ A)
        values, vectors = torch.linalg.eigh(M)
        root = vectors @ values.sqrt().diag() @ vectors.mT
        wiener = torch.linalg.inv(level.sigma**2 / 0.49 * eye + M)
        told = A.mT @ A / 0.3**2
        spread = 0.49 * eye + 4.0 * torch.linalg.solve(told + eye / 0.49, told)
        uneven = torch.linalg.inv(level.sigma**2 * torch.linalg.inv(spread) + M)
        # Each statistic as a measurement of x_0: its own matrix, its own noise covariance.
        table = {
            "natural": (conditioning.natural_statistic(x_t), M, level.sigma**2 * M),
            "whitened": (conditioning.whitened_statistic(x_t), root, level.sigma**2 * eye),
            "pivot": (conditioning.pivot(x_t), eye, level.sigma**2 * torch.linalg.inv(M)),
            "wiener": (
                conditioning.wiener_statistic(x_t, 0.7),
                wiener @ M,
                level.sigma**2 * wiener @ M @ wiener,
            ),
            "wiener, more known": (
                conditioning.wiener_statistic(x_t, 0.7, 2.0),
                uneven @ M,
                level.sigma**2 * uneven @ M @ uneven,
            ),
        }
        for name, (statistic, matrix, noise) in table.items():
            noise = (noise + noise.mT) / 2
            seen = Measurement.with_covariance(
                statistic.flatten(1), Dense(matrix, SHAPE), covariance=noise
            )
            got = prior.condition(seen).mean[None]
            assert float((got - expected).norm() / expected.norm()) <= 1e-8, (name, level)


@EVERY_SCHEDULE
@EVERY
def test_theorem_the_loss_is_least_at_the_posterior_mean(operator, schedule) -> None:
    r"""With a Gaussian prior the minimiser of the loss over affine maps is in closed form.

    The loss is over x_hat = M^(1/2) x_0 + sigma n, as in training. The mean is affine here, so the
    minimiser must be E[x_0 | x_t, y] wherever it is asked.
    """
    prior = gaussian()
    measurement = setting(prior, operator)
    A = to_matrix(operator, SHAPE, torch.float64)
    for level in levels(schedule):
        conditioning = Conditioning(measurement, level)
        eye = torch.eye(SIZE).double()
        root = conditioning.power(0.5, eye.reshape(SIZE, *SHAPE)).reshape(SIZE, SIZE)
        torch.testing.assert_close(
            root @ root, level.alpha**2 * eye + conditioning.gain**2 * A.mT @ A,
            rtol=1e-9, atol=1e-9,
        )  # fmt: skip
        # Normal equations of min E|W x_hat + b - x_0|^2.
        C, mean = prior.covariance, prior.mean.flatten()
        second = root @ C @ root.mT + level.sigma**2 * eye
        W = torch.linalg.solve(second, root @ C).mT
        b = mean - W @ root @ mean
        x_t = noised(prior.sample(3, seed=8), level)
        learned = conditioning.whitened_statistic(x_t).flatten(1) @ W.mT + b
        exact = ExactPosterior(prior, schedule).condition(measurement)(x_t, level).flatten(1)
        assert float((learned - exact).norm() / exact.norm()) <= 1e-8


def test_drawn_statistic_has_the_law_of_the_computed_one() -> None:
    """Drawn in one stroke for training, or computed from x_t and y: one mean and covariance."""
    level = VP().level(torch.tensor([0.5]).double())
    for operator in OPERATORS.values():
        x_0 = normal(1, *SHAPE, seed=1)
        clean = Measurement(operator.forward(x_0), operator, 0.3)
        conditioning = Conditioning(clean, level)
        noiseless = conditioning.whitened_statistic(level.alpha * x_0)
        torch.testing.assert_close(noiseless, conditioning.draw(x_0, torch.zeros_like(x_0)))
        # Noise: sigma M^(-1/2) (alpha n_t + k A^T n_0) must be white.
        A = to_matrix(operator, SHAPE, torch.float64)
        eye = torch.eye(SIZE).double()
        inverse_root = conditioning.power(-0.5, eye.reshape(SIZE, *SHAPE)).reshape(SIZE, SIZE)
        stacked = inverse_root @ torch.cat([level.alpha * eye, conditioning.gain * A.mT], 1)
        torch.testing.assert_close(stacked @ stacked.mT, eye)


@EVERY_SCHEDULE
@EVERY_PRIOR
def test_denoising_formula(prior, schedule) -> None:
    """The closed use of an unconditional model for A = I (paper, VE section), VP too."""
    prior = prior()
    measurement = Measurement.simulate(prior.sample(1, seed=1), Identity(), 0.5, seed=2)
    closed = Denoising(ExactDenoiser(prior, schedule)).condition(measurement)
    exact = ExactPosterior(prior, schedule).condition(measurement)
    for level in levels(schedule):
        x_t = noised(prior.sample(3, seed=7), level)
        expected = exact(x_t, level)
        assert float((closed(x_t, level) - expected).norm() / expected.norm()) <= 1e-8


def test_ve_denoising_formula_as_printed() -> None:
    """The score of the paper's last display, term by term."""
    prior, schedule = mixture(), VE()
    y = prior.sample(1, seed=1) + 0.5 * normal(1, *SHAPE, seed=2)
    closed = Denoising(ExactDenoiser(prior, schedule)).condition(Measurement(y, Identity(), 0.5))
    for level in levels(schedule):
        x_t = noised(prior.sample(2, seed=3), level)
        v2 = (level.sigma / 0.5) ** 2
        point = (x_t + v2 * y) / (1 + v2)
        own = NoiseLevel(torch.ones(1).double(), level.sigma / (1 + v2).sqrt())
        unconditional = (prior.denoise(point, own) - point) / own.sigma**2
        printed = (point + level.sigma**2 / (1 + v2) * unconditional - x_t) / level.sigma**2
        score = Conditioning(Measurement(y, Identity(), 0.5), level).score(closed(x_t, level), x_t)
        torch.testing.assert_close(score, printed, rtol=1e-8, atol=1e-8)


@EVERY
def test_data_consistency_minimises_its_objective(operator) -> None:
    measurement = setting(gaussian(), operator)
    level = VP().level(torch.tensor([1.0]).double())
    conditioning = Conditioning(measurement, level)
    x_t, x_d = normal(1, *SHAPE, seed=1), normal(1, *SHAPE, seed=2)
    natural, whitened = conditioning.natural_statistic(x_t), conditioning.whitened_statistic(x_t)
    x = conditioning.data_consistency(x_d, natural, 0.01).requires_grad_()
    pull = 0.01 / level.sigma**2
    misfit = conditioning.power(0.5, x) - whitened
    objective = (x - x_d).square().sum() / 2 + pull * misfit.square().sum() / 2
    (gradient,) = torch.autograd.grad(objective.sum(), x)
    assert float(gradient.norm()) < 1e-10


def test_per_sample_noise_and_levels_equal_one_at_a_time() -> None:
    prior = gaussian()
    x = prior.sample(3, seed=1)
    std = torch.tensor([0.1, 0.3, 1.0]).double()
    level = VP().level(torch.tensor([-2.0, 0.0, 3.0]).double())
    for operator in OPERATORS.values():
        measurement = Measurement.simulate(x, operator, std, seed=0)
        together = Conditioning(measurement, level).whitened_statistic(x)
        for k in range(3):
            rows = torch.tensor([k])
            alone = Conditioning(measurement.select(rows), NoiseLevel(*(c[rows] for c in level)))
            torch.testing.assert_close(alone.whitened_statistic(x[rows]), together[rows])


def test_errors_name_the_fix() -> None:
    measurement = setting(gaussian(), Identity())
    conditioning = Conditioning(measurement, VP().level(torch.tensor([0.0]).double()))
    with pytest.raises(DtypeError, match="convert"):
        conditioning.natural_statistic(torch.zeros(1, *SHAPE))
    with pytest.raises(ShapeError, match="images"):
        conditioning.natural_statistic(torch.zeros(1, 1, 5, 4).double())
    with pytest.raises(InputError, match="prior_std"):
        conditioning.wiener_statistic(torch.zeros(1, *SHAPE).double(), 0.0)
    with pytest.raises(InputError, match="Identity"):
        Denoising(ExactDenoiser(gaussian(), VP())).condition(
            setting(gaussian(), OPERATORS["inpainting"])
        )


@EVERY
@pytest.mark.parametrize("known_std", [0.0, 3.0])
@pytest.mark.parametrize("noise_std", [1e-2, 1e-4])
def test_float32_holds_the_wiener_statistic_at_any_noise(operator, known_std, noise_std) -> None:
    """Rounding of the data, over their noise, must not reach what was not measured."""
    exact = Measurement.simulate(gaussian().sample(1, seed=1), operator, noise_std, seed=2)
    y = exact.y.to(torch.complex64 if exact.y.is_complex() else torch.float32)
    rounded = Measurement(y, operator.to(torch.float32), noise_std)
    for level in levels(VP()):
        x_t = noised(gaussian().sample(1, seed=1), level)
        wanted = Conditioning(exact, level).wiener_statistic(x_t, 0.7, known_std)
        found = Conditioning(rounded, level).wiener_statistic(x_t.float(), 0.7, known_std)
        assert float((found - wanted).abs().max()) < 1e-4


@pytest.mark.parametrize("noise_std", [0.3, 1e-2])
def test_a_function_gives_the_statistics_of_its_matrix(noise_std: float) -> None:
    """As closely as can be seen: a hundredth of the standard deviation that is left, per pixel."""
    matrix = normal(5, SIZE, seed=1)
    function = MatrixFree(lambda x: x.flatten(1) @ matrix.mT, shape=SHAPE)
    dense = Measurement.simulate(
        gaussian().sample(3, seed=1), Dense(matrix, SHAPE), noise_std, seed=2
    )
    iterated = Measurement(dense.y, function, noise_std)
    away = iterated.estimate_linearly(0.7) - dense.estimate_linearly(0.7)
    assert float(away.square().flatten(1).mean(1).sqrt().max()) < 0.01 * 0.7
    alone = iterated.select(torch.tensor([0])).estimate_linearly(0.7)
    torch.testing.assert_close(alone, iterated.estimate_linearly(0.7)[:1])
    for level in levels(VP()):
        x_t = noised(gaussian().sample(3, seed=4), level)
        unknown = 0.7 * float(level.sigma) / float((0.49 * level.alpha**2 + level.sigma**2).sqrt())
        pair = [Conditioning(m, level).wiener_statistic(x_t, 0.7) for m in (iterated, dense)]
        away = pair[0] - pair[1]
        assert float(away.square().flatten(1).mean(1).sqrt().max()) < 0.02 * max(unknown, 1e-3)
    nothing = Measurement(torch.zeros(2, 5).double(), function, noise_std)
    assert torch.equal(nothing.estimate_linearly(0.7), torch.zeros(2, *SHAPE).double())


@pytest.mark.parametrize("number", [torch.float64, torch.complex128])
def test_solves_end_where_nobody_could_see_more(number: torch.dtype, monkeypatch) -> None:
    r"""A residual r of $A^\top y$ is an error $r s^2 / \sigma_0^2$ where nothing is measured."""
    asked: list[Tensor] = []
    solve = MatrixFree.solve

    def listen(operator, a, b, x, *, tolerance=None):
        asked.append(tolerance)
        return solve(operator, a, b, x, tolerance=tolerance)

    monkeypatch.setattr(MatrixFree, "solve", listen)
    operator = MatrixFree(lambda x: 2 * x, lambda y: 2 * y, shape=SHAPE)
    y = normal(2, *SHAPE, seed=1).to(number) * torch.tensor([1.0, 3.0]).reshape(2, 1, 1, 1)
    measurement = Measurement(y, operator, torch.tensor([0.1, 0.4]).double())
    level = VP().level(torch.tensor([1.0]).double())
    Conditioning(measurement, level).wiener_statistic(torch.zeros_like(y), 0.7)
    first, second = asked
    count = SIZE * (2 if number.is_complex else 1)
    size = (2 * y).abs().square().flatten(1).sum(1).sqrt()
    noise = torch.tensor([0.01, 0.16]).double()
    torch.testing.assert_close(first, 0.01 * noise / 0.7 * count**0.5 / size)
    torch.testing.assert_close(second, 0.01 * level.sigma / (level.alpha * 0.7))
