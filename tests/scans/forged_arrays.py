"""NumPy files and zarr made to do harm."""

import io
import json
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from tests.scans.forging import Makers, forgery, inflate_to


class Trap:
    """Runs a command when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.place),)


@forgery("holds object")
def npy_of_code(folder: Path, makers: Makers) -> Path:
    np.save(folder / "a.npy", np.array([[Trap(folder / "sprung")]], object), allow_pickle=True)
    return folder / "a.npy"


@forgery("holds object")
def npz_of_code(folder: Path, makers: Makers) -> Path:
    np.savez(folder / "a.npz", images=np.array([[Trap(folder / "sprung")]], object))
    return folder / "a.npz"


def make_array_header(shape: tuple[int, ...], dtype: str = "<f4") -> bytes:
    stream = io.BytesIO()
    said = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(stream, said)
    return stream.getvalue()


@forgery("GiB")
def npy_of_a_huge_shape(folder: Path, makers: Makers) -> Path:
    (folder / "a.npy").write_bytes(make_array_header((1 << 40, 1 << 40)))
    return folder / "a.npy"


@forgery("ends before its last number")
def npy_cut_short(folder: Path, makers: Makers) -> Path:
    (folder / "a.npy").write_bytes(make_array_header((8000, 8000)) + bytes(99))
    return folder / "a.npy"


@forgery("declares the shape")
def npy_of_a_negative_shape(folder: Path, makers: Makers) -> Path:
    (folder / "a.npy").write_bytes(make_array_header((-4, -4)) + bytes(64))
    return folder / "a.npy"


def pack_bomb(path: Path, start: bytes, size: int) -> Path:
    """A zip archive with one member that unpacks to far more than its size."""
    packed, name = inflate_to(size, start), b"images.npy"
    length = (size + len(start)) & 0xFFFFFFFF
    fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, 0, len(packed), length, len(name), 0)
    local = b"PK\3\4" + fields + name + packed
    central = b"PK\1\2" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0)
    end = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central) + len(name), len(local), 0)
    path.write_bytes(local + central + name + b"PK\5\6" + end)
    return path


@forgery("GiB")
def npz_bomb_of_numbers(folder: Path, makers: Makers) -> Path:
    return pack_bomb(folder / "a.npz", make_array_header((1 << 16, 1 << 16)), 6 << 30)


@forgery("as damaged files do")
def npz_bomb_of_allowed_size(folder: Path, makers: Makers) -> Path:
    return pack_bomb(folder / "a.npz", make_array_header((1 << 14, 1 << 14)), 1 << 30)


@forgery("header too long")
def npz_bomb_of_a_header(folder: Path, makers: Makers) -> Path:
    return pack_bomb(folder / "a.npz", b"\x93NUMPY\2\0\xff\xff\xff\xff", 6 << 30)


@forgery("too many arrays")
def npz_of_many_members(folder: Path, makers: Makers) -> Path:
    with zipfile.ZipFile(folder / "a.npz", "w") as archive:
        for index in range(20_000):
            archive.writestr(f"{index:030d}", b"")
    return folder / "a.npz"


@forgery("packs 'images' in an unusual way")
def npz_packed_slowly(folder: Path, makers: Makers) -> Path:
    stream = io.BytesIO()
    np.save(stream, np.ones((4, 4)))
    with zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("images.npy", stream.getvalue())
    return folder / "a.npz"


def change_metadata(path: Path, **fields: Any) -> Path:
    file = path / "zarr.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))
    return path


def make_zarr_array(folder: Path, **options: Any) -> Path:
    array = zarr.create_array(
        folder / "a.zarr", shape=(8, 8), chunks=(8, 8), dtype="float32", **options
    )
    array[...] = 1
    return folder / "a.zarr"


@forgery("GiB")
def zarr_of_a_huge_shape(folder: Path, makers: Makers) -> Path:
    return change_metadata(make_zarr_array(folder), shape=[1 << 40, 1 << 40])


@forgery("GiB")
def zarr_of_a_huge_chunk(folder: Path, makers: Makers) -> Path:
    grid = {"name": "regular", "configuration": {"chunk_shape": [1 << 20, 1 << 20]}}
    return change_metadata(make_zarr_array(folder), chunk_grid=grid)


@forgery("a.zarr")
def zarr_of_countless_chunks(folder: Path, makers: Makers) -> Path:
    grid = {"name": "regular", "configuration": {"chunk_shape": [1, 1]}}
    return change_metadata(make_zarr_array(folder), shape=[16000, 16000], chunk_grid=grid)


@forgery("a.zarr")
def zarr_bomb(folder: Path, makers: Makers) -> Path:
    path = make_zarr_array(folder, compressors=zarr.codecs.GzipCodec())
    chunk = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + inflate_to(6 << 30)
    (path / "c" / "0" / "0").write_bytes(chunk)
    return path


@forgery("copy the file into the folder")
def zarr_link(folder: Path, makers: Makers) -> Path:
    path = make_zarr_array(folder)
    chunk = path / "c" / "0" / "0"
    chunk.rename(folder / "outside")
    chunk.symlink_to(folder / "outside")
    return path


@forgery("plain name of an array", key="../outside.zarr")
def zarr_key_out_of_the_folder(folder: Path, makers: Makers) -> Path:
    make_zarr_array(folder).rename(folder / "outside.zarr")
    return makers["make_zarr"](folder)


@forgery("a.zarr cannot be read")
def zarr_of_deep_metadata(folder: Path, makers: Makers) -> Path:
    path = make_zarr_array(folder)
    (path / "zarr.json").write_text("[" * 100_000)
    return path


@forgery("holds object")
def zarr_of_objects(folder: Path, makers: Makers) -> Path:
    return change_metadata(make_zarr_array(folder), data_type="object")


@forgery("not finite")
def zarr_filled_with_nan(folder: Path, makers: Makers) -> Path:
    path = change_metadata(make_zarr_array(folder), fill_value="NaN")
    (path / "c" / "0" / "0").unlink()
    return path


@forgery("is zarr of version 2")
def zarr_of_version_2(folder: Path, makers: Makers) -> Path:
    zarr.open_group(folder / "a.zarr", mode="w", zarr_format=2)
    return folder / "a.zarr"
