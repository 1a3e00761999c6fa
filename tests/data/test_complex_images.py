"""Images that are stored with their phase."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.data import Augmentation, ImageBatches, Preparation, open_images
from bcdm.errors import InputError


def make_image(height: int = 12, width: int = 16) -> Tensor:
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    size = torch.exp(-((rows - 6.0) ** 2 + (columns - 8.0) ** 2) / 20)
    return torch.polar(size, 0.2 * rows + 0.1 * columns)[None]


def make_rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("cache", [True, False])
def test_files_keep_the_phase_through_to_batches(tmp_path: Path, cache: bool) -> None:
    np.savez(tmp_path / "a.npz", images=make_image().numpy().repeat(3, 0))
    source = open_images(tmp_path / "a.npz", value_range=(0, 2))
    assert torch.equal(source[0], make_image())
    preparation = Preparation(value_range=(0.0, 1.0), source_range=(0.0, 2.0))
    batches = ImageBatches(source, preparation, seed=0, global_batch=2, cache=cache)
    torch.testing.assert_close(batches.batch(0).images[1], make_image() / 2)


@pytest.mark.parametrize("size", [(6, 8), (9, 10)])
def test_parts_are_resized_alike(size: tuple[int, int]) -> None:
    preparation = Preparation(size=size, value_range=(0.0, 1.0), source_range=(0.0, 1.0))
    small = preparation(make_image())
    for kind in ("real", "imag"):
        expected = preparation(getattr(make_image(), kind).contiguous())
        torch.testing.assert_close(getattr(small, kind), expected)


def test_only_the_origin_of_the_phase_changes() -> None:
    kind = Augmentation(value_range=(0.0, 1.0), phase=True)
    changed = kind.augment(make_image(), make_rng())
    turn = changed / make_image()
    torch.testing.assert_close(turn, turn[:, :1, :1].expand_as(turn))
    torch.testing.assert_close(turn.abs(), torch.ones_like(turn.abs()))


@pytest.mark.parametrize("change", [{"shift": 3}, {"turn": 30.0, "zoom": 0.1}, {"flip": True}])
def test_places_of_both_parts_change_alike(change: dict[str, float]) -> None:
    """A real image, times i: its magnitudes move as those of the real image do."""
    real = make_image().abs()
    real = real - real.min()  # black is 0
    plain = Augmentation(value_range=(0.0, 1.0), **change).augment(real, make_rng())
    full = Augmentation(value_range=(0.0, 1.0), phase=True, **change)
    moved = full.augment(real * 1j, make_rng()).abs()
    torch.testing.assert_close(moved, plain.abs(), atol=2e-3, rtol=0)
    assert not torch.allclose(moved, real, atol=1e-2) or change == {"flip": True}


@pytest.mark.parametrize("change", [{"contrast": 1.0}, {"lesions": 1.0}, {"shading": 0.5}])
def test_magnitudes_change_and_phases_stay(change: dict[str, float]) -> None:
    plain = Augmentation(value_range=(0.0, 1.0), phase=True).augment(make_image(), make_rng())
    full = Augmentation(value_range=(0.0, 1.0), phase=True, **change)
    changed = full.augment(make_image(), make_rng())
    away = torch.polar(changed.abs(), plain.angle() + 0 * changed.abs())
    turn = (changed / away)[changed.abs() > 1e-3]
    torch.testing.assert_close(turn, turn[:1].expand_as(turn), atol=1e-3, rtol=0)
    assert not torch.allclose(changed.abs(), plain.abs(), atol=1e-2)


def test_refuses() -> None:
    with pytest.raises(InputError, match=r"set data\.phase"):
        Augmentation(value_range=(0.0, 1.0)).augment(make_image(), make_rng())
    with pytest.raises(InputError, match="black is 0"):
        Preparation(value_range=(-1.0, 1.0), source_range=(0.0, 1.0))(make_image())
