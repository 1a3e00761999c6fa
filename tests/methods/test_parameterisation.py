"""What errors count in training, per output: by formula, and by what the network gives."""

import pytest
import torch
from torch import Tensor

from bcdm.conditioning import Conditioning
from bcdm.diffusion import VE, VP, Bridge, NoiseLevel, Schedule
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import Parameterisation
from bcdm.methods.view import Scales, View
from bcdm.operators import PixelMask

S = 0.7
WEIGHTS = {
    "image": lambda alpha, sigma: 1.0,
    "residual": lambda alpha, sigma: alpha**2 / sigma**2 + 1 / S**2,
    "denoised": lambda alpha, sigma: alpha**2 / sigma**2 + 1 / S**2,
    "noise": lambda alpha, sigma: alpha**2 / sigma**2,
    "bridge": lambda alpha, sigma: alpha / sigma**2,
}
SCHEDULES: dict[str, list[Schedule]] = {
    name: [Bridge()] if name == "bridge" else [VP(), VE()] for name in WEIGHTS
}
LEVELS = torch.tensor([-6.0, -1.0, 0.5, 3.0, 8.0]).double()


def make(output: str, **more: float) -> Parameterisation:
    statistic = "bridge" if output == "bridge" else "wiener"
    return Parameterisation(statistic, output, prior_std=S, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("output", WEIGHTS)
def test_loss_weights(output: str) -> None:
    for schedule in SCHEDULES[output]:
        level = schedule.level(LEVELS)
        expected = [WEIGHTS[output](float(a), float(s)) for a, s in zip(*level, strict=True)]
        torch.testing.assert_close(make(output).weigh(level), torch.tensor(expected).double())
        # What y fixes beyond the prior, and the network's own error, are not part of it.
        other = make(output, known_std=2.0, model_std=0.1, weight=0.5)
        assert torch.equal(other.weigh(level), make(output).weigh(level))


@pytest.mark.parametrize("output", [name for name in WEIGHTS if name != "image"])
def test_where_nothing_is_measured_the_loss_is_that_of_the_networks_output(output: str) -> None:
    """An output that is off by .3 costs .09, at every level."""
    nothing = PixelMask(torch.zeros(4, 4, dtype=torch.bool))
    measurement = Measurement(torch.zeros(1, 1, 4, 4).double(), nothing, 0.1)
    f = torch.randn(1, 1, 4, 4, generator=torch.Generator().manual_seed(0)).double()
    for schedule in SCHEDULES[output]:
        for log_snr in LEVELS:
            level = schedule.level(log_snr[None])
            given = make(output).prepare(Conditioning(measurement, level), torch.ones_like(f))
            away = given.unit * (given.project(f + 0.3) - given.project(f))
            cost = make(output).weigh(level) * away.square().mean()
            assert float(cost) == pytest.approx(0.09)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"weight": 0.0}, "must be > 0"),
        ({"weight": -1.0}, "must be > 0"),
        ({"prior_std": 0.0}, "must be > 0"),
        ({"known_std": -0.1}, "0 or more"),
        ({"model_std": -0.1}, "0 or more"),
        ({"statistic": "bridge"}, "both a bridge"),
        ({"output": "bridge"}, "both a bridge"),
        ({"settle": True, "statistic": "pivot"}, "Wiener statistic"),
        ({"settle": True, "output": "image"}, "Wiener statistic"),
        ({"settle": True, "known_std": 0.3}, "Wiener statistic"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Parameterisation(**settings)


@pytest.mark.parametrize(
    ("settings", "images", "channels"),
    [
        ({}, 0, 0),
        ({"statistic": "dual"}, 1, 0),
        ({"statistic": "dual_wiener"}, 1, 0),
        ({"statistic": "joint"}, 2, 0),
        ({"statistic": "joint", "probes": True}, 2, 2),
        ({"probes": True}, 0, 2),
    ],
)
@pytest.mark.parametrize("number", [torch.float64, torch.complex128])
def test_the_channels_that_are_promised_come(
    settings: dict, images: int, channels: int, number: torch.dtype
) -> None:
    parameterisation = Parameterisation(**settings)
    assert (parameterisation.extra_images, parameterisation.extra_channels) == (images, channels)
    x_t = torch.ones(2, 3, 4, 4, dtype=number)
    mask = PixelMask(torch.arange(16).reshape(4, 4) % 3 == 0)
    level: NoiseLevel = VP().level(torch.tensor([1.0]).double())
    extra: Tensor | None = parameterisation.prepare(
        Conditioning(Measurement(x_t, mask, 0.1), level), x_t
    ).extra
    expected = images * 3 * (2 if number.is_complex else 1) + channels
    assert (0 if extra is None else extra.shape[1]) == expected


@pytest.mark.parametrize(("measured", "factor"), [(0.0, 10.8), (1.0, 1.0)])
def test_errors_where_nothing_is_known_count_less(measured: float, factor: float) -> None:
    """In units of what is left they are larger, and would make most of the gradient."""
    x_t = torch.ones(1, 1, 8, 8).double()
    mask = PixelMask(torch.full((8, 8), measured > 0))
    conditioning = Conditioning(Measurement(x_t, mask, 1e-3), VP().level(torch.tensor([-9.0])))
    given = Parameterisation(uncertainty=True).prepare(conditioning, x_t)
    left = View(conditioning, x_t, Scales(0.5)).left.mean()
    plain = Parameterisation().prepare(conditioning, x_t).weight / left
    assert float(plain / given.weight) == pytest.approx(factor, rel=0.01)


def test_settings_that_are_left_out() -> None:
    assert Parameterisation() == Parameterisation("wiener", "residual", 0.01, 0.5, 0.0, 0.0, False)
    assert Parameterisation(prior_std=0.3).scales == Scales(0.3) == Scales(0.3, 0.0)
