"""PNG and TIFF, made and read back by Pillow and tifffile."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from bcdm.errors import InputError
from bcdm.scans import Results, read_provenance, read_scan, write_results

Makers = dict[str, Callable[..., Any]]
Reader = Callable[..., list[dict[str, Any]]]


@pytest.mark.parametrize(
    ("shape", "dtype"), [((9, 7), np.uint8), ((9, 7, 3), np.uint8), ((9, 7), np.uint16)]
)
def test_png_journey(
    tmp_path: Path,
    makers: Makers,
    make_results: Callable[..., Any],
    shape: tuple[int, ...],
    dtype: Any,
) -> None:
    pixels = makers["draw_pixels"](shape, dtype)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    scan = read_scan(tmp_path / "a.png")
    channels_first = pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
    assert np.array_equal(scan.data[0], channels_first)
    assert scan.data.dtype == np.float32

    results = make_results(scan)
    top = np.iinfo(dtype).max
    results.mean.reshape(-1)[:3] = [-3, top + 9, 1.6]
    paths = write_results(tmp_path, scan, results, {"seed": 4})
    assert [out.name for out in paths] == ["a_mean.png", "a_std.tif", "a_low.tif", "a_high.tif"]
    with Image.open(paths[0]) as picture:
        back = np.asarray(picture)
    assert back.dtype == dtype
    mean = np.moveaxis(back.reshape(9, 7, -1), -1, 0)
    assert np.array_equal(mean, np.clip(np.rint(results.mean[0]), 0, top))
    for out, (_, values) in zip(paths[1:], results.items()[1:], strict=True):
        stored = tifffile.imread(out).reshape(9, 7, -1)
        assert stored.dtype == np.float32
        assert np.array_equal(np.moveaxis(stored, -1, 0), values[0])
    assert [read_provenance(out) for out in paths[:2]] == [{"seed": 4}] * 2


@pytest.mark.parametrize("shape", [(9, 7), (3, 9, 7), (2, 9, 7, 3)])
def test_tiff_journey(
    tmp_path: Path, makers: Makers, make_results: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    is_grey = len(shape) < 4
    pixels = makers["draw_pixels"](shape, np.float32)
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="minisblack" if is_grey else "rgb")
    scan = read_scan(tmp_path / "a.tif")
    stack = pixels.reshape(-1, 1, 9, 7) if is_grey else np.moveaxis(pixels, -1, 1)
    assert np.array_equal(scan.data, stack)
    results = make_results(scan)
    for out, (_, values) in zip(
        write_results(tmp_path / "out", scan, results, {}), results.items(), strict=True
    ):
        back = tifffile.imread(out)
        expected = values[:, 0] if is_grey else np.moveaxis(values, 1, -1)
        assert np.array_equal(back.reshape(expected.shape), expected)


def test_tiff_of_all_kinds(tmp_path: Path, makers: Makers) -> None:
    """Number types, byte orders, planes and compression: few files, each with several at once."""
    deep = makers["draw_pixels"]((9, 7, 3), np.uint16)
    planes = np.moveaxis(deep, -1, 0)
    grey, signed = makers["draw_pixels"]((9, 7), np.uint16), makers["draw_pixels"]((9, 7), np.int16)
    tifffile.imwrite(tmp_path / "0.tif", deep, photometric="rgb", byteorder=">")
    tifffile.imwrite(tmp_path / "1.tif", planes, photometric="rgb", planarconfig="separate")
    tifffile.imwrite(tmp_path / "2.tif", signed, photometric="minisblack", bigtiff=True)
    Image.fromarray(grey).save(tmp_path / "3.tif", compression="tiff_lzw")
    pages = [Image.fromarray(makers["draw_pixels"]((9, 7, 3)) // n) for n in (1, 2)]
    pages[0].save(
        tmp_path / "4.tif", compression="tiff_adobe_deflate", save_all=True, append_images=pages[1:]
    )
    found = [read_scan(tmp_path / f"{n}.tif").data for n in range(5)]
    assert np.array_equal(found[0][0], planes)
    assert np.array_equal(found[1][0], planes)
    assert np.array_equal(found[2][0, 0], signed)
    assert np.array_equal(found[3][0, 0], grey)
    assert np.array_equal(found[4], [np.moveaxis(np.asarray(page), -1, 0) for page in pages])


def test_mask_from_a_picture_or_an_array(tmp_path: Path, makers: Makers) -> None:
    path = makers["make_png"](tmp_path)
    known = np.arange(63).reshape(9, 7) % 3 > 0
    Image.fromarray(known.astype(np.uint8) * 255).save(tmp_path / "mask.png")
    Image.fromarray(known).save(tmp_path / "bits.png")
    np.save(tmp_path / "mask.npy", known)
    np.savez(tmp_path / "mask.npz", mask=known[None].astype(np.float32))
    for name in ("mask.png", "bits.png", "mask.npy", "mask.npz"):
        scan = read_scan(path, mask=tmp_path / name)
        assert scan.mask is not None
        assert scan.mask.dtype == bool
        assert np.array_equal(scan.mask, known)
    np.save(tmp_path / "columns.npy", known[1])
    scan = read_scan(path, mask=tmp_path / "columns.npy")
    assert scan.mask is not None
    assert np.array_equal(scan.mask, np.broadcast_to(known[1], (9, 7)))
    np.save(tmp_path / "other.npy", known.T)
    with pytest.raises(InputError, match=r"other.npy holds a mask of shape \(7, 9\): store"):
        read_scan(path, mask=tmp_path / "other.npy")
    np.save(tmp_path / "none.npy", np.zeros((9, 7)))
    with pytest.raises(InputError, match="mark what is known by ones"):
        read_scan(path, mask=tmp_path / "none.npy")


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_other_png_modes_are_refused(tmp_path: Path, mode: str) -> None:
    Image.new("L", (7, 9)).convert(mode).save(tmp_path / "a.png")
    with pytest.raises(InputError, match="without alpha or palette"):
        read_scan(tmp_path / "a.png")


def test_other_tiff_kinds_are_refused(tmp_path: Path, makers: Makers, read_many: Reader) -> None:
    grey = makers["draw_pixels"]((9, 7))
    tifffile.imwrite(tmp_path / "white.tif", grey, photometric="miniswhite")
    tifffile.imwrite(tmp_path / "complex.tif", grey.astype(np.complex64))
    Image.new("RGBA", (7, 9)).save(tmp_path / "alpha.tif")
    with tifffile.TiffWriter(tmp_path / "mixed.tif") as file:
        file.write(grey, photometric="minisblack")
        file.write(grey[:4], photometric="minisblack")
    deep = makers["draw_pixels"]((9, 7, 3), np.uint16)
    tifffile.imwrite(tmp_path / "deep.tif", deep, photometric="rgb", compression="zlib")
    words = {
        "white": "with black as 0",
        "complex": "as integers or floats",
        "alpha": "without alpha",
        "mixed": "pages of 2 kinds",
        "deep": "without compression",
    }
    found = read_many([tmp_path / f"{name}.tif" for name in words])
    for line, expected in zip(found, words.values(), strict=True):
        assert line["outcome"] == "refused"
        assert expected in line["line"]


def test_results_must_fit(tmp_path: Path, makers: Makers, make_results: Callable[..., Any]) -> None:
    scan = read_scan(makers["make_png"](tmp_path))
    grey = Results(*(np.ones((1, 1, 9, 7), np.float32) for _ in range(4)), level=0.9)
    with pytest.raises(InputError, match=r"needs \(1, 3, 9, 7\): crop the images"):
        write_results(tmp_path, scan, grey, {})
    with pytest.raises(InputError, match="must be finite and float32"):
        Results(*(np.ones((1, 1, 9, 7)) for _ in range(4)), level=0.9)
    with pytest.raises(InputError, match="between 0 and 1"):
        Results(*(np.ones((1, 1, 9, 7), np.float32) for _ in range(4)), level=90)
    with pytest.raises(InputError, match="provenance is not JSON"):
        write_results(tmp_path, scan, make_results(scan), {"loss": float("nan")})
