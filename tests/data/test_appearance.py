import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.data import Augmentation
from bcdm.data.appearance import change_contrast, turn_image
from bcdm.errors import InputError


def make_rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def make_disc(side: int = 32) -> Tensor:
    place = torch.arange(float(side)) - (side - 1) / 2
    radius = (place[:, None] ** 2 + place**2).sqrt()
    return torch.sigmoid(side / 3 - radius)[None]  # an edge of about two pixels


@pytest.mark.parametrize("value_range", [(0.0, 1.0), (-1.0, 1.0)])
def test_black_stays_black_and_the_range_is_used(value_range: tuple[float, float]) -> None:
    low, high = value_range
    ramp = torch.linspace(low, high, 601).reshape(1, 1, -1)
    for seed in range(20):
        changed = change_contrast(ramp, value_range, make_rng(seed))
        assert float(changed[0, 0, 0]) == pytest.approx(low)
        assert float(changed.max()) == pytest.approx(high, abs=1e-5)
        assert float(changed.min()) >= low - 1e-6


def test_some_contrasts_rise_and_some_turn_over() -> None:
    ramp = torch.linspace(0, 1, 601).reshape(1, 1, -1)
    rising = [
        bool((change_contrast(ramp, (0, 1), make_rng(k)).diff() >= 0).all()) for k in range(60)
    ]
    assert 15 < sum(rising) < 45


def test_a_disc_turned_is_the_same_disc() -> None:
    disc = make_disc()
    turned = turn_image(disc, 180.0, 0.0, make_rng())
    assert float((turned - disc).abs().max()) < 0.05


def test_a_turn_keeps_angles_in_images_that_are_not_square() -> None:
    """A diagonal line turned by 45 degrees lies along an axis, whatever the sides."""

    class Fixed(np.random.Generator):
        def uniform(self, low: float = 0.0, high: float = 1.0, size: None = None) -> float:
            return high if high == 45 else 0.0

    rows, columns = torch.meshgrid(torch.arange(33.0) - 16, torch.arange(65.0) - 32, indexing="ij")
    near = (rows - columns).abs() / 2**0.5
    line = torch.exp(-((near / 1.5) ** 2)) * (rows.hypot(columns) < 14)
    turned = turn_image(line[None], 45.0, 0.0, Fixed(np.random.PCG64(0)))[0]
    along = turned.sum(0).max(), turned.sum(1).max()
    assert float(max(along)) > 4 * float(min(along))


def test_a_zoom_changes_the_size() -> None:
    areas = [float(turn_image(make_disc(64), 0.0, 0.5, make_rng(k)).sum()) for k in range(40)]
    whole = float(make_disc(64).sum())
    assert min(areas) < 0.7 * whole
    assert max(areas) > 1.4 * whole


def test_without_settings_nothing_changes() -> None:
    image = torch.rand(1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Augmentation().augment(image, make_rng()), image)


def test_images_become_complex_with_their_magnitude() -> None:
    image = make_disc()
    augmentation = Augmentation(value_range=(0.0, 1.0), phase=True)
    one, two = (augmentation.augment(image, make_rng(3)) for _ in range(2))
    assert one.dtype == torch.complex64
    assert torch.equal(one, two)
    torch.testing.assert_close(one.abs(), image, rtol=0, atol=1e-6)
    assert float(one.imag.abs().max()) > 0.1


def test_shading_keeps_black_and_the_brightest() -> None:
    image = torch.rand(1, 16, 16, generator=torch.Generator().manual_seed(0))
    image[:, :4] = 0
    changes = Augmentation(value_range=(0.0, 1.0), shading=0.5)
    shaded = changes.augment(image, np.random.default_rng(0))
    assert bool((shaded[:, :4] == 0).all())
    assert float(shaded.max()) == pytest.approx(float(image.max()))
    assert not torch.allclose(shaded, image, atol=0.01)


def test_older_augmentations_are_what_they_were() -> None:
    image = torch.rand(1, 16, 16, generator=torch.Generator().manual_seed(0))
    older = Augmentation(flip=True, shift=2, value_range=(0.0, 1.0))
    newer = Augmentation(flip=True, shift=2, value_range=(0.0, 1.0), phase=True)
    torch.testing.assert_close(
        newer.augment(image, make_rng(5)).abs(), older.augment(image, make_rng(5))
    )


def test_refuses() -> None:
    with pytest.raises(InputError, match="value_range from 0"):
        Augmentation(phase=True)
    with pytest.raises(InputError, match="contrast is a fraction"):
        Augmentation(contrast=2.0)


@pytest.mark.parametrize("size", [(32, 32), (31, 30), (30, 33)])
def test_what_is_sharp_stays_sharp_when_it_turns(size: tuple[int, int]) -> None:
    """Noise loses nothing of its power, but what leaves the view; a curve through pixels does."""
    noise = torch.randn(200, *size, generator=torch.Generator().manual_seed(0))
    middle = (slice(None), slice(8, -8), slice(8, -8))
    for seed in range(4):
        turned = turn_image(noise, 15.0, 0.0, make_rng(seed))
        assert float(turned[middle].std()) == pytest.approx(1.0, abs=0.08)


def test_a_turn_by_nothing_changes_nothing() -> None:
    disc = make_disc()
    assert torch.allclose(turn_image(disc, 0.0, 1e-9, make_rng()), disc, atol=1e-3)
