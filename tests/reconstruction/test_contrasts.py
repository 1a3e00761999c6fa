"""Other contrasts are drawn from images of training."""

import numpy as np
import pytest
import torch

from bcdm.reconstruction.contrasts import change_contrast, change_gain


def draw_heads(count: int) -> torch.Tensor:
    """Blurred noise on a disc, black around it, in [-1, 1]."""
    coarse = torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    grey = torch.nn.functional.interpolate(coarse, size=32, mode="bicubic").clamp(0.15, 1)
    place = torch.arange(32.0) - 15.5
    return torch.where(torch.hypot(place[:, None], place[None]) < 13, 2 * grey - 1, -1.0)


def test_grey_levels_are_mapped_and_hardly_correlated() -> None:
    images = draw_heads(12)
    changed = change_contrast(images, (-1.0, 1.0), 0)
    assert changed.shape == images.shape
    assert changed.dtype == images.dtype
    for image, other in zip(images[:, 0], changed[:, 0], strict=True):
        inside = image > -1
        assert bool((other[~inside] == -1).all())  # air stays black
        alike = np.corrcoef(image[inside], other[inside])[0, 1]
        assert alike < 0.6
        # The same grey level becomes the same: a curve, and nothing else.
        jumps = other[inside][image[inside].argsort()].diff().abs()
        assert float(jumps.max()) < 0.3
        before, after = (float((one + 1).quantile(0.99)) for one in (image, other))
        assert after == pytest.approx(before, rel=0.01)


def test_an_image_is_drawn_for_its_place_and_seed() -> None:
    images = draw_heads(4)
    changed = change_contrast(images, (-1.0, 1.0), 0)
    assert torch.equal(change_contrast(images[:2], (-1.0, 1.0), 0), changed[:2])
    assert not torch.equal(change_contrast(images, (-1.0, 1.0), 1), changed)
    twice = change_contrast(torch.cat([images, images]), (-1.0, 1.0), 0)
    assert not torch.equal(twice[4:], twice[:4])


def test_black_and_white_are_those_of_the_model() -> None:
    images = draw_heads(3)
    unit = change_contrast((images + 1) / 2, (0.0, 1.0), 0)
    torch.testing.assert_close(2 * unit - 1, change_contrast(images, (-1.0, 1.0), 0))


def test_an_image_without_grey_levels_stays_finite() -> None:
    flat = torch.cat([torch.full((1, 1, 8, 8), -1.0), torch.ones(1, 1, 8, 8)])
    assert bool(change_contrast(flat, (-1.0, 1.0), 0).isfinite().all())


def test_gains_scale_what_is_above_black() -> None:
    images = draw_heads(40)
    ratios = (change_gain(images, -1.0, 0) + 1).flatten(1).sum(1) / (images + 1).flatten(1).sum(1)
    assert 0.7 <= float(ratios.min()) < 0.8
    assert 1.25 < float(ratios.max()) <= 1.4
    assert bool((change_gain(images, -1.0, 0)[images == -1] == -1).all())


def test_complex_images_keep_their_phase() -> None:
    sizes = (draw_heads(3) + 1) / 2
    phases = torch.linspace(-3, 3, 32).expand_as(sizes)
    changed = change_contrast(torch.polar(sizes, phases), (0.0, 1.0), 0)
    torch.testing.assert_close(changed.abs(), change_contrast(sizes, (0.0, 1.0), 0))
    seen = changed.abs() > 0.01
    torch.testing.assert_close(changed.angle()[seen], phases[seen])
    brighter = change_gain(changed, 0.0, 0)
    torch.testing.assert_close(brighter.abs(), change_gain(changed.abs(), 0.0, 0))
