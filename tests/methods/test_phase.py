"""Complex images are shown to networks without their smooth phase."""

import math

import pytest
import torch
from torch import Tensor, nn

from bcdm.conditioning import Conditioning
from bcdm.diffusion import VP
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian, Parameterisation
from bcdm.methods.parameterisation import find_phase
from bcdm.operators import FourierMask, PixelMask


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Wavy(nn.Module):
    """Any network at all: it treats real and imaginary parts differently."""

    def forward(self, seen: Tensor, log_snr: Tensor, project) -> Tensor:
        return project(torch.complex(seen.real.sin() + seen.imag, seen.real * seen.imag))


def _estimate_turned(phase: Tensor) -> Tensor:
    """What a network that sees no phase makes of an image and data with one."""
    x = torch.complex(normal(1, 1, 16, 16, seed=0) + 2, normal(1, 1, 16, 16, seed=1))
    mask = torch.rand(16, 16, generator=torch.Generator().manual_seed(1)) < 0.5
    y = Measurement.simulate(x, FourierMask(mask), 0.1, seed=2)
    turned = Measurement(phase * y.y, FourierMask(mask), 0.1)
    method = Bayesian(Wavy(), VP(), Parameterisation(prior_std=0.7, demodulate=True))
    level = VP().level(torch.zeros(1).double())
    return method.estimate(Conditioning(turned, level), phase * x)


def test_without_its_phase_an_image_is_the_same_to_any_network() -> None:
    quarter = torch.polar(torch.ones(1), torch.tensor([1.1]))
    torch.testing.assert_close(
        _estimate_turned(quarter), quarter * _estimate_turned(torch.ones(1)), rtol=1e-4, atol=1e-5
    )


def test_a_smooth_phase_is_found() -> None:
    """A ramp of a turn over the image on a noisy one: what is left is about real and positive."""
    ramp = torch.linspace(-3, 3, 64).expand(64, 64)
    noise = torch.complex(normal(1, 1, 64, 64, seed=0), normal(1, 1, 64, 64, seed=1))
    noisy = torch.polar(torch.ones(64, 64), ramp) + noise
    left = find_phase(noisy, torch.tensor([4.0])) * torch.polar(torch.ones(64, 64), -ramp)
    assert float(left.angle().abs().mean()) < 0.1
    with pytest.raises(InputError, match="only complex images have a phase"):
        find_phase(normal(1, 1, 8, 8, seed=0), torch.ones(1))


def test_the_better_an_image_is_known_the_less_its_phase_is_averaged() -> None:
    """Each image by its own reach, and a phase that jumps is followed to a pixel."""
    jump = torch.cat([torch.zeros(32), torch.full((32,), 2.5)]).expand(2, 1, 64, 64)
    found = find_phase(torch.polar(torch.ones(2, 1, 64, 64), jump), torch.tensor([1.0, 4.0]))
    off = (found * torch.polar(torch.ones(1), -jump)).angle().abs() > 0.5
    near, far = off[:, 0, 32].sum(1).tolist()
    assert near <= 2 < far


@pytest.mark.parametrize("log_snr", [-8.0, 9.0, 14.0])
def test_the_level_a_network_is_told_is_that_of_x_t_and_y_together(log_snr: float) -> None:
    """A full scan of noise .01 adds its 1e4 to the SNR of x_t."""
    full = FourierMask(torch.ones(16, 16) > 0)
    measured = Measurement.simulate(torch.ones(1, 1, 16, 16).cfloat(), full, 0.01, seed=0)
    level = VP().level(torch.tensor([log_snr]).double())
    whole = Parameterisation(prior_std=0.5, uncertainty=True, demodulate=True)
    given = whole.prepare(Conditioning(measured, level), measured.back_projection)
    assert given.log_snr.item() == pytest.approx(math.log(1e4 + math.exp(log_snr)), rel=0.01)


@pytest.mark.parametrize(("log_snr", "told"), [(-9.0, -4.0), (-5.0, -4.0), (-3.0, -3.0)])
def test_no_network_is_told_a_level_that_training_hardly_draws(log_snr: float, told: float) -> None:
    """Where nothing is measured the level is that of x_t, but never below the faintest."""
    nothing = PixelMask(torch.zeros(16, 16) > 0)
    measured = Measurement(torch.zeros(1, 1, 16, 16).cfloat(), nothing, 1.0)
    level = VP().level(torch.tensor([log_snr]).double())
    whole = Parameterisation(prior_std=0.5, uncertainty=True, demodulate=True)
    given = whole.prepare(Conditioning(measured, level), measured.y)
    assert given.log_snr.item() == pytest.approx(told, abs=0.01)
