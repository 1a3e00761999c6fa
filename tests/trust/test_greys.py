"""Grey levels inside an object: what they depend on, and what not."""

import pytest
import torch
from torch import Tensor

from bcdm.trust.greys import QUANTILES, RINGS, describe_greys

COUNT = len(QUANTILES)


def draw_disc(radius: float, middle: float, edge: float, shift: int = 0) -> Tensor:
    """A disc whose grey level goes from `middle` to `edge`, on black; (1, 1, 64, 64)."""
    place = torch.arange(64.0) - 31.5
    away = torch.hypot(place[:, None], place[None]) / radius
    grey = torch.where(away < 1, middle + (edge - middle) * away, 0.0)
    return grey.roll(shift, -1)[None, None]


def test_neither_brightness_nor_place_nor_size_counts() -> None:
    whole = describe_greys(draw_disc(20, 1.0, 0.5), 0.0)
    assert whole.shape == (1, COUNT + 2 * RINGS)
    torch.testing.assert_close(describe_greys(3 * draw_disc(20, 1.0, 0.5), 0.0), whole)
    moved = describe_greys(draw_disc(20, 1.0, 0.5, shift=7), 0.0)
    torch.testing.assert_close(moved, whole)
    above = describe_greys(draw_disc(20, 2.0, 1.0) - 1, -1.0)
    torch.testing.assert_close(above, whole)
    # Its edge is a few pixels wide, whatever its size.
    smaller = describe_greys(draw_disc(15, 1.0, 0.5), 0.0)[:, 4:COUNT]
    torch.testing.assert_close(smaller, whole[:, 4:COUNT], atol=0.06, rtol=0)


@pytest.mark.parametrize(("middle", "edge", "falls"), [(1.0, 0.5, True), (0.5, 1.0, False)])
def test_rings_go_from_the_middle_to_the_edge(middle: float, edge: float, falls: bool) -> None:
    rings = describe_greys(draw_disc(20, middle, edge), 0.0)[0, COUNT : COUNT + RINGS - 1]
    steps = rings.diff()
    assert bool((steps < 0).all() if falls else (steps > 0).all())


def test_levels_are_those_of_the_object_over_its_mean() -> None:
    image = torch.ones(1, 1, 64, 64, dtype=torch.float64)
    image[..., :32] = 3
    found = describe_greys(image, 0.0)[0].exp()
    assert found[:COUNT].tolist() == pytest.approx([0.5] * 5 + [1.0] + [1.5] * 5)
    assert found[COUNT : COUNT + RINGS].tolist() == pytest.approx([1.0] * RINGS, abs=0.05)
    assert found[COUNT + RINGS :].tolist() == pytest.approx([0.5] * RINGS, abs=0.01)


def test_an_image_without_an_object_is_described_whole() -> None:
    black = describe_greys(torch.zeros(2, 1, 8, 8), 0.0)
    assert bool(black.isfinite().all())
    broken = describe_greys(torch.full((1, 1, 8, 8), torch.nan), 0.0)
    assert bool(broken.isnan().all())


def test_complex_images_count_by_their_size() -> None:
    image = draw_disc(20, 1.0, 0.5)
    turned = image * torch.exp(torch.tensor(1j))
    torch.testing.assert_close(describe_greys(turned, -1.0), describe_greys(image, 0.0))
