"""Readout oversampling: cropping k-space is cropping the image."""

from pathlib import Path

import numpy as np
import pytest

from bcdm.errors import InputError
from bcdm.scans import Scan, crop_kspace, read_scan, remove_oversampling
from bcdm.scans.kspace import find_sampled


def to_image(kspace: np.ndarray) -> np.ndarray:
    axes = (-2, -1)
    centred = np.fft.ifft2(np.fft.ifftshift(kspace, axes=axes), norm="ortho")
    return np.fft.fftshift(centred, axes=axes)


def draw(shape: tuple[int, ...]) -> np.ndarray:
    parts = np.random.default_rng(0).normal(size=(2, *shape))
    return (parts[0] + 1j * parts[1]).astype(np.complex64)


@pytest.mark.parametrize(("whole", "length"), [(16, 8), (16, 7), (15, 8), (15, 7), (9, 9), (9, 1)])
def test_crop_of_kspace_is_crop_of_the_image(whole: int, length: int) -> None:
    kspace = draw((2, whole, 6))
    start = whole // 2 - length // 2
    expected = to_image(kspace)[:, start : start + length]
    assert np.allclose(to_image(crop_kspace(kspace, length, -2)), expected, atol=1e-6)


def test_white_noise_keeps_its_level() -> None:
    noise = draw((4, 256, 64))
    assert np.isclose(crop_kspace(noise, 128, 1).std(), noise.std(), rtol=0.01)  # 6 sigma


def make_scan(mask: np.ndarray) -> Scan:
    data = draw((2, 3, 16, 10)) * mask
    return Scan(Path("a"), "npz", "k-space", data, mask, None, (8, 6), {})


def test_axes_are_cropped_only_where_that_is_exact() -> None:
    full = make_scan(np.ones((16, 10), bool))
    cropped = remove_oversampling(full)
    assert cropped.data.shape == (2, 3, 8, 6)
    assert np.allclose(to_image(cropped.data), to_image(full.data)[..., 4:12, 2:8], atol=1e-6)
    columns = np.arange(10) % 3 == 0
    lines = remove_oversampling(make_scan(np.broadcast_to(columns, (16, 10)).copy()))
    assert lines.data.shape == (2, 3, 8, 10)
    assert lines.mask is not None
    assert np.array_equal(lines.mask, np.broadcast_to(columns, (8, 10)))
    assert not lines.data[..., ~columns].any()
    points = np.random.default_rng(1).random((16, 10)) < 0.5
    assert remove_oversampling(make_scan(points)).data.shape == (2, 3, 16, 10)


def test_images_have_no_oversampling(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((4, 4)))
    with pytest.raises(InputError, match="holds no k-space"):
        remove_oversampling(read_scan(tmp_path / "a.npy"))


def test_what_is_zero_everywhere_was_not_sampled(tmp_path: Path) -> None:
    kspace = draw((2, 3, 8, 6))
    kspace[..., 2], kspace[0, 1, 4, 4] = 0, 0
    np.save(tmp_path / "a.npy", kspace)
    scan = read_scan(tmp_path / "a.npy")
    assert scan.mask is not None
    assert np.array_equal(~scan.mask, np.broadcast_to(np.arange(6) == 2, (8, 6)))
    # One entry more, outside the column.
    kspace[:, :, 5, 5] = 0
    np.save(tmp_path / "a.npy", kspace)
    scan = read_scan(tmp_path / "a.npy")
    assert scan.mask is not None
    assert not scan.mask[5, 5]
    np.save(tmp_path / "a.npy", np.zeros_like(kspace))
    with pytest.raises(InputError, match="zeros alone"):
        read_scan(tmp_path / "a.npy")


