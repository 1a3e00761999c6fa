"""Images that are settled: what the data know better than the network stays as measured."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bcdm.conditioning import Conditioning
from bcdm.diffusion import VP
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian, Parameterisation
from bcdm.methods.view import _OFF, Scales, View
from bcdm.networks import UnrolledNetwork
from bcdm.operators import LinearOperator, Sense
from bcdm.problems.coils import draw_birdcage

SIZE = (8, 10)
STD = 0.3


def normal(*shape: int, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.complex(*(torch.randn(2, *shape, generator=draw, dtype=torch.float64)))


def make_sense(share: float) -> Sense:
    maps = draw_birdcage(SIZE, 4, rng=np.random.default_rng(0)).to(torch.complex128)
    mask = torch.rand(SIZE, generator=torch.Generator().manual_seed(1)) < share
    return Sense(maps, mask, tolerance=1e-10, adaptive=False)


def condition(
    operator: LinearOperator, log_snr: float, noise_std: float = 0.05
) -> tuple[Conditioning, Tensor, Tensor]:
    """The level of x_t, x_t, and the truth."""
    x = normal(1, 1, *SIZE, seed=2)
    measurement = Measurement.simulate(x, operator, noise_std, seed=3)
    level = VP().level(torch.tensor([log_snr]).double())
    x_t = float(level.alpha) * x + float(level.sigma) * normal(1, 1, *SIZE, seed=5)
    return Conditioning(measurement, level), x_t, x


@pytest.mark.parametrize("log_snr", [-6.0, 0.0, 6.0])
def test_an_image_becomes_an_observation_beside_the_others(log_snr: float) -> None:
    """The least squares of data, x_t and image as matrices; the prior has no part in it."""
    operator = make_sense(0.4)
    conditioning, x_t, _ = condition(operator, log_snr)
    image, left, count = normal(1, 1, *SIZE, seed=4), torch.tensor([0.2]), SIZE[0] * SIZE[1]
    found = View(conditioning, x_t, Scales(STD)).settle(image / STD, left)
    alpha, sigma = (float(part) for part in conditioning.level)
    trust = (sigma / STD) ** 2 / (_OFF * 0.2)
    units = torch.eye(count, dtype=torch.complex128).reshape(count, 1, *SIZE)
    gram = operator.gram(units).flatten(1).T
    known = alpha**2 * torch.eye(count) + float(conditioning.gain) ** 2 * gram
    right = conditioning.natural_statistic(x_t) + trust * image
    wanted = torch.linalg.solve(known + trust * torch.eye(count), right.flatten())
    torch.testing.assert_close(STD * found.flatten(), wanted, rtol=1e-4, atol=1e-4)


def test_an_image_stays_where_nothing_is_known() -> None:
    conditioning, x_t, _ = condition(make_sense(0.0), -40.0)
    image = normal(1, 1, *SIZE, seed=4)
    settled = View(conditioning, x_t, Scales(STD)).settle(image, None)
    torch.testing.assert_close(settled, image, rtol=1e-3, atol=1e-3)


class Wild(nn.Module):
    """A network that met what it was not trained for."""

    def forward(self, x: Tensor, log_snr: Tensor) -> Tensor:
        return 10 * torch.ones_like(x[:, :2])


@pytest.mark.parametrize("demodulate", [False, True])
def test_a_network_cannot_overrule_what_was_measured(demodulate: bool) -> None:
    """Coils fix more than what stands in for them knows: only a settled image keeps to that."""
    conditioning, x_t, _ = condition(make_sense(0.5), -6.0, noise_std=1e-3)
    measurement = conditioning.measurement
    residuals = []
    for settle in (True, False):
        asked = Parameterisation(prior_std=STD, demodulate=demodulate, settle=settle)
        network = UnrolledNetwork(Wild(), 2)
        image = Bayesian(network, VP(), asked).estimate(conditioning, x_t)
        away = measurement.operator.forward(image) - measurement.y
        residuals.append(float(away.abs().square().mean().sqrt()))
    assert residuals[0] < 0.05 * residuals[1]


def test_gradients_pass() -> None:
    conditioning, x_t, _ = condition(make_sense(0.4), 0.0)
    view, image = View(conditioning, x_t, Scales(STD)), normal(1, 1, *SIZE, seed=4)
    image.requires_grad_(True)
    other = normal(1, 1, *SIZE, seed=6)
    (found,) = torch.autograd.grad((view.settle(image, None) * other.conj()).sum().real, image)
    ahead, behind = (
        (view.settle(image.detach() + step * other, None) * other.conj()).sum().real
        for step in (0.5, -0.5)
    )
    assert float((found.conj() * other).sum().real) == pytest.approx(float(ahead - behind))
