"""Rows of HDF5 and zarr: the same items, only what lies in the file, and damage that costs rows."""

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr
from tests.archive.cases import find_hashes, open_job

from bcdm.archive.job import Job
from bcdm.archive.tables import Table, is_table
from bcdm.errors import InputError
from bcdm.scans import Scan


def refuse(scan: Scan, noise_std: float | None = None) -> None:
    raise AssertionError("nobody asked to fit")


def write_hdf5(path: Path, **arrays: np.ndarray) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return path


def list_ids(path: Path, shard: int = 100) -> list[str]:
    return [entry.id for entry in Table(str(path), shard).read(0, refuse)]


def test_hdf5_gives_the_bits_of_zarr(job: Job, rows, tmp_path: Path) -> None:
    path = write_hdf5(tmp_path / "t.h5", kspace=rows, noise_std=np.full(len(rows), 2.5))
    other = replace(job, source=str(path), out=str(tmp_path / "other"), shard=10)
    job = replace(job, shard=10)
    for one in (job, other):
        open_job(one).run(0)
    assert find_hashes(job) == find_hashes(other)


def test_ids_are_of_content(table: Path, rows, tmp_path: Path) -> None:
    std = np.full(len(rows), 2.5)
    ids = list_ids(table)
    assert len(set(ids)) == 10
    assert list_ids(write_hdf5(tmp_path / "a.h5", kspace=rows[::-1], noise_std=std)) == ids[::-1]
    std[3] = 3
    assert [
        a == b
        for a, b in zip(
            list_ids(write_hdf5(tmp_path / "b.h5", kspace=rows, noise_std=std)), ids, strict=True
        )
    ] == [True] * 3 + [False] + [True] * 6
    mask = np.ones((16, 16), np.uint8)
    masked = write_hdf5(tmp_path / "c.h5", kspace=rows, noise_std=np.full(10, 2.5), mask=mask)
    assert not set(list_ids(masked)) & set(ids)


def test_rows_are_split_into_shards(table: Path) -> None:
    assert Table(str(table), 4).plan() == (3, 10)
    assert [len([*Table(str(table), 4).read(k, refuse)]) for k in range(3)] == [4, 4, 2]


def test_what_is_a_table(table: Path, rows, tmp_path: Path) -> None:
    assert is_table(str(table))
    assert is_table(str(write_hdf5(tmp_path / "t.h5", kspace=rows)))
    assert not is_table(str(tmp_path))
    scanner = write_hdf5(tmp_path / "s.h5", kspace=rows, ismrmrd_header=np.array(b"<xml/>"))
    assert not is_table(str(scanner))


def test_links_to_other_files_are_not_followed(rows, tmp_path: Path) -> None:
    write_hdf5(tmp_path / "other.h5", kspace=rows)
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["kspace"] = h5py.ExternalLink("other.h5", "kspace")
    with pytest.raises(InputError, match="nothing"):
        Table(str(tmp_path / "t.h5"), 4).plan()


def test_a_damaged_chunk_costs_its_rows(table: Path) -> None:
    whole = list_ids(table)
    (table / "kspace/c/1/0/0/0").write_bytes(b"damaged")
    entries = list(Table(str(table), 100).read(0, refuse))
    assert [a.id == b for a, b in zip(entries, whole, strict=True)] == (
        [True] * 4 + [False] * 4 + [True] * 2
    )
    with pytest.raises(InputError, match="cannot be read at row 5"):
        entries[5].fit()


@pytest.mark.parametrize("damage", ["cut", "noise"])
def test_a_damaged_chunk_of_gzip_costs_its_rows(rows, tmp_path: Path, damage: str) -> None:
    group = zarr.create_group(tmp_path / "t.zarr", zarr_format=3)
    group.create_array(
        "kspace", data=rows, chunks=(4, *rows.shape[1:]), compressors=zarr.codecs.GzipCodec()
    )
    chunk = tmp_path / "t.zarr/kspace/c/1/0/0/0"
    packed = chunk.read_bytes()
    half = len(packed) // 2
    chunk.write_bytes(packed[:half] + (b"" if damage == "cut" else bytes(half)))
    entries = list(Table(str(tmp_path / "t.zarr"), 100).read(0, refuse))
    for entry in entries[4:8]:
        with pytest.raises(InputError, match="cannot be read at row"):
            entry.fit()
    assert len(entries) == 10


@pytest.mark.parametrize("shape", [(16, 16), (2, 3, 4, 5, 6)])
def test_shapes_that_are_no_rows(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = write_hdf5(tmp_path / "t.h5", kspace=np.ones(shape, np.complex64))
    with pytest.raises(InputError, match="store"):
        Table(str(path), 4).plan()
