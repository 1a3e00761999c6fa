"""Iterations that are told what the data say of the image they pass on."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bcdm.checkpoint.building import build_method
from bcdm.checkpoint.settings import parse_config
from bcdm.conditioning import Conditioning
from bcdm.diffusion import VP
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian, Parameterisation
from bcdm.methods.view import Scales, View
from bcdm.networks import UnrolledNetwork
from bcdm.operators import FourierMask, LinearOperator, Sense
from bcdm.problems.coils import draw_birdcage

SIZE = (12, 16)
STD, NOISE = 0.3, 0.05


def normal(*shape: int, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.complex(*(torch.randn(2, *shape, generator=draw, dtype=torch.float64)))


def make_sense(coils: int) -> Sense:
    maps = draw_birdcage(SIZE, coils, rng=np.random.default_rng(0)).to(torch.complex128)
    mask = torch.rand(SIZE, generator=torch.Generator().manual_seed(1)) < 0.4
    return Sense(maps, mask, tolerance=1e-10, adaptive=False)


def condition(operator: LinearOperator, log_snr: float) -> tuple[Conditioning, Tensor]:
    x = normal(1, 1, *SIZE, seed=2)
    measurement = Measurement.simulate(x, operator, NOISE, seed=3)
    level = VP().level(torch.tensor([log_snr]).double())
    return Conditioning(measurement, level), x


@pytest.mark.parametrize("log_snr", [-6.0, 0.0, 6.0])
def test_an_operator_that_stands_for_itself_objects_to_the_move_itself(log_snr: float) -> None:
    mask = torch.rand(SIZE, generator=torch.Generator().manual_seed(1)) < 0.4
    conditioning, x = condition(FourierMask(mask), log_snr)
    moved = normal(1, 1, *SIZE, seed=4)
    view = View(conditioning, x, Scales(STD))
    torch.testing.assert_close(view.disagree(moved, None), moved)


def test_coils_object_by_their_own_maps() -> None:
    """C^2 (H v) / s^2 as matrices."""
    operator = make_sense(4)
    conditioning, x = condition(operator, 1.0)
    moved, count = normal(1, 1, *SIZE, seed=4), SIZE[0] * SIZE[1]
    found = View(conditioning, x, Scales(STD)).disagree(moved, None)
    level = conditioning.level
    least = float(level.alpha**2 + (level.sigma / STD) ** 2)
    steep = float(level.sigma / NOISE) ** 2
    units = torch.eye(count, dtype=torch.complex128).reshape(count, 1, *SIZE)
    true, near = (part.gram(units).flatten(1).T for part in (operator, operator.stand_in))
    eye = torch.eye(count, dtype=torch.complex128)
    wanted = torch.linalg.solve(
        least * eye + steep * near, (least * eye + steep * true) @ moved.flatten()
    )
    torch.testing.assert_close(found.flatten(), wanted)


class Same(nn.Module):
    """A network that always says the same, and keeps what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor, log_snr: Tensor) -> Tensor:
        self.seen.append(x)
        return torch.ones_like(x[:, :2])


@pytest.mark.parametrize("demodulate", [False, True])
def test_iterations_move_the_image_on(demodulate: bool) -> None:
    """The first sees no move; each adds its own, and the second is told of the first."""
    conditioning, x = condition(make_sense(4), 1.0)
    parameterisation = Parameterisation(
        prior_std=STD, compare=True, uncertainty=True, demodulate=demodulate
    )
    given = parameterisation.prepare(conditioning, x)
    ends = [given.unit * given.seen]
    for iterations in (1, 2):
        same = Same()
        method = Bayesian(UnrolledNetwork(same, iterations), VP(), parameterisation)
        ends.append(method.estimate(conditioning, x))
    torch.testing.assert_close(ends[2] - ends[1], ends[1] - ends[0])
    first, second = same.seen
    assert first.shape[1] == 2 + parameterisation.extra_channels + 2 * 2
    assert float(first[:, -4:].abs().max()) == 0
    unit = View(conditioning, x, Scales(STD)).left.mean().rsqrt()
    torch.testing.assert_close(second[:, -2:], unit * (second[:, :2] - first[:, :2]))
    assert float((second[:, -4:-2] - second[:, -2:]).abs().max()) > 0.01


@pytest.mark.parametrize("settle", [False, True])
def test_settings_build_it(settle: bool) -> None:
    """No image is recalled: the network is told how far it is from the first."""
    config = parse_config({
        "name": "tiny",
        "data": {"path": "nothing", "size": [16, 16], "channels": 1, "phase": True},
        "operator": {"kind": "family", "members": [{"kind": "receivers", "coils": [2, 4]}]},
        "noise_std": [0.01, 0.1],
        "network": {"width": 8, "multipliers": [1, 2], "attention": [], "iterations": 2},
        "parameterisation": {"probes": True, "uncertainty": True, "compare": True,
                             "settle": settle},
        "training": {"steps": 1},
    })  # fmt: skip
    method = build_method(config, (1, 16, 16))
    maps = draw_birdcage((16, 16), 3, rng=np.random.default_rng(0))
    x = normal(2, 1, 16, 16, seed=2).to(torch.complex64)
    mask = torch.rand(16, 16, generator=torch.Generator().manual_seed(1)) < 0.4
    measurement = Measurement.simulate(x, Sense(maps, mask), 0.05, seed=0)
    level = VP().level(torch.tensor([0.0, 3.0]).double())
    assert method.estimate(Conditioning(measurement, level), x).shape == x.shape
