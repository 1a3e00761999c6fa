"""Pictures that would be misread are refused."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from bcdm.data import ImageFolder
from bcdm.errors import DtypeError, InputError


def draw_pixels(shape: tuple[int, ...], dtype: type = np.uint8) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


def write_deep_colour_png(path: Path) -> None:
    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    header = struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0)
    lines = zlib.compress(b"\0" + bytes(12))
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)


def test_pictures_that_would_be_misread_are_refused(tmp_path: Path) -> None:
    grey, deep = draw_pixels((4, 4)), draw_pixels((4, 4), np.uint16)

    def refuse(name: str, match: str) -> None:
        with pytest.raises(InputError, match=match) as caught:
            ImageFolder(tmp_path)
        assert "\n" not in str(caught.value)
        (tmp_path / name).unlink()

    write_deep_colour_png(tmp_path / "a.png")
    refuse("a.png", "save it as TIFF")
    Image.fromarray(draw_pixels((4, 4, 4))).save(tmp_path / "a.png")
    refuse("a.png", "without alpha")
    tifffile.imwrite(tmp_path / "a.tif", deep, photometric="miniswhite")
    refuse("a.tif", "black as 0")
    tifffile.imwrite(tmp_path / "a.tif", np.stack([grey, grey]), photometric="minisblack")
    refuse("a.tif", "2 frames")
    (tmp_path / "a.png").write_bytes(b"no picture")
    refuse("a.png", "export it anew")


def test_one_bit_depth_per_folder(tmp_path: Path) -> None:
    Image.fromarray(draw_pixels((4, 4))).save(tmp_path / "a.png")
    Image.fromarray(draw_pixels((4, 4), np.uint16)).save(tmp_path / "b.png")
    source = ImageFolder(tmp_path)
    with pytest.raises(DtypeError, match="one bit depth per folder"):
        source[1]
