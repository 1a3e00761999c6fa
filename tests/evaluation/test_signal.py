"""Where an image has its object."""

import pytest
import torch

from bcdm.evaluation.signal import find_brightness, find_object, find_signal


def test_the_signal_is_a_mean_over_neighbours_in_units_of_the_brightness() -> None:
    image = torch.full((2, 1, 24, 24), -1.0)
    image[0, 0, 6:18, 6:18] = 1.0
    image[1, 0, 6:18, 6:18] = -0.5
    found = find_signal(image, -1.0)
    assert found.shape == (2, 1, 24, 24)
    # Whatever the brightness: within the square, at its edge, at its corner, and far away.
    for one in found[:, 0]:
        places = [one[10, 10], one[6, 10], one[6, 6], one[4, 10], one[1, 1]]
        assert [float(v) for v in places] == pytest.approx([1, 0.6, 0.36, 0.2, 0])


def test_the_border_is_as_bright_as_its_neighbours() -> None:
    assert find_signal(torch.ones(1, 1, 8, 8), 0.0).flatten().tolist() == pytest.approx([1.0] * 64)


def test_channels_and_phase_are_averaged_and_ignored() -> None:
    image = torch.rand(1, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    grey = find_signal(image.mean(1, keepdim=True), 0.0)
    torch.testing.assert_close(find_signal(image, 0.0), grey)
    torch.testing.assert_close(find_signal(image * 1j, 0.0), grey)
    expected = image.mean(1).flatten().quantile(0.99)
    torch.testing.assert_close(find_brightness(image, 0.0)[0], expected)


def test_the_object_is_what_is_no_air_and_all_of_a_black_image() -> None:
    images = torch.full((2, 1, 16, 16), -1.0)
    images[0, :, 4:12, 4:12] = 1
    inside, black = find_object(images, -1.0)[:, 0]
    assert bool(inside[4:12, 4:12].all())
    assert not bool(inside[:1].any())
    assert bool(black.all())
