import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.conditioning import Conditioning
from bcdm.diffusion import VP
from bcdm.errors import InputError, ShapeError
from bcdm.measurement import Measurement
from bcdm.methods.view import Scales, View
from bcdm.operators import Sense
from bcdm.problems.coils import draw_birdcage, draw_smooth, normalise_maps, warp_maps


def make_rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def find_roughness(maps: Tensor) -> float:
    """How much neighbours differ, over the size of the maps."""
    return float(maps.diff(dim=-1).abs().square().mean().sqrt() / maps.abs().square().mean().sqrt())


@pytest.mark.parametrize("draw", [draw_birdcage, draw_smooth])
@pytest.mark.parametrize("coils", [1, 3, 16])
def test_drawn_maps_are_smooth_and_normalised(draw, coils: int) -> None:
    maps = draw((48, 64), coils, rng=make_rng())
    assert maps.shape == (coils, 48, 64)
    assert maps.dtype == torch.complex64
    torch.testing.assert_close(maps.abs().square().sum(0), torch.ones(48, 64))
    assert find_roughness(maps) < 0.2
    torch.testing.assert_close(maps, draw((48, 64), coils, rng=make_rng()))
    assert not torch.allclose(maps, draw((48, 64), coils, rng=make_rng(1)))


@pytest.mark.parametrize("seed", range(5))
def test_no_drawn_map_jumps(seed: int) -> None:
    """On a grid twice as fine neighbours differ by half."""
    steps = [
        max(float(maps.diff(dim=axis).abs().max()) for axis in (-2, -1))
        for side in (128, 256)
        for maps in [draw_birdcage((side, side), 8, rng=make_rng(seed))]
    ]
    assert steps[0] < 0.2
    assert steps[1] == pytest.approx(steps[0] / 2, rel=0.1)


def test_loops_see_different_sides() -> None:
    maps = draw_birdcage((32, 32), 8, rng=make_rng()).abs()
    brightest = maps.flatten(1).argmax(1)
    assert len(brightest.unique()) == 8
    away = torch.hypot(brightest // 32 - 15.5, brightest % 32 - 15.5)
    assert bool((away > 8).all())


def find_left(maps: Tensor) -> float:
    """The share of the variance that a quarter of the lines leave unknown, noise .01."""
    size = (64, 64)
    mask = (torch.arange(64) % 4 == 0) | ((torch.arange(64) - 32).abs() < 3)
    data = torch.zeros(1, len(maps), *size, dtype=torch.complex64)
    measurement = Measurement(data, Sense(maps, mask.expand(size)), 0.01)
    conditioning = Conditioning(measurement, VP().level(torch.tensor([-9.0]).double()))
    nothing = torch.zeros(1, 1, *size, dtype=torch.complex64)
    return float(View(conditioning, nothing, Scales(0.15)).left.mean())


def test_loops_tell_parts_apart_better_than_few_cosines() -> None:
    """As arrays of scanners do: networks must meet scans that coils nearly solve."""
    loops, cosines = (
        np.median([find_left(draw((64, 64), 16, rng=make_rng(seed))) for seed in range(5)])
        for draw in (draw_birdcage, draw_smooth)
    )
    assert loops < 0.5 * cosines


@pytest.mark.parametrize("seed", range(6))
def test_measured_maps_stay_inside_of_what_was_measured(seed: int) -> None:
    """Of maps that are linear in the place, no place outside of the field of view is taken."""
    rows, columns = torch.meshgrid(*[torch.linspace(-1, 1, 33)] * 2, indexing="ij")
    measured = torch.stack([torch.ones_like(rows), rows, columns]).to(torch.complex64)
    warped = warp_maps(measured, (20, 24), 3, rng=make_rng(seed))
    assert warped.shape == (3, 20, 24)
    torch.testing.assert_close(warped.abs().square().sum(0), torch.ones(20, 24))
    assert find_roughness(warped) < 0.3


def test_a_warp_moves_and_mixes() -> None:
    measured = draw_birdcage((32, 32), 8, rng=make_rng())
    several = [warp_maps(measured, (32, 32), 4, rng=make_rng(seed)) for seed in range(5)]
    assert len({round(float(maps[0, 3, 5].real), 4) for maps in several}) == 5


def test_refuses() -> None:
    with pytest.raises(InputError, match="0 coils"):
        draw_birdcage((32, 32), 0, rng=make_rng())
    with pytest.raises(InputError, match="9 coils"):
        warp_maps(draw_birdcage((32, 32), 8, rng=make_rng()), (32, 32), 9, rng=make_rng())
    with pytest.raises(ShapeError, match="measured maps are complex"):
        warp_maps(torch.zeros(8, 32, 32), (32, 32), 4, rng=make_rng())


def test_what_no_coil_sees_stays_unseen() -> None:
    maps = torch.zeros(2, 4, 4, dtype=torch.complex64)
    assert not bool(normalise_maps(maps).abs().any())
