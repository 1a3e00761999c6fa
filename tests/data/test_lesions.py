"""Lesions: inside the object, of the stated size and contrast, a function of the generator."""

import numpy as np
import torch

from bcdm.data import Augmentation
from bcdm.data.lesions import add_lesions

RANGE = (-1.0, 1.0)


def make_head(side: int = 64) -> torch.Tensor:
    """A grey disc in air."""
    axis = torch.arange(side) - side / 2
    return torch.where(torch.hypot(axis[:, None], axis) < 0.35 * side, 0.0, -1.0)[None]


def draw(seed: int, side: int = 64) -> torch.Tensor:
    return add_lesions(make_head(side), RANGE, np.random.default_rng(seed)) - make_head(side)


def test_lesions_have_the_stated_contrast_and_size() -> None:
    peaks, areas = [], []
    for seed in range(200):
        change = draw(seed)
        peaks.append(float(change.abs().max()))
        areas.append(int((change.abs() > 0.05).sum()))
    # Up to 40 % of a range of 2, three of which may lie upon each other; values end at the range.
    assert max(peaks) <= 1.0
    assert 0.2 < float(np.median(peaks)) < 0.8
    assert max(areas) < 3 * np.pi * 8**2
    assert float(np.median(areas)) > 5


def test_lesions_are_bright_and_dark_and_begin_inside_the_object() -> None:
    head = make_head()[0] > -1
    darker = 0
    for seed in range(100):
        change = draw(seed)[0]
        assert bool(change[head].any())
        place = int(change.abs().argmax())
        # A centre is at most the neighbourhood of one pixel away from the object.
        row, column = divmod(place, 64)
        assert head[row - 2 : row + 3, column - 2 : column + 3].any()
        darker += float(change.sum()) < 0
    assert 25 < darker < 75


def test_values_stay_in_their_range_and_air_stays_air() -> None:
    dark = make_head() * 0.3 - 0.7
    for seed in range(50):
        changed = add_lesions(dark, RANGE, np.random.default_rng(seed))
        assert float(changed.min()) >= -1
        assert float(changed.max()) <= 1
    air = torch.full((1, 64, 64), -1.0)
    assert torch.equal(add_lesions(air, RANGE, np.random.default_rng(0)), air)


def test_lesions_grow_with_the_image() -> None:
    small, large = (
        np.median([int((draw(seed, side).abs() > 0.05).sum()) for seed in range(60)])
        for side in (64, 128)
    )
    assert 3 < large / small < 5.5


def test_colours_change_together() -> None:
    change = add_lesions(make_head().expand(3, -1, -1), RANGE, np.random.default_rng(0))
    assert torch.equal(change[0], change[2])


def test_augmentation_gives_lesions_to_a_fraction_and_leaves_the_others_alone() -> None:
    image = torch.rand(1, 64, 64, generator=torch.Generator().manual_seed(0))
    with_lesions, without = Augmentation(True, 3, lesions=0.3), Augmentation(True, 3)
    changed = 0
    for seed in range(400):
        found = with_lesions.augment(image, np.random.default_rng(seed))
        again = with_lesions.augment(image, np.random.default_rng(seed))
        assert torch.equal(found, again)
        changed += not torch.equal(found, without.augment(image, np.random.default_rng(seed)))
    # 30 % of 400; four standard errors.
    assert abs(changed / 400 - 0.3) < 4 * (0.3 * 0.7 / 400) ** 0.5
