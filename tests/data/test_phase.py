import numpy as np
import torch
from torch import Tensor

from bcdm.data.phase import draw_local_phase, draw_phase, draw_shading


def test_a_phase_is_a_function_of_its_generator() -> None:
    one, two = (draw_phase((24, 32), rng=np.random.default_rng(0)) for _ in range(2))
    assert one.shape == (24, 32)
    assert torch.equal(one, two)


def test_phases_are_as_smooth_at_any_size() -> None:
    """Steps between neighbours, times the side, are the same for 32 and 128 pixels."""
    found = []
    for side in (32, 128):
        drawn = [draw_phase((side, side), rng=np.random.default_rng(k)) for k in range(200)]
        steps = torch.stack([phase.diff(dim=0).abs().mean() for phase in drawn])
        found.append(side * float(steps.median()))
    assert abs(found[0] / found[1] - 1) < 0.25


def remove_ramp(image: Tensor) -> Tensor:
    """Takes the mean step of the phase along each axis away."""
    for axis in (0, 1):
        side = image.shape[axis]
        step = torch.angle((image.roll(-1, axis) * image.conj()).narrow(axis, 0, side - 1).sum())
        turned = torch.polar(torch.ones(side), -step * torch.arange(side))
        image = image * turned.reshape(-1, 1) if axis == 0 else image * turned
    return image


def test_the_spread_is_that_of_true_phases() -> None:
    """Without the ramp, a quarter of the field of view apart: some next to none, some above 1.5."""
    side, spreads = 64, []
    for k in range(300):
        phase = draw_phase((side, side), rng=np.random.default_rng(k))
        flat = remove_ramp(torch.polar(torch.ones(side, side), phase))
        apart = (flat[side // 4 :] * flat[: -(side // 4)].conj()).mean().abs()
        spreads.append(float((-2 * apart.clamp_min(1e-6).log()).sqrt()))
    low, high = np.quantile(spreads, [0.1, 0.9])
    assert low < 0.3
    assert high > 1.5


def test_shading_is_smooth_and_at_most_one() -> None:
    drawn = [draw_shading((32, 48), 0.5, rng=np.random.default_rng(k)) for k in range(20)]
    for field in drawn:
        assert float(field.max()) == 1
        assert float(field.min()) > 0
        assert float(field.diff(dim=0).abs().max()) < 0.1
    assert min(float(field.min()) for field in drawn) < 0.4


def test_half_of_phases_turn_fast_somewhere_and_a_quarter_jump_at_the_rim() -> None:
    place = torch.arange(64) - 31.5
    disc = ((place[:, None] ** 2 + place**2) < 24**2).float()
    bent = jumping = 0
    for k in range(400):
        phase = draw_local_phase(disc, rng=np.random.default_rng(k))
        assert phase.shape == (64, 64)
        assert torch.equal(phase, draw_local_phase(disc, rng=np.random.default_rng(k)))
        bent += bool(phase.any())
        # Outside of the disc there is no bend to hide it, and the rim ends inside of the disc.
        steps = phase.diff(dim=1)[32, 32:].abs()
        jumping += bool(steps.max() > 0.2 and steps.max() > 4 * steps.sort().values[-2])
    assert 160 < bent < 240
    assert 40 < jumping < 130
