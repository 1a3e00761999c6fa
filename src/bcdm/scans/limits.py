"""What reading one scan may take: one policy for every format, and the checks that keep it.

Sizes are compared with the policy as the file declares them, before anything is unpacked or
allocated. Memory and time are limited in the process that reads (see `isolation`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bcdm.scans.complaints import library, refusal
from bcdm.spool import make_array, release

__all__ = [
    "LIMITS",
    "LIMIT_BYTES",
    "Budget",
    "Limits",
    "check_chunks",
    "check_links",
    "check_name",
    "check_pieces",
    "check_size",
    "find_size",
    "read_exactly",
]


class Budget(NamedTuple):
    """The seconds that one file or folder may take.

    Attributes:
        work: Of the processor.
        wait: By the clock on the wall.
    """

    work: float
    wait: float


@dataclass(frozen=True)
class Limits:
    """What reading one scan may take.

    Attributes:
        numbers: Bytes of decoded numbers.
        easy: Bytes of decoded numbers that a file of any size may declare.
        ratio: How many times its own size a file may declare beyond that. Real scans stay below
            ten, and deflate reaches a thousand on zeros alone.
        pieces: Slices of a scan, chunks of a picture or an array, files that are counted.
        files: Files of a series.
        header: Bytes of everything in a file that is not numbers.
        memory: Bytes of the process that reads, where the system can limit them.
        work: Seconds of the processor, for a small file. Neither a slow disk nor a busy machine
            makes a file bad.
        work_per_byte: Seconds more for each byte of the file: the slowest packing in use.
        work_per_file: Seconds more for each file of a folder.
        patience: How many seconds on the wall may pass for each of the processor.
    """

    numbers: int = 1 << 31
    easy: int = 1 << 28
    ratio: int = 200
    pieces: int = 200_000
    files: int = 10_000
    header: int = 1 << 24
    memory: int = 4_000_000_000
    work: float = 4.0
    work_per_byte: float = 1 / 50e6
    work_per_file: float = 0.05
    patience: float = 30.0

    def allow(self, path: Path) -> Budget:
        """The time for a file or folder, by its size on the disk and its number of files."""
        size, count = find_size(path, self.pieces)
        work = self.work + size * self.work_per_byte + (count - 1) * self.work_per_file
        return Budget(work, work * self.patience)


LIMITS = Limits()
LIMIT_BYTES = LIMITS.numbers
"""The most bytes of numbers that a scan may hold, unless its reader is told another limit."""


def find_size(path: Path, most: int = LIMITS.pieces) -> tuple[int, int]:
    """The size on the disk, and the number of files, of which at least one is counted.

    What cannot be looked at counts as empty: the reader will say what is wrong with it.
    """
    size = count = 0
    try:
        entries = path.rglob("*") if path.is_dir() else iter([path])
        for entry in islice(entries, most):
            if entry.is_file():
                size, count = size + entry.stat().st_size, count + 1
    except (OSError, ValueError):
        pass
    return size, max(count, 1)


def check_size(
    path: Path, shape: Sequence[int], stored: np.dtype[Any], kept: np.dtype[Any]
) -> None:
    """Refuses an array that is empty or too large, by its declared shape and number types."""
    if any(int(length) < 1 for length in shape):
        raise refusal(path, f"holds an empty array {tuple(shape)}: export it anew")
    # Python's integers do not overflow, so that no shape slips through.
    total = math.prod(int(length) for length in shape) * max(stored.itemsize, kept.itemsize)
    if total > LIMITS.numbers:
        raise refusal(
            path,
            f"declares {total / 2**30:.3g} GiB of numbers, of which "
            f"{LIMITS.numbers / 2**30:.3g} GiB fit: split it into fewer slices per file",
        )
    size = find_size(path)[0] if total > LIMITS.easy else total
    if total > max(LIMITS.easy, LIMITS.ratio * size):
        raise refusal(
            path,
            f"declares {total / 2**30:.3g} GiB of numbers in {size / 2**10:.3g} KiB, as damaged "
            "files do: copy it anew, or save it without compression",
        )


def check_pieces(path: Path, count: int, what: str) -> None:
    """Refuses a file of so many slices or chunks that it would be read for hours."""
    if count > LIMITS.pieces:
        text = f"declares {count} {what}, of which at most {LIMITS.pieces} are read"
        raise refusal(path, f"{text}: split it or save it anew")


def check_chunks(path: Path, shape: Sequence[int], chunks: Sequence[int]) -> None:
    """Refuses an array stored in countless chunks, by its declared shape and that of a chunk."""
    counts = (-(-length // max(side, 1)) for length, side in zip(shape, chunks, strict=True))
    check_pieces(path, math.prod(counts), "chunks")


def check_name(path: Path, name: str) -> tuple[str, ...]:
    """Splits the name of an array inside a file; refuses names that lead out of it."""
    parts = tuple(name.split("/"))
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or not name.isprintable():
        raise refusal(path, f"is asked for {name!r}: give the plain name of an array inside it")
    return parts


def check_links(folder: Path) -> None:
    """Refuses a folder in which anything is a link, which could lead to any file of the machine."""
    with library(folder):
        entries = [folder]
        while entries:
            entry = entries.pop()
            # The folder itself may be a link: it was named by the user.
            if entry != folder and entry.is_symlink():
                raise refusal(folder, f"holds the link {entry.name}: copy the file into the folder")
            if entry.is_dir():
                entries.extend(entry.iterdir())
            elif not entry.is_file():
                raise refusal(folder, f"holds {entry.name}, which is no file: remove it")


def read_exactly(
    path: Path, stream: IO[bytes], shape: Sequence[int], stored: np.dtype[Any], kept: np.dtype[Any]
) -> NDArray[Any]:
    """Reads a flat array from a stream, block by block: what is kept is all the memory it takes."""
    check_size(path, shape, stored, kept)
    count = math.prod(shape)
    numbers = make_array((count,), kept)
    block = max((1 << 22) // stored.itemsize, 1)
    for start in range(0, count, block):
        stop = min(start + block, count)
        with library(path):
            raw = stream.read((stop - start) * stored.itemsize)
        if len(raw) != (stop - start) * stored.itemsize:
            raise refusal(path, "ends before its last number: copy it anew")
        # What is beyond float32 becomes infinite, and is refused as such.
        with np.errstate(over="ignore", invalid="ignore"):
            numbers[start:stop] = np.frombuffer(raw, stored)
        release(numbers)
    return numbers
