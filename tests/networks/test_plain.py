"""The plain backbone: start values, sizes, levels, settings, and that it learns."""

import pytest
import torch
from torch import Tensor

from bcdm.checkpoint.settings import NetworkConfig
from bcdm.errors import InputError
from bcdm.networks import NCSNppConfig, PlainUNet

TINY = NCSNppConfig(width=4, multipliers=(1, 2, 3), blocks=1, patch=2, channels_in=3)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def perturb(network: PlainUNet) -> PlainUNet:
    """Leaves no weight at zero, as after some training."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.1)
    return network


def test_it_starts_at_zero_and_by_its_seed_alone() -> None:
    torch.manual_seed(0)
    first = PlainUNet(TINY, seed=3)
    state = torch.get_rng_state()
    torch.manual_seed(1)
    second, other = PlainUNet(TINY, seed=3), PlainUNet(TINY, seed=4)
    assert torch.equal(first(draw(1, 3, 16, 16), torch.zeros(1)), torch.zeros(1, 1, 16, 16))
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name])
    assert not torch.equal(first.stem.weight, other.stem.weight)
    torch.manual_seed(0)
    assert torch.equal(state, torch.get_rng_state()), "the caller's random numbers are his"


@pytest.mark.parametrize("size", [(16, 16), (17, 30), (5, 3)])
def test_any_size_and_a_place_is_treated_alike_wherever_it_is(size: tuple[int, int]) -> None:
    network = perturb(PlainUNet(TINY))
    assert network(draw(2, 3, *size), torch.zeros(1)).shape == (2, 1, *size)
    wide = draw(1, 3, 128, 128)
    moved = wide.roll(8, -1)
    found, other = (
        network(x, torch.zeros(1)).roll(shift, -1) for x, shift in ((wide, 8), (moved, 0))
    )
    inside = (..., slice(56, 72), slice(56, 72))
    torch.testing.assert_close(found[inside], other[inside], rtol=1e-4, atol=1e-5)


def test_the_level_is_seen_and_each_image_by_its_own() -> None:
    network = perturb(PlainUNet(TINY))
    x, levels = draw(2, 3, 16, 16), torch.tensor([-3.0, 5.0])
    both = network(x, levels)
    for k in range(2):
        alone = network(x[k : k + 1], levels[k : k + 1])
        torch.testing.assert_close(both[k : k + 1], alone, rtol=1e-4, atol=1e-5)
    assert (network(x, levels.flip(0)) - both).abs().max() > 0.01


def test_bfloat16_is_near_float32() -> None:
    network, x = perturb(PlainUNet(TINY)), draw(1, 3, 16, 16)
    full = network(x, torch.zeros(1))
    with torch.autocast("cpu", torch.bfloat16):
        half = network(x, torch.zeros(1))
    assert half.dtype == torch.float32
    assert (half - full).norm() < 0.03 * full.norm()


def test_it_learns_to_tell_noise_from_stripes() -> None:
    config = NCSNppConfig(width=8, multipliers=(1, 2), blocks=1)
    network = PlainUNet(config)
    optimiser = torch.optim.Adam(network.parameters(), 3e-3)
    stripes = torch.sin(torch.arange(16) * 0.8).expand(8, 1, 16, 16)
    for step in range(150):
        noisy = stripes + draw(8, 1, 16, 16, seed=step)
        loss = (noisy + network(noisy, torch.zeros(1)) - stripes).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    # A network of zeros has 1, the best linear filter of 3x3 pixels about .2.
    assert loss.item() < 0.1


def test_settings_that_would_say_nothing_are_refused() -> None:
    assert NetworkConfig(kind="plain", width=8, patch=2).kind == "plain"
    with pytest.raises(InputError, match="a plain network has no attention, fir: leave out"):
        NetworkConfig(kind="plain", attention=(), fir=False)
