"""Preparation: exact where it says exact, and back to native units."""

import numpy as np
import pytest
import torch

from bcdm.data import Augmentation, Preparation
from bcdm.errors import InputError, ShapeError


def draw_image(*shape: int, high: int = 256) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(0, high, shape, generator=generator).float()


@pytest.mark.parametrize(("factor_y", "factor_x"), [(2, 2), (4, 1), (3, 5)])
@pytest.mark.parametrize("high", [256, 65536])
def test_integer_shrinking_is_the_exact_block_mean(factor_y: int, factor_x: int, high: int) -> None:
    image = draw_image(3, 12, 20, high=high)
    size = (12 // factor_y, 20 // factor_x)
    shrunk = Preparation(size=size).arrange(image)
    for row in range(size[0]):
        for column in range(size[1]):
            rows = slice(row * factor_y, (row + 1) * factor_y)
            columns = slice(column * factor_x, (column + 1) * factor_x)
            expected = image[:, rows, columns].double().mean((1, 2)).float()
            assert torch.equal(shrunk[:, row, column], expected)


def test_block_mean_of_large_white_blocks_is_white() -> None:
    white = torch.full((1, 1024, 1024), 65535.0)
    assert torch.equal(Preparation(size=(1, 1)).arrange(white), torch.full((1, 1, 1), 65535.0))


def triangle_weights(length: int, size: int) -> torch.Tensor:
    """The matrix (size, length) of a triangle filter that widens with the shrinking factor."""
    scale = length / size
    centres = (torch.arange(size, dtype=torch.float64)[:, None] + 0.5) * scale
    pixels = torch.arange(length, dtype=torch.float64) + 0.5
    weights = (1 - (pixels - centres).abs() / max(scale, 1.0)).clamp(min=0)
    return weights / weights.sum(1, keepdim=True)


@pytest.mark.parametrize("size", [(5, 7), (24, 40), (12, 11), (30, 10), (9, 33)])
def test_other_sizes_filter_by_a_triangle(size: tuple[int, int]) -> None:
    image = draw_image(3, 12, 20)
    rows, columns = triangle_weights(12, size[0]), triangle_weights(20, size[1])
    expected = rows @ image.double() @ columns.T
    found = Preparation(size=size).arrange(image).double()
    torch.testing.assert_close(found, expected, atol=255 * 5e-6, rtol=0)


def test_the_resize_keeps_an_image_of_the_right_size() -> None:
    image = draw_image(3, 6, 8)
    assert torch.equal(Preparation(size=(6, 8)).arrange(image), image)


def test_crop_takes_the_named_box() -> None:
    image = draw_image(1, 128, 128)
    cropped = Preparation(crop=(8, 16, 120, 96)).arrange(image)
    assert torch.equal(cropped, image[:, 8:128, 16:112])
    both = Preparation(crop=(8, 16, 120, 96), size=(60, 48)).arrange(image)
    assert both.shape == (1, 60, 48)
    assert both[0, 0, 0] == image[0, 8:10, 16:18].mean()
    with pytest.raises(ShapeError, match="reaches beyond"):
        Preparation(crop=(9, 16, 120, 96)).arrange(image)


def test_grey_and_colour() -> None:
    grey = torch.arange(256.0).reshape(1, 16, 16)
    colour = Preparation(channels=3).arrange(grey)
    assert torch.equal(colour, torch.cat([grey] * 3))
    assert torch.equal(Preparation(channels=1).arrange(colour), grey)
    red = torch.tensor([255.0, 0.0, 0.0]).reshape(3, 1, 1)
    assert Preparation(channels=1).arrange(red).item() == pytest.approx(0.299 * 255)
    assert torch.equal(Preparation(channels=3).arrange(red), red)
    with pytest.raises(ShapeError, match="2 channels"):
        Preparation(channels=1).arrange(torch.zeros(2, 4, 4))


@pytest.mark.parametrize("high", [255, 65535])
@pytest.mark.parametrize("target", [(-1.0, 1.0), (0.0, 1.0), (-0.5, 3.5)])
def test_range_maps_ends_exactly_and_returns(high: int, target: tuple[float, float]) -> None:
    preparation = Preparation(value_range=target, source_range=(0.0, float(high)))
    levels = torch.arange(high + 1.0).reshape(1, 1, -1)
    x = preparation(levels)
    assert x[0, 0, 0].item() == target[0]
    assert x[0, 0, -1].item() == target[1]
    assert (x.diff() > 0).all()
    # float32 resolves 16 bits with room to spare.
    assert torch.equal(preparation.restore(x).round(), levels)
    torch.testing.assert_close(preparation.restore(x), levels, atol=high * 5e-7, rtol=0)


def test_values_beyond_the_range_are_not_clipped() -> None:
    preparation = Preparation(source_range=(0.0, 1.0))
    x = preparation(torch.tensor([[[-0.5, 1.5]]]))
    assert x.flatten().tolist() == [-2.0, 2.0]
    assert preparation.restore(x).flatten().tolist() == [-0.5, 1.5]


def test_unit_converts_standard_deviations() -> None:
    preparation = Preparation(source_range=(0.0, 4095.0), value_range=(-1.0, 1.0))
    x = draw_image(4, 8, 8) / 128 - 1
    torch.testing.assert_close(preparation.restore(x).std(), x.std() * preparation.unit)


def test_restore_takes_batches() -> None:
    preparation = Preparation()
    x = torch.rand(2, 5, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(preparation.restore(x)[1, 2], preparation.restore(x[1, 2]))


def test_inputs_are_left_alone() -> None:
    image = draw_image(3, 8, 8)
    before = image.clone()
    Preparation(size=(4, 4), channels=1)(image).zero_()
    Preparation()(image).zero_()
    Augmentation(flip=True, shift=3).augment(image, np.random.default_rng(0))
    assert torch.equal(image, before)


@pytest.mark.parametrize(
    "settings",
    [
        {"size": (0, 4)},
        {"size": (4,)},
        {"channels": 2},
        {"value_range": (1.0, 1.0)},
        {"source_range": (0.0, float("inf"))},
        {"crop": (0, 0, 0, 4)},
        {"crop": (-1, 0, 4, 4)},
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(InputError, match="must be"):
        Preparation(**settings)  # type: ignore[arg-type]


def test_only_single_images_are_prepared() -> None:
    with pytest.raises(ShapeError, match="one image"):
        Preparation()(torch.zeros(2, 1, 4, 4))


def test_no_augmentation_changes_nothing() -> None:
    image = draw_image(3, 6, 7)
    for seed in range(8):
        assert torch.equal(Augmentation().augment(image, np.random.default_rng(seed)), image)


def test_flip_mirrors_half_of_the_images() -> None:
    image = draw_image(1, 6, 7)
    flipped = 0
    for seed in range(400):
        found = Augmentation(flip=True).augment(image, np.random.default_rng(seed))
        is_flipped = torch.equal(found, image.flip(-1))
        assert is_flipped or torch.equal(found, image)
        flipped += is_flipped
    assert abs(flipped - 200) < 4 * 10


def test_shift_moves_by_every_amount_and_repeats_the_edge() -> None:
    image = draw_image(2, 6, 7)
    padded = torch.nn.functional.pad(image[None], (2, 2, 2, 2), mode="replicate")[0]
    moved = {
        (down, right): padded[:, 2 - down : 8 - down, 2 - right : 9 - right]
        for down in range(-2, 3)
        for right in range(-2, 3)
    }
    seen = set()
    for seed in range(400):
        found = Augmentation(shift=2).augment(image, np.random.default_rng(seed))
        matches = [move for move, expected in moved.items() if torch.equal(found, expected)]
        assert len(matches) == 1
        seen.update(matches)
    assert seen == set(moved)


def test_shifts_beyond_the_image_leave_its_edge() -> None:
    image = draw_image(1, 3, 3)
    for seed in range(20):
        found = Augmentation(shift=30).augment(image, np.random.default_rng(seed))
        assert found.shape == image.shape
        assert set(found.flatten().tolist()) <= set(image.flatten().tolist())


def test_augmentation_is_a_function_of_the_generator() -> None:
    image, settings = draw_image(3, 9, 9), Augmentation(flip=True, shift=4)
    first, again = (settings.augment(image, np.random.default_rng(5)) for _ in range(2))
    assert torch.equal(first, again)


def test_a_negative_shift_is_refused() -> None:
    with pytest.raises(InputError, match="shift -1"):
        Augmentation(shift=-1)
