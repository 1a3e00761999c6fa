"""NumPy files and zarr, made and read back by numpy and zarr."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from bcdm.errors import InputError
from bcdm.scans import read_provenance, read_scan, write_results

Makers = dict[str, Callable[..., Any]]


def check_results(back: Any, results: Any) -> None:
    for name, values in results.items():
        assert back[name].dtype == np.float32
        assert np.array_equal(back[name], values)


def test_npz_journey(tmp_path: Path, makers: Makers, make_results: Callable[..., Any]) -> None:
    path = makers["make_npz"](tmp_path)
    scan = read_scan(path)
    with np.load(path) as held:
        assert np.array_equal(scan.data, held["kspace"][None])
        assert scan.mask is not None
        assert np.array_equal(scan.mask, held["mask"])
    assert (scan.format, scan.kind, scan.size) == ("npz", "k-space", (8, 6))
    assert (scan.facts["coils"], scan.facts["acceleration"]) == (3, 2.0)
    results = make_results(scan)
    (out,) = write_results(tmp_path, scan, results, {"seed": 5})
    with np.load(out, allow_pickle=False) as back:
        check_results(back, results)
        assert back["level"] == 0.9
    assert read_provenance(out) == {"seed": 5}
    assert read_provenance(path) is None


def test_npy_journey(tmp_path: Path, makers: Makers, make_results: Callable[..., Any]) -> None:
    path = makers["make_npy"](tmp_path)
    scan = read_scan(path)
    assert np.array_equal(scan.data[:, 0], np.load(path))
    assert scan.mask is None
    (out,) = write_results(tmp_path, scan, make_results(scan), {})
    assert np.array_equal(read_scan(out, key="std").data, make_results(scan).std)
    assert read_provenance(path) is None


def test_zarr_journey(tmp_path: Path, makers: Makers, make_results: Callable[..., Any]) -> None:
    path = makers["make_zarr"](tmp_path)
    scan = read_scan(path)
    group = zarr.open_group(path, mode="r")
    assert np.array_equal(scan.data[:, 0], group["images"][:])
    assert scan.mask is not None
    assert np.array_equal(scan.mask, group["mask"][:])
    results = make_results(scan)
    for _ in range(2):  # the second time over what is there
        (out,) = write_results(tmp_path / "out", scan, results, {"seed": 6})
        back = zarr.open_group(out, mode="r", zarr_format=3)
        check_results({name: back[name][:] for name in back}, results)
    assert [entry.name for entry in out.parent.iterdir()] == ["scan_results.zarr"]
    assert read_provenance(out) == {"seed": 6}
    with pytest.raises(InputError, match=r"holds no array 'x': choose one of images, mask"):
        read_scan(path, key="x")


@pytest.mark.parametrize("packing", ["zstd", "gzip", "blosc", "shards"])
def test_zarr_arrays_of_all_codecs(tmp_path: Path, makers: Makers, packing: str) -> None:
    kspace = makers["draw_complex"]((2, 3, 8, 6))
    codecs = {
        "zstd": "auto",
        "gzip": zarr.codecs.GzipCodec(),
        "blosc": zarr.codecs.BloscCodec(),
        "shards": "auto",
    }
    array = zarr.create_array(
        tmp_path / "a.zarr",
        shape=kspace.shape,
        dtype=kspace.dtype,
        chunks=(1, 1, 8, 6),
        shards=(2, 3, 8, 6) if packing == "shards" else None,
        compressors=codecs[packing],
    )
    array[...] = kspace
    assert np.array_equal(read_scan(tmp_path / "a.zarr").data, kspace)


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((8, 6), np.complex64, (1, 1, 8, 6)),
        ((3, 8, 6), np.complex128, (1, 3, 8, 6)),
        ((2, 3, 8, 6), np.complex64, (2, 3, 8, 6)),
        ((8, 6), np.int64, (1, 1, 8, 6)),
        ((5, 8, 6), np.uint16, (5, 1, 8, 6)),
        ((8, 6, 3), np.uint8, (1, 3, 8, 6)),
        ((5, 8, 6, 3), np.float64, (5, 3, 8, 6)),
        ((5, 3, 8, 6), np.float16, (5, 3, 8, 6)),
    ],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_layouts(
    tmp_path: Path, shape: tuple[int, ...], dtype: Any, expected: tuple[int, ...], order: Any
) -> None:
    array = np.arange(1, np.prod(shape) + 1).reshape(shape).astype(dtype, order=order)
    np.save(tmp_path / "a.npy", array)
    scan = read_scan(tmp_path / "a.npy")
    assert scan.data.shape == expected
    assert scan.data.dtype == (np.complex64 if np.dtype(dtype).kind == "c" else np.float32)
    moved = np.moveaxis(array, -1, -3) if shape[-1] == 3 else array
    assert np.array_equal(scan.data.reshape(-1), moved.reshape(-1))


@pytest.mark.parametrize("ending", ["npz", "npy", "zarr"])
def test_k_space_of_three_axes_says_how_it_was_read(
    tmp_path: Path, makers: Makers, ending: str
) -> None:
    kspace, path = makers["draw_complex"]((4, 8, 6)), tmp_path / f"a.{ending}"

    def read(array: np.ndarray) -> Any:
        if ending == "zarr":
            zarr.save_array(path, array, zarr_format=3, mode="w")
        else:
            (np.savez if ending == "npz" else np.save)(path, array)
        return read_scan(path)

    scan = read(kspace)
    assert scan.data.shape == (1, 4, 8, 6)
    words = "4 coils of one slice; store 4 slices of one coil as (4, 1, 8, 6)"
    assert scan.facts["read as"] == words
    for array in (kspace[:, None], kspace[0], kspace[:1], kspace.real):
        assert "read as" not in read(array).facts
    assert read(kspace[:, None]).data.shape == (4, 1, 8, 6)


def test_arrays_are_found_by_name(tmp_path: Path, makers: Makers) -> None:
    image = makers["draw_pixels"]((8, 6), np.float32)
    np.savez(tmp_path / "a.npz", other=image, mask=np.ones((8, 6)))
    assert np.array_equal(read_scan(tmp_path / "a.npz").data[0, 0], image)
    np.savez(tmp_path / "a.npz", other=image, another=image + 1)
    with pytest.raises(InputError, match="holds another, other: name the array to read"):
        read_scan(tmp_path / "a.npz")
    assert np.array_equal(read_scan(tmp_path / "a.npz", key="another").data[0, 0], image + 1)
    with pytest.raises(InputError, match="plain name of an array inside it"):
        read_scan(tmp_path / "a.npz", key="../b")