def test_samples_that_are_zero_by_chance_were_sampled() -> None:
    """A receiver that counts in whole numbers gives some zeros; masks give many more."""
    kspace = np.rint(4 * draw((1, 1, 64, 64)))
    assert 10 < (kspace == 0).sum() < 100
    assert find_sampled(kspace).all()
    kspace[..., ::2] = 0
    assert np.array_equal(find_sampled(kspace), np.broadcast_to(np.arange(64) % 2 == 1, (64, 64)))
    points = np.random.default_rng(1).random((64, 64)) < 0.5
    kspace = np.rint(4 * draw((1, 1, 64, 64))) * points
    assert not find_sampled(kspace)[~points].any()


def test_slices_with_different_masks_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lines = np.zeros((2, 1, 1, 32), bool)
    lines[..., 12:20] = True
    lines[0, ..., ::4], lines[1, ..., 1::4] = True, True
    for different in (lines, rng.random((2, 1, 32, 32)) < 0.3, np.swapaxes(lines, -1, -2)):
        same = different.copy()
        same[1] = same[0]
        for masks, is_fine in ((different, False), (same, True)):
            np.save(tmp_path / "a.npy", draw((2, 3, 32, 32)) * masks)
            if is_fine:
                expected = np.broadcast_to(same[0, 0], (32, 32))
                assert np.array_equal(read_scan(tmp_path / "a.npy").mask, expected)
                continue
            with pytest.raises(InputError, match="different masks: reconstruct them one by one"):
                read_scan(tmp_path / "a.npy")


def test_zeros_by_chance_and_empty_slices_are_no_other_mask(tmp_path: Path) -> None:
    counted = np.rint(4 * draw((3, 1, 64, 64)))
    assert ((counted == 0).sum((1, 2, 3)) > 10).all()
    counted[2] = 0
    # A receiver with hardly any signal: a fifth of all samples are zero.
    dark = np.rint(0.8 * draw((2, 1, 64, 64)))
    assert (dark == 0).mean() > 0.05
    points = np.random.default_rng(1).random((64, 64)) < 0.5
    spoilt = draw((2, 2, 64, 64)) * points
    spoilt[1, :, 32, 30:33] = 0
    for kspace in (counted, dark, spoilt):
        np.save(tmp_path / "a.npy", kspace.astype(np.complex64))
        read_scan(tmp_path / "a.npy")


@pytest.mark.parametrize(("marked", "refused"), [("rows", False), ("columns", True), ("all", True)])
def test_a_mask_that_marks_zeros_as_sampled_is_refused(
    tmp_path: Path, marked: str, refused: bool
) -> None:
    """A mask of one number a column, for data that were taken row by row."""
    lines = np.arange(16) % 4 == 0
    sampled = np.broadcast_to(lines[:, None], (16, 16))
    masks = {"rows": sampled, "columns": lines, "all": np.ones((16, 16), bool)}
    path = tmp_path / "scan.npz"
    np.savez(path, kspace=draw((1, 16, 16)) * sampled, mask=masks[marked])
    if refused:
        with pytest.raises(InputError, match=r"zeros alone in 75% of what the mask says was"):
            read_scan(path)
    else:
        assert read_scan(path).facts["acceleration"] == 4


def test_an_origin_in_a_corner_is_refused(tmp_path: Path) -> None:
    image = np.zeros((2, 3, 32, 24), np.complex64)
    image[..., 8:24, 6:18] = 1
    image += 0.01 * draw(image.shape)
    corner = np.fft.fft2(image, norm="ortho").astype(np.complex64)
    np.save(tmp_path / "a.npy", corner)
    with pytest.raises(InputError, match=r"origin of k-space in a corner: store np.fft.fftshift"):
        read_scan(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.fft.fftshift(corner, (-2, -1)))
    assert read_scan(tmp_path / "a.npy").data.shape == corner.shape
    # Nothing is said of noise, nor of an object of a few pixels, whose energy is spread.
    for spread in (draw(image.shape), np.fft.fft2(image * (image.real > 1.02))):
        np.save(tmp_path / "a.npy", spread.astype(np.complex64))
        read_scan(tmp_path / "a.npy")
