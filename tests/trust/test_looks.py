"""Descriptions of images, beside a slow reading of what they should be."""

import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.evaluation.signal import find_brightness
from bcdm.trust.looks import BANDS, QUANTILES, describe, find_spots


@pytest.fixture
def pictures() -> Tensor:
    return torch.rand(3, 1, 10, 9, generator=torch.Generator().manual_seed(0)) * 2 - 1


def average(grey: np.ndarray, row: int, column: int, reach: int) -> float:
    """Of a square around a pixel, black beyond the border."""
    total = 0.0
    for i in range(row - reach, row + reach + 1):
        for j in range(column - reach, column + reach + 1):
            if 0 <= i < grey.shape[0] and 0 <= j < grey.shape[1]:
                total += grey[i, j]
    return total / (2 * reach + 1) ** 2


def list_spots(grey: np.ndarray) -> list[float]:
    rows, columns = grey.shape
    sharp, patch = [], []
    for i, j in np.ndindex(rows, columns):
        around = (
            grey[i - 1, j] + grey[(i + 1) % rows, j] + grey[i, j - 1] + grey[i, (j + 1) % columns]
        )
        sharp.append(grey[i, j] - around / 4)
        patch.append(average(grey, i, j, 1) - average(grey, i, j, 3))
    return [float(np.log(max(part, 1e-6))) for part in (grey.max(), max(sharp), max(patch))]


def list_energies(grey: np.ndarray) -> list[float]:
    """The log of the mean power in rings of frequency of equal width, up to the corner."""
    power = np.abs(np.fft.fft2(grey, norm="ortho")) ** 2
    rings: dict[int, list[float]] = {}
    width = (0.5**0.5 + 1e-6) / BANDS
    for i, j in np.ndindex(*grey.shape):
        away = np.hypot(np.fft.fftfreq(grey.shape[0])[i], np.fft.fftfreq(grey.shape[1])[j])
        rings.setdefault(int(away / width), []).append(power[i, j])
    return [float(np.log(max(np.mean(rings[k]), 1e-12))) for k in sorted(rings)]


def test_a_description_is_energies_levels_and_spots(pictures: Tensor) -> None:
    found = describe(pictures, -1.0)
    for picture, row in zip(pictures[:, 0].double().numpy(), found, strict=True):
        grey = (picture + 1) / np.quantile(picture + 1, 0.99)
        expected = [*list_energies(grey), *np.quantile(grey, QUANTILES), *list_spots(grey)]
        assert row.tolist() == pytest.approx(expected, rel=1e-5)


def test_colours_are_described_where_there_are_some(pictures: Tensor) -> None:
    colours = torch.cat([pictures, pictures / 2, pictures / 4], 1)
    grey = colours.mean(1, keepdim=True)
    scaled = (colours + 1) / find_brightness(colours, -1.0)[:, None, None, None]
    expected = torch.cat([describe(grey, -1.0), scaled.mean((2, 3)).double()], 1)
    torch.testing.assert_close(describe(colours, -1.0), expected, rtol=1e-5, atol=1e-5)


def test_brightness_and_phase_change_nothing(pictures: Tensor) -> None:
    before = describe(pictures, -1.0)
    torch.testing.assert_close(describe((pictures + 1) * 7, 0.0), before, rtol=1e-5, atol=1e-5)
    turned = (pictures + 1) * torch.tensor(3.0j)
    torch.testing.assert_close(describe(turned, -1.0), before, rtol=1e-5, atol=1e-5)


def test_brightness_is_a_quantile_above_black(pictures: Tensor) -> None:
    expected = [np.quantile(one + 1, 0.99) for one in pictures.numpy()]
    assert find_brightness(pictures, -1.0).tolist() == pytest.approx(expected, rel=1e-5)
    assert find_brightness(torch.full((1, 1, 4, 4), -1.0), -1.0).item() == pytest.approx(1e-6)


def test_a_spot_is_brighter_and_sharper() -> None:
    smooth = torch.ones(1, 1, 32, 32)
    smooth[..., :4] = smooth[..., -4:, :] = 0
    spot = smooth.clone()
    spot[..., 12, 16] = 3
    (before,), (after,) = find_spots(smooth, 0.0), find_spots(spot, 0.0)
    assert after[:2].exp().tolist() == pytest.approx([3, 2])
    assert bool((after[:2] > before[:2]).all())


def test_stored_calibrations_can_be_compared_with() -> None:
    """They hold descriptions at these grey levels: a description must mean the same later."""
    assert QUANTILES == (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.999)
