import os
from pathlib import Path

import numpy as np
import pytest
import torch

from bcdm.coils import estimate_maps
from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.operators import Sense
from bcdm.problems.coils import draw_birdcage

NEEDS_DATA = pytest.mark.skipif("BCDM_DATA" not in os.environ, reason="BCDM_DATA is not set")


def make_object(size: tuple[int, int]) -> np.ndarray:
    """An ellipse with some detail in it, and air around it."""
    rows, columns = (np.linspace(-1, 1, side) for side in size)
    body = (rows[:, None] / 0.7) ** 2 + (columns / 0.6) ** 2 < 1
    detail = 1 + 0.5 * np.sin(9 * rows[:, None]) * np.cos(7 * columns)
    return (body * detail * np.exp(1j * columns)).astype(np.complex64)


def measure(size: tuple[int, int], coils: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """k-space, maps and object."""
    maps = draw_birdcage(size, coils, rng=np.random.default_rng(3))
    image = make_object(size)
    everything = Sense(maps, torch.ones(size, dtype=torch.bool))
    clean = everything.forward(torch.from_numpy(image)[None, None])[0].numpy()
    return clean, maps.numpy(), image


def miss(found: np.ndarray, true: np.ndarray, image: np.ndarray) -> float:
    """The largest part of what coils see in the object that found maps cannot explain."""
    aligned = np.abs((found.conj() * true).sum(0))[np.abs(image) > 0]
    return float(np.sqrt(1 - np.minimum(aligned, 1) ** 2).max())


@pytest.mark.parametrize("size", [(64, 64), (50, 71)])
def test_maps_of_an_object_are_found_from_few_lines(size: tuple[int, int]) -> None:
    kspace, maps, image = measure(size, 6)
    mask = np.zeros(size, bool)
    mask[:, ::4] = True
    mask[:, size[1] // 2 - 10 : size[1] // 2 + 10] = True
    found = estimate_maps(np.where(mask, kspace, 0), mask)
    assert found.shape == maps.shape
    assert found.dtype == np.complex64
    assert miss(found, maps, image) < 0.03
    # Air is seen, too: what no coil sees would have no noise.
    np.testing.assert_allclose((np.abs(found) ** 2).sum(0), 1, atol=1e-5)


def test_phases_do_not_jump_in_the_object() -> None:
    kspace, _, image = measure((64, 64), 6)
    found = estimate_maps(kspace, np.ones((64, 64), bool))
    inside = np.abs(image) > 0
    jump = np.abs(np.diff(found, axis=-1)).max(0)[inside[:, 1:] & inside[:, :-1]]
    assert jump.max() < 0.15


def test_maps_are_computed_on_a_coarse_grid_and_are_the_same() -> None:
    kspace, _, image = measure((96, 96), 4)
    mask = np.ones((96, 96), bool)
    fine = estimate_maps(kspace, mask)
    coarse = estimate_maps(kspace[:, 24:72, 24:72], mask[24:72, 24:72])
    away = np.abs(np.abs((fine[:, ::2, ::2].conj() * coarse).sum(0)) - 1)
    assert away[np.abs(image)[::2, ::2] > 0].max() < 1e-4


def test_a_dead_coil_sees_nothing() -> None:
    kspace, maps, image = measure((48, 48), 4)
    kspace[0] = 0
    found = estimate_maps(kspace, np.ones((48, 48), bool))
    assert np.abs(found[0]).max() < 1e-3
    others = maps[1:] / np.sqrt((np.abs(maps[1:]) ** 2).sum(0))
    assert miss(found[1:], others, image) < 0.03


def test_one_coil_sees_everything_alike() -> None:
    kspace, _, _ = measure((16, 16), 2)
    found = estimate_maps(kspace[:1], np.ones((16, 16), bool))
    np.testing.assert_array_equal(found, np.ones((1, 16, 16)))


def test_one_coil_needs_no_middle() -> None:
    mask = np.zeros((32, 32), bool)
    mask[:, ::2] = True
    assert (estimate_maps(np.ones((1, 32, 32), np.complex64) * mask, mask) == 1).all()


def test_gaps_in_the_middle_are_refused() -> None:
    kspace, _, _ = measure((32, 32), 2)
    mask = np.zeros((32, 32), bool)
    mask[:, ::4] = True
    with pytest.raises(InputError, match=r"32 x 1 samples without one.*give the coils' maps"):
        estimate_maps(kspace, mask)
    with pytest.raises(ShapeError, match="does not fit"):
        estimate_maps(kspace, mask[:16])
    with pytest.raises(DtypeError, match="complex"):
        estimate_maps(np.abs(kspace), mask)


def test_sigpy_finds_the_same_on_a_square() -> None:
    app = pytest.importorskip("sigpy.mri.app")
    kspace, _, image = measure((48, 48), 4)
    mask = np.zeros((48, 48), bool)
    mask[12:36, 12:36] = True
    kspace = np.where(mask, kspace, 0)
    theirs = app.EspiritCalib(kspace, calib_width=24, crop=0, show_pbar=False).run()
    ours = estimate_maps(kspace, mask)
    away = np.abs(np.abs((ours.conj() * theirs).sum(0)) - 1)
    assert away[np.abs(image) > 0].max() < 1e-5


@NEEDS_DATA
@pytest.mark.data
@pytest.mark.parametrize(("lines", "above"), [(24, 1.02), (10, 1.05)])
def test_a_real_head_is_explained_down_to_its_noise(lines: int, above: float) -> None:
    path = Path(os.environ["BCDM_DATA"]) / "pulseq_brain_16coil_full" / "brain_invivo_16coil.npz"
    kspace = np.load(path)["kspace"]
    mask = np.zeros((128, 128), bool)
    mask[64 - lines // 2 : 64 + lines // 2] = True
    maps = estimate_maps(np.where(mask, kspace, 0), mask)
    image = np.fft.fftshift(
        np.fft.ifft2(np.fft.ifftshift(kspace, axes=(1, 2)), norm="ortho"), (1, 2)
    )
    rest = image - maps * (maps.conj() * image).sum(0)
    level = np.sqrt((np.abs(rest) ** 2).sum(0) / (2 * 15))
    bright = np.sqrt((np.abs(image) ** 2).sum(0))
    head = bright > 0.2 * np.quantile(bright, 0.99)
    air = np.sqrt((np.abs(image[:, :8, 24:104]) ** 2).mean() / 2)
    assert np.sqrt((level[head] ** 2).mean()) < above * air
