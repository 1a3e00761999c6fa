"""What a training sample is: its noise, its level, and what its error counts."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn

from bcdm.conditioning import Conditioning
from bcdm.diffusion import VE, VP, Schedule
from bcdm.machine import autocast
from bcdm.methods import Bayesian, Parameterisation
from bcdm.operators import BlockMean, Dense, FourierMask, LinearOperator, MatrixFree, PixelMask
from bcdm.problems import Levels, OneProblem
from bcdm.tensors import ImageSpec, SeededNoise, fit
from bcdm.training.objective import Objective

SHAPE = (1, 16, 16)
NOISE_STD = 0.3
MASK = torch.rand(16, 16, generator=torch.Generator().manual_seed(0)) < 0.7
OPERATORS: dict[str, LinearOperator] = {
    "mask": PixelMask(MASK),
    "block": BlockMean((2, 2)),
    "mri": FourierMask(MASK, real=True),
    "dense": Dense(
        torch.randn(80, 256, generator=torch.Generator().manual_seed(1)).double(), SHAPE
    ),
    "function": MatrixFree(lambda x: x[..., ::2].cumsum(-1), shape=SHAPE),
}


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@dataclass
class Listener:
    """In the place of a method: keeps what it is given, and is off by `away` everywhere."""

    x_0: Tensor
    parameterisation: Parameterisation = field(default_factory=Parameterisation)
    away: float = 0.0
    schedule: Schedule = field(default_factory=VP)
    network: nn.Module = field(default_factory=nn.Identity)
    heard: list[tuple[Conditioning, Tensor]] = field(default_factory=list)

    def estimate_weighted(self, conditioning: Conditioning, x_t: Tensor) -> tuple[Tensor, Tensor]:
        self.heard.append((conditioning, x_t))
        return self.x_0 + self.away, self.parameterisation.weigh(conditioning.level)


def listen(
    x_0: Tensor, counters: list[int], operator: LinearOperator, seed: int = 5
) -> tuple[Tensor, Tensor, int]:
    """The noise of the data and that of x_t, (B, n) each, of unit size; entries with data."""
    method = Listener(x_0)
    levels = Levels()
    objective = Objective(method, OneProblem(operator, NOISE_STD), levels, seed)  # type: ignore[arg-type]
    objective(x_0, torch.tensor(counters))
    ((conditioning, x_t),) = method.heard
    assert conditioning.measurement.std.tolist() == [NOISE_STD]
    static = conditioning.measurement.residual(x_0).flatten(1)
    taken = conditioning.measurement.degrees_of_freedom
    alpha, sigma = fit(x_0, *conditioning.level)
    return static, ((x_t - alpha * x_0) / sigma).flatten(1), taken


def test_noise_is_that_of_earlier_versions() -> None:
    """So that a run goes on as it was begun: stream 1 of a sample in its data, 0 in x_t."""
    x_0, counters = normal(2, *SHAPE, seed=1), [3, 7]
    static, diffused, _ = listen(x_0, counters, PixelMask(torch.ones(16, 16) > 0))
    for stream, noise in ((1, static), (0, diffused)):
        expected = SeededNoise(5, counters).normal(ImageSpec.of(x_0), step=stream)
        torch.testing.assert_close(noise, expected.flatten(1))


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_every_sample_has_its_own_noise_of_the_stated_size(operator: LinearOperator) -> None:
    """In the data and in x_t; within a batch, and between the two."""
    x_0 = normal(24, *SHAPE, seed=1)
    static, diffused, taken = listen(x_0, list(range(24)), operator)
    for noise, count in ((static, taken), (diffused, 256)):
        each = noise.square().sum(1) / count
        # Five standard errors of one sample, four of all.
        assert float((each - 1).abs().max()) < 5 * (2 / count) ** 0.5
        assert abs(float(each.mean()) - 1) < 4 * (2 / (24 * count)) ** 0.5
        alike = noise @ noise.mT / count
        assert float((alike - alike.diag().diag()).abs().max()) < 5 / count**0.5
    # The noise of the data is not that of x_t.
    both = min(static.shape[1], 256)
    shared = static[:, :both] @ diffused[:, :both].mT / taken
    assert float(shared.abs().max()) < 5 / taken**0.5


def test_noise_is_a_function_of_seed_and_counter() -> None:
    x_0 = normal(3, *SHAPE, seed=1)
    whole = listen(x_0, [4, 7, 9], OPERATORS["dense"])
    moved = listen(x_0[[2, 0]], [9, 4], OPERATORS["dense"])
    other = listen(x_0, [4, 7, 9], OPERATORS["dense"], seed=6)
    for a, b, c in zip(whole[:2], moved[:2], other[:2], strict=True):
        torch.testing.assert_close(b, a[[2, 0]])
        assert float((a - c).abs().max()) > 1


def test_only_the_network_runs_in_bfloat16() -> None:
    """Products of an operator in bfloat16 would be off by more than the noise of good data."""
    seen: list[bool] = []

    class Watching(nn.Module):
        def forward(self, x: Tensor, log_snr: Tensor, project: object) -> Tensor:
            seen.append(torch.is_autocast_enabled("cpu"))
            return x

    dense = Dense(normal(80, 256, seed=1).float(), SHAPE)
    heard = Listener(x_0 := normal(2, *SHAPE, seed=1).float())
    whole = Objective(heard, OneProblem(dense, 0.01), Levels(), 0)  # type: ignore[arg-type]
    method = Bayesian(Watching(), VP(), Parameterisation(prior_std=1.0))
    exact = whole(x_0, torch.arange(2))
    with autocast("cpu", "bfloat16"):
        Objective(method, OneProblem(dense, 0.01), Levels(), 0)(x_0, torch.arange(2))
        torch.testing.assert_close(whole(x_0, torch.arange(2)), exact, rtol=0, atol=0)
        assert not torch.is_autocast_enabled("cpu")
    first, second = (one.measurement for one, _ in heard.heard)
    assert torch.equal(first.y, second.y)
    assert torch.equal(first.back_projection, second.back_projection)
    assert seen == [True]


@pytest.mark.parametrize("schedule", [VP(), VE()], ids=["VP", "VE"])
@pytest.mark.parametrize("output", ["image", "residual", "denoised", "noise"])
def test_the_loss_is_the_weighed_mean_square(output: str, schedule: VP | VE) -> None:
    x_0 = normal(4, *SHAPE, seed=1)
    parameterisation = Parameterisation("whitened", output, prior_std=0.7)  # type: ignore[arg-type]
    method = Listener(x_0, parameterisation, away=0.3, schedule=schedule)
    problem = OneProblem(OPERATORS["mask"], NOISE_STD)
    objective = Objective(method, problem, Levels(), 5)  # type: ignore[arg-type]
    level = schedule.level(torch.tensor([-6.0, -1.0, 2.0, 9.0]).double())
    expected = 0.09 * parameterisation.weigh(level)
    torch.testing.assert_close(objective.error(x_0, torch.arange(4), level), expected)
    drawn = objective.levels.draw(schedule, 5, torch.arange(4))
    expected = 0.09 * parameterisation.weigh(drawn)
    torch.testing.assert_close(objective(x_0, torch.arange(4)), expected)


def test_the_error_of_a_complex_image_counts_both_parts() -> None:
    x_0 = torch.complex(normal(2, *SHAPE, seed=1), normal(2, *SHAPE, seed=2))
    method = Listener(x_0, Parameterisation("whitened", "image"), away=0.3 + 0.4j)  # type: ignore[arg-type]
    problem = OneProblem(FourierMask(MASK), NOISE_STD)
    objective = Objective(method, problem, Levels(), 5)  # type: ignore[arg-type]
    torch.testing.assert_close(objective(x_0, torch.arange(2)), torch.full((2,), 0.25).double())
