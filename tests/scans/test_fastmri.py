"""fastMRI files: read, write, and read back by the layout that fastMRI's evaluation expects."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bcdm.errors import InputError
from bcdm.scans import read_provenance, read_scan, remove_oversampling, write_results

Makers = dict[str, Callable[..., Any]]


def test_journey(tmp_path: Path, makers: Makers, make_results: Callable[..., Any]) -> None:
    path = makers["make_fastmri"](tmp_path)
    scan = read_scan(path)
    with h5py.File(path) as file:
        assert np.array_equal(scan.data, file["kspace"][:])
    assert (scan.format, scan.kind, scan.data.dtype) == ("fastMRI HDF5", "k-space", np.complex64)
    assert scan.size == (8, 8)  # the readout is oversampled twice, 10 columns are cropped to 8
    assert scan.mask is not None
    columns = [False, True, False, True, True, True, False, True, True, False]
    assert np.array_equal(scan.mask, np.broadcast_to(columns, (16, 10)))
    facts = {"acquisition": "AXT2", "vendor": "ACME", "field strength in T": 1.5, "coils": 3}
    assert facts.items() <= scan.facts.items()
    assert (scan.facts["acceleration"], scan.facts["oversampling"]) == (1.67, 2.0)
    assert scan.facts["sampled columns left out as padding"] == 2

    results = make_results(scan)
    (out,) = write_results(tmp_path / "out", scan, results, {"seed": 3})
    assert out.name == path.name  # fastMRI pairs predictions and targets by name
    with h5py.File(out) as file:
        assert file["reconstruction"].dtype == np.float32
        assert np.array_equal(file["reconstruction"][:], results.mean[:, 0])
        for name, values in results.items()[1:]:
            assert np.array_equal(file[f"reconstruction_{name}"][:], values[:, 0])
    assert read_provenance(out) == {"seed": 3}

    cropped = remove_oversampling(scan)
    assert cropped.data.shape == (2, 3, 8, 10)


def test_single_coil_stack_has_slices_first(tmp_path: Path, makers: Makers) -> None:
    kspace = makers["draw_complex"]((4, 16, 10))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["kspace"] = kspace
        file["reconstruction_esc"] = np.abs(kspace)
    scan = read_scan(tmp_path / "a.h5")
    assert np.array_equal(scan.data, kspace[:, None])
    assert scan.size == (16, 10)
    assert scan.facts["read as"] == "4 slices of one coil"
    image = read_scan(tmp_path / "a.h5", key="reconstruction_esc")
    assert (image.kind, image.data.shape) == ("image", (4, 1, 16, 10))


@pytest.mark.parametrize("columns", [10, 16])
def test_the_mask_of_k_space_is_none_of_images(
    tmp_path: Path, makers: Makers, columns: int
) -> None:
    kspace = makers["draw_complex"]((4, 16, columns))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["kspace"], file["mask"] = kspace, np.arange(columns) % 2
        file["reconstruction_esc"] = np.ones((4, 16, 16), np.float32)
    assert read_scan(tmp_path / "a.h5", key="reconstruction_esc").mask is None
    assert read_scan(tmp_path / "a.h5").mask is not None


def test_columns_that_were_not_sampled_are_no_padding(tmp_path: Path, makers: Makers) -> None:
    mask = np.array([0, 0, 1, 1, 1, 1, 0, 1, 0, 0])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["kspace"], file["mask"] = makers["draw_complex"]((2, 16, 10)) * mask, mask
    scan = read_scan(tmp_path / "a.h5")
    assert scan.mask is not None
    assert np.array_equal(scan.mask[0], mask == 1)
    assert not any("padding" in name for name in scan.facts)


def test_the_input_is_never_overwritten(
    tmp_path: Path, makers: Makers, make_results: Callable[..., Any]
) -> None:
    path = makers["make_fastmri"](tmp_path)
    before = path.read_bytes()
    scan = read_scan(path)
    with pytest.raises(InputError, match=r"is the input itself: choose another folder"):
        write_results(tmp_path, scan, make_results(scan), {})
    assert path.read_bytes() == before


def test_a_given_mask_counts_no_padding(tmp_path: Path, makers: Makers) -> None:
    path = makers["make_fastmri"](tmp_path)
    stored = read_scan(path).mask
    np.save(tmp_path / "mask.npy", np.array([1, 1, 0, 1, 1, 1, 0, 1, 1, 1], np.float32))
    scan = read_scan(path, tmp_path / "mask.npy")
    assert stored is not None
    assert np.array_equal(scan.mask, stored)
    assert scan.facts["sampled columns left out as padding"] == 2
