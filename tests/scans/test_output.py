"""Results: never a partial file under a final name, and their provenance in each."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bcdm.errors import InputError, MachineError
from bcdm.scans import LIMIT_BYTES, Limits, Results, read_provenance, read_scan, write_results
from bcdm.scans.answers import answer, receive
from bcdm.scans.complaints import library
from bcdm.scans.confinement import explain_end

Makers = dict[str, Callable[..., Any]]


def test_a_write_that_fails_is_one_line(
    tmp_path: Path, makers: Makers, make_results: Callable[..., Any], monkeypatch: Any
) -> None:
    scan = read_scan(makers["make_npy"](tmp_path))

    def fail(*arguments: Any, **options: Any) -> None:
        (tmp_path / "out" / "left").touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bcdm.scans.arrays.write_arrays", fail)
    with pytest.raises(InputError, match=r"scan_results.npz cannot be written .*No space left"):
        write_results(tmp_path / "out", scan, make_results(scan), {})
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["left"]
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot be written to .*: choose another folder"):
        write_results(tmp_path / "file", scan, make_results(scan), {})


def test_sidecars_and_foreign_files(tmp_path: Path, makers: Makers) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"bcdm": {"seed": 1}, "other": 2}))
    assert read_provenance(tmp_path / "a.json") == {"seed": 1}
    (tmp_path / "b.json").write_text("[1, 2")
    assert read_provenance(tmp_path / "b.json") is None
    assert read_provenance(makers["make_png"](tmp_path)) is None
    assert read_provenance(makers["make_nifti"](tmp_path)) is None
    # tifffile describes shapes in JSON too.
    assert read_provenance(makers["make_tiff"](tmp_path)) is None
    with pytest.raises(InputError, match="is no file or folder"):
        read_provenance(tmp_path / "c.json")


def test_a_missing_package_is_one_line() -> None:
    words = r"a.x needs the package nowhere: pip install 'bcdm"
    with pytest.raises(InputError, match=words), library(Path("a.x")):
        import nowhere  # noqa: F401


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.EIO, MachineError),
        (errno.ESTALE, MachineError),
        (errno.EINVAL, InputError),
        (errno.ENOMEM, InputError),  # a damaged file may declare more than there is
    ],
)
def test_a_disk_that_fails_is_no_fault_of_the_file(code: int, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"a.x cannot be read"), library(Path("a.x")):
        raise OSError(code, os.strerror(code))


def test_faults_of_our_own_are_not_blamed_on_the_file(tmp_path: Path) -> None:
    def fail() -> None:
        raise ZeroDivisionError("ours")

    with (tmp_path / "reply").open("wb") as stream:
        assert not answer(stream, Path("a.h5"), fail)
    with (tmp_path / "reply").open("rb") as stream:
        said = receive(stream, Path("a.h5"))
    assert isinstance(said.error, RuntimeError)
    assert "bcdm itself failed to read" in str(said.error)


def test_a_reader_that_ends_early_is_explained(tmp_path: Path, makers: Makers) -> None:
    (tmp_path / "reply").write_bytes(b"\5\0")
    with (tmp_path / "reply").open("rb") as stream, pytest.raises(EOFError):
        receive(stream, Path("a.h5"))
    for code, words in ((-11, "crashes"), (-27, "too long"), (-9, "memory"), (1, "installation")):
        line = str(explain_end(Path("a.h5"), code))
        assert line.startswith("a.h5 ")
        assert words in line


@pytest.mark.slow
def test_as_much_as_is_allowed_fits_into_the_memory(tmp_path: Path, read_many: Any) -> None:
    """A file of the largest size, in the formats that hold most beside the numbers themselves."""
    import h5py
    import zarr

    side = 1 << 12
    count = LIMIT_BYTES // (side * side * 8)
    kspace = np.lib.stride_tricks.as_strided(
        np.ones(1, np.complex64), (count, side, side), (0, 0, 0)
    )
    with h5py.File(tmp_path / "a.h5", "w") as file:
        entry = file.create_dataset("kspace", (count, 1, side, side), np.complex64)
        for index in range(count):
            entry[index, 0] = kspace[index]
    array = zarr.create_array(
        tmp_path / "a.zarr",
        shape=kspace.shape,
        chunks=(1, side, side),
        dtype="complex64",
        compressors=None,  # packed, ones would be as small as a bomb, and refused as one
    )
    array[...] = kspace
    header = np.lib.format.open_memmap(
        tmp_path / "a.npy", mode="w+", dtype=np.complex64, shape=kspace.shape
    )
    header[:] = 1
    header.flush()
    del header
    for found in read_many([tmp_path / name for name in ("a.h5", "a.zarr", "a.npy")]):
        assert found["outcome"] == "scan", found["line"]
        assert found["bytes"] < Limits().memory


def test_results_are_of_one_shape() -> None:
    ones = np.ones((1, 1, 4, 4), np.float32)
    with pytest.raises(InputError, match="the same for all"):
        Results(ones, ones, ones, ones[:, :, 1:], 0.9)


def test_a_slice_that_is_left_out_is_nan(tmp_path: Path) -> None:
    values = np.ones((3, 1, 4, 4), np.float32)
    values[1] = np.nan
    maps = (values, values, values, values)
    with pytest.raises(InputError, match="must be finite"):
        Results(*maps, 0.9)
    with pytest.raises(InputError, match="every slice is left out"):
        Results(*maps, 0.9, (0, 1, 2))
    results = Results(*maps, 0.9, (1,))
    assert results.list_kept() == [0, 2]
    np.savez(tmp_path / "scan.npz", image=np.ones((3, 1, 4, 4), np.float32))
    (path,) = write_results(tmp_path / "out", read_scan(tmp_path / "scan.npz"), results, {})
    with np.load(path) as file:
        assert np.array_equal(file["mean"], values, equal_nan=True)
