"""NumPy files: .npy and .npz, without pickle and never larger in memory than declared."""

import io
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bcdm.files import write_arrays
from bcdm.scans.complaints import library, refusal
from bcdm.scans.layout import (
    arrange,
    choose_key,
    choose_kind,
    kept_dtype,
    name_axes,
    shape_mask,
)
from bcdm.scans.limits import LIMITS, check_size, read_exactly
from bcdm.scans.output import place, writing
from bcdm.scans.scan import Results, Scan

__all__ = ["read_mask_array", "read_npy", "read_npz", "read_provenance", "write"]

_LONGEST_HEADER = 10_000
_NOTE = "provenance"


class _Declared(NamedTuple):
    """What the header of an .npy stream says."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]


def read_npy(path: Path, key: str | None) -> Scan:
    """Reads an .npy file, which holds one array without a name."""
    if key is not None:
        raise refusal(path, f"holds one array without a name: leave out the key {key!r}")
    with _open_file(path) as stream:
        return _read_scan(path, "npy", "array", stream, None)


def read_npz(path: Path, key: str | None) -> Scan:
    """Reads one array of an .npz file, and its `mask` if it has one."""
    with _open_archive(path) as archive:
        names = _list_members(archive)
        name = choose_key(path, names - {_NOTE}, key)
        mask = None
        if "mask" in names and name != "mask":
            with _open_member(path, archive, "mask") as stream:
                mask = _read_any(path, stream)
        with _open_member(path, archive, name) as stream:
            return _read_scan(path, "npz", name, stream, mask)


def read_mask_array(path: Path) -> NDArray[Any]:
    """Reads a mask of any shape: an .npy file, or the `mask` or only array of an .npz file."""
    if not zipfile.is_zipfile(path):
        with _open_file(path) as stream:
            return _read_any(path, stream)
    with _open_archive(path) as archive:
        names = _list_members(archive)
        name = "mask" if "mask" in names else choose_key(path, names, None)
        with _open_member(path, archive, name) as stream:
            return _read_any(path, stream)


def write(folder: Path, scan: Scan, results: Results, provenance: str) -> list[Path]:
    """Writes one .npz file with mean, std, low, high, level and provenance."""
    target = place(folder, scan, "_results.npz")
    with writing(target) as partial:
        write_arrays(
            partial, {"level": results.level, "provenance": provenance, **dict(results.items())}
        )
    return [target]


def read_provenance(path: Path) -> str | None:
    """Reads the text that `write` stored; an .npy file has none."""
    if not zipfile.is_zipfile(path):
        return None
    with _open_archive(path) as archive:
        if _NOTE not in _list_members(archive):
            return None
        with _open_member(path, archive, _NOTE) as stream:
            declared = _read_header(path, stream)
            if declared.dtype.kind != "U" or declared.shape != ():
                return None
            if declared.dtype.itemsize > LIMITS.header:
                raise refusal(path, "holds a provenance too long to read: write it anew")
            with library(path):
                return str(np.frombuffer(stream.read(declared.dtype.itemsize), declared.dtype)[0])


@contextmanager
def _open_file(path: Path) -> Iterator[IO[bytes]]:
    with library(path):
        stream = path.open("rb")
    with stream:
        yield stream


@contextmanager
def _open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    _check_directory(path)
    with library(path):
        archive = zipfile.ZipFile(path)
    with archive:
        yield archive


@contextmanager
def _open_member(path: Path, archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    with library(path):
        entry = archive.getinfo(f"{name}.npy")
        # NumPy writes no other kinds, and those are slow enough to stall a reader.
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise refusal(path, f"packs {name!r} in an unusual way: write it by numpy.savez")
        stream = archive.open(entry)
    with stream:
        yield stream


def _list_members(archive: zipfile.ZipFile) -> set[str]:
    return {name[:-4] for name in archive.namelist() if name.endswith(".npy")}


def _check_directory(path: Path) -> None:
    """Refuses an archive whose table of contents alone would fill the memory."""
    with library(path), path.open("rb") as stream:
        length = stream.seek(0, 2)
        stream.seek(max(length - (1 << 16) - 22, 0))
        tail = stream.read()
        # The same order of search as in zipfile, so that both see the same end record.
        bare = tail[-22:].startswith(b"PK\5\6") and tail.endswith(b"\0\0")
        found = len(tail) - 22 if bare else tail.rfind(b"PK\5\6")
        if found < 0:
            raise refusal(path, "is a broken archive: copy it anew")
        (table,) = struct.unpack_from("<I", tail, found + 12)
        # A second, 64-bit end record would overrule the size just read.
        if table > LIMITS.header // 16 or tail[max(found - 20, 0) :].startswith(b"PK\6\7"):
            raise refusal(path, "holds too many arrays: write the one to read alone")


def _read_header(path: Path, stream: IO[bytes]) -> _Declared:
    """Reads shape, order and type, and stops at the first number."""
    layout = np.lib.format
    with library(path):
        version = layout.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise refusal(path, f"has .npy version {version}: write it by numpy.save")
        length = stream.read(2 if version == (1, 0) else 4)
        # NumPy would read a header of any length before it looks at it.
        if int.from_bytes(length, "little") > _LONGEST_HEADER:
            raise refusal(path, "has a header too long for an array: write it by numpy.save")
        header = io.BytesIO(length + stream.read(int.from_bytes(length, "little")))
        read = layout.read_array_header_1_0 if version == (1, 0) else layout.read_array_header_2_0
        shape, is_fortran, dtype = read(header)
    # Only unpickling could read objects, and it could run anything.
    if dtype.hasobject or dtype.names is not None or dtype.itemsize == 0:
        raise refusal(path, f"holds {dtype}: store an array of numbers")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise refusal(path, f"declares the shape {shape}: write it by numpy.save")
    return _Declared(shape, is_fortran, dtype)


def _read_numbers(
    path: Path, stream: IO[bytes], declared: _Declared, kept: np.dtype[Any]
) -> NDArray[Any]:
    flat = read_exactly(path, stream, declared.shape, declared.dtype, kept)
    return flat.reshape(declared.shape, order="F" if declared.is_fortran else "C")


def _read_any(path: Path, stream: IO[bytes]) -> NDArray[Any]:
    declared = _read_header(path, stream)
    if declared.dtype.kind not in "buif":
        raise refusal(path, f"holds a mask of {declared.dtype}: store zeros and ones")
    return _read_numbers(path, stream, declared, np.dtype(np.float32))


def _read_scan(
    path: Path, format: str, name: str, stream: IO[bytes], mask: NDArray[Any] | None
) -> Scan:
    declared = _read_header(path, stream)
    kind = choose_kind(path, name, declared.dtype)
    kept = kept_dtype(kind)
    check_size(path, declared.shape, declared.dtype, kept)
    data = arrange(path, _read_numbers(path, stream, declared, kept), kind)
    size = data.shape[-2], data.shape[-1]
    known = shape_mask(path, mask, size) if mask is not None else None
    facts = {
        "array": name,
        "stored type": str(declared.dtype),
        "stored shape": [*declared.shape],
        **name_axes(declared.shape, kind),
    }
    return Scan(path, format, kind, data, known, None, size, facts)
