"""Arrays of volumes: on disk, in a file that nobody sees, and in memory only where looked at."""

import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bcdm.errors import MachineError

__all__ = ["SMALL", "each", "make_array", "release", "stack"]

SMALL = 1 << 25  # bytes: smaller arrays stay in memory

# Those on disk, by where they begin: what shares their memory, a tensor too, leads back to them.
_MAPPED: WeakValueDictionary[int, NDArray[Any]] = WeakValueDictionary()


def make_array(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array of zeros: in memory if it is small, else on disk until nobody holds it any more.

    The disk is that of temporary files (TMPDIR). A file has no name there, so that nothing is left
    of it, however a run ends.

    Raises:
        MachineError: If the disk has no room for it.
    """
    kept = np.dtype(dtype)
    size = prod(shape) * kept.itemsize
    if size <= SMALL:
        return np.zeros(shape, kept)
    try:
        with tempfile.TemporaryFile(prefix="bcdm-") as file:
            _reserve(file.fileno(), size)
            array = np.memmap(file, kept, "r+", shape=shape)
    except OSError as error:
        raise MachineError(
            f"{tempfile.gettempdir()} has no room for {size / 2**30:.2g} GiB ({error.strerror}): "
            "free some, or set TMPDIR to another disk"
        ) from None
    _MAPPED[array.ctypes.data] = array
    return array


def _reserve(file: int, size: int) -> None:
    """Takes the room at once: a disk that is full later would end the process without a word."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.truncate(file, size)


def release(array: NDArray[Any]) -> None:
    """Lets an array on disk leave memory: what it holds stays, and is read again where needed."""
    held = array if isinstance(array, np.memmap) else _find(array.ctypes.data)
    mapped = getattr(held, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def _find(address: int) -> NDArray[Any] | None:
    """The array on disk that an address lies in."""
    for start, held in list(_MAPPED.items()):
        if start <= address < start + held.nbytes:
            return held
    return None


def each(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Copies of the parts of an array along its first axis; of one on disk, one is in memory."""
    for part in array:
        copied = np.array(part)
        release(array)
        yield copied


def stack(parts: Iterable[NDArray[Any]], count: int) -> NDArray[Any]:
    """Joins parts along a new first axis, as they come; where they are large, on disk.

    Args:
        parts: Of one shape and type.
        count: How many there are, at least one.
    """
    joined: NDArray[Any] | None = None
    for number, part in enumerate(parts):
        if joined is None:
            joined = make_array((count, *part.shape), part.dtype)
        joined[number] = part
        release(joined)
    assert joined is not None
    return joined
