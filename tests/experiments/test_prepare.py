"""Slices near their native size become training sets, without patients that tests are made of."""

from pathlib import Path

import numpy as np
import pytest
from experiments.scans.prepare import SIZES, clean, find_grain, pad_black, prepare
from scipy import ndimage

from bcdm.data import open_images


def test_patients_of_tests_are_left_out(tmp_path: Path) -> None:
    for folder in ("brain_ixi_t1", "brain_openms_raw", "hku_3T_brain"):
        (tmp_path / folder).mkdir()
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (3, 256, 256), np.uint8)
    names = ["patient01", "patient19", "patient20"]
    path = tmp_path / "brain_openms_raw/openms_raw_axial256.npz"
    np.savez(path, images=images, subject=names)
    split = ["train", "test", "val"]
    path = tmp_path / "brain_ixi_t1/ixi_t1_axial128.npz"
    np.savez(path, images=images[:, :128, :128], subject=["a", "b", "c"], split=split)
    held = {
        "F7A_T1w": rng.integers(0, 4095, (4, 306, 261)).astype(np.uint16),
        "S6A_T1w": rng.integers(0, 4095, (4, 521, 444)).astype(np.uint16),
        "F6A_T2w": rng.integers(0, 4095, (4, 490, 417)).astype(np.uint16),
    }
    np.savez(tmp_path / "hku_3T_brain/brain_3T_6patients.npz", **held)
    prepare(tmp_path, tmp_path / "out")
    openms = open_images(tmp_path / "out/openms256-clean.npz", value_range=(0.0, 65535.0))
    assert (openms.subjects, openms.split_labels) == (("patient01",), ("train",))
    ixi = open_images(tmp_path / "out/ixi128-clean.npz", value_range=(0.0, 65535.0))
    assert (ixi.subjects, ixi.split_labels) == (("a", "c"), ("train", "val"))
    large = open_images(tmp_path / "out/hku528.npz", value_range=(0.0, 4095.0))
    assert large.subjects == ("F6A",) * 4 + ("S6A",) * 4
    assert large.split_labels == ("train",) * 4 + ("test",) * 4
    assert large[0].shape == (1, *SIZES[1])
    assert open_images(tmp_path / "out/hku368.npz")[0].shape == (1, *SIZES[0])


def test_padding_is_black_and_even() -> None:
    padded = pad_black(np.ones((3, 4), np.uint16), (6, 6))
    assert padded.sum() == 12
    assert padded[1:4, 1:5].all()


def test_grain_goes_and_edges_stay() -> None:
    rows, columns = np.mgrid[-1:1:96j, -1:1:96j]
    truth = 0.3 + 0.3 * (np.hypot(rows, columns) < 0.4)
    noisy = truth + 0.02 * np.random.default_rng(0).standard_normal(truth.shape)
    assert find_grain(noisy) == pytest.approx(0.02, rel=0.1)
    cleaned = clean(noisy)
    flat = ndimage.uniform_filter(truth, 9) == truth
    assert cleaned[flat].std(ddof=0) < noisy[flat].std()
    assert np.abs(cleaned - truth)[flat].mean() < 0.5 * np.abs(noisy - truth)[flat].mean()
    assert np.abs(cleaned - truth)[~flat].mean() < np.abs(noisy - truth)[~flat].mean()


def test_black_stays_black() -> None:
    black = np.zeros((32, 32))
    assert np.array_equal(clean(black), black)
