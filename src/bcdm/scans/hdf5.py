"""HDF5 files: only what lies in the file itself, by hard links, is read."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcdm.scans.complaints import library, refusal
from bcdm.scans.limits import LIMITS, check_chunks, check_name, check_size
from bcdm.spool import make_array, release

__all__ = [
    "NOTE",
    "check_dataset",
    "find",
    "opened",
    "read_numbers",
    "read_provenance",
    "read_text",
]

NOTE = "bcdm"


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Opens a file for reading as an h5py.File."""
    with library(path):
        import h5py

        # Locks fail on many network disks, and a reader changes nothing.
        file = h5py.File(path, "r", locking=False)
    try:
        yield file
    finally:
        with library(path):
            file.close()


def find(path: Path, group: Any, name: str) -> Any:
    """The dataset or group of this name, or None if there is none.

    A soft or external link could lead to any file of the machine, so that none is followed.
    """
    for part in check_name(path, name):
        with library(path):
            import h5py

            link = group.get(part, getlink=True) if isinstance(group, h5py.Group) else None
            if link is None:
                return None
            if not isinstance(link, h5py.HardLink):
                raise refusal(path, f"links {name!r} to another place: copy the data into the file")
            group = group[part]
    return group


def check_dataset(path: Path, name: str, entry: Any) -> None:
    """Refuses what is no dataset, and data that lies in other files."""
    with library(path):
        import h5py

        is_dataset = isinstance(entry, h5py.Dataset) and entry.shape is not None
        is_outside = is_dataset and (entry.is_virtual or entry.external is not None)
    if not is_dataset:
        raise refusal(path, f"holds no dataset {name!r}: name one (--key)")
    if is_outside:
        raise refusal(path, f"keeps {name!r} in other files: copy the data into this one")


def read_numbers(path: Path, name: str, entry: Any, kept: np.dtype[Any]) -> NDArray[Any]:
    """Reads a dataset as numbers of the type to keep; sizes are checked before any is read."""
    check_dataset(path, name, entry)
    with library(path):
        shape, stored, chunks = tuple(entry.shape), entry.dtype, entry.chunks
    if stored.kind not in ("c" if kept.kind == "c" else "buif"):
        raise refusal(path, f"holds {stored} as {name!r}: store an array of numbers")
    # A chunk is unpacked whole, even if little of it lies in the dataset.
    for extent in (shape, chunks or (1,)):
        check_size(path, extent, stored, kept)
    check_chunks(path, shape, chunks or shape)
    numbers = make_array(shape, kept)
    rows = max((1 << 24) // max(stored.itemsize * math.prod(shape[1:]), 1), 1)
    with np.errstate(over="ignore", invalid="ignore"), library(path):
        for start in range(0, shape[0] if shape else 0, rows):
            numbers[start : start + rows] = entry[start : start + rows]
            release(numbers)
    return numbers


def read_text(path: Path, name: str, entry: Any) -> bytes:
    """Reads a string, stored as a scalar or as the only item of a list."""
    check_dataset(path, name, entry)
    with library(path):
        if entry.size != 1 or entry.dtype.itemsize > LIMITS.header:
            raise refusal(path, f"holds no single text as {name!r}: export it anew")
        value = entry[()]
        value = value.reshape(-1)[0] if isinstance(value, np.ndarray) else value
    text = value.encode() if isinstance(value, str) else value
    if not isinstance(text, bytes) or len(text) > LIMITS.header:
        raise refusal(path, f"holds no readable text as {name!r}: export it anew")
    return text


def read_provenance(path: Path) -> str | None:
    """Reads the attribute that results carry."""
    with opened(path) as file, library(path):
        text = file.attrs.get(NOTE)
    return text if isinstance(text, str) else None
