"""What a file may ask for, and how any library's complaint becomes one line that names the file."""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bcdm.errors import InputError

__all__ = [
    "LIMIT_BYTES",
    "LIMIT_HEADER",
    "LIMIT_MEMORY",
    "LIMIT_SECONDS",
    "check_links",
    "check_name",
    "check_size",
    "library",
    "read_exactly",
    "refusal",
]

LIMIT_BYTES = 1 << 30  # of decoded numbers in one scan
LIMIT_HEADER = 1 << 24  # of everything in a file that is not numbers
LIMIT_MEMORY = 2_000_000_000  # of the process that reads for us
LIMIT_SECONDS = 4.0  # of that process, without waiting; large files get more

_LONGEST_REASON = 160
_LONGEST_LINE = 600


def refusal(path: Path, text: str) -> InputError:
    r"""The error to raise: one line that names the file, says what is wrong and what to do.

    >>> refusal(Path("a\nb.png"), "is empty: export it anew")
    InputError('a b.png is empty: export it anew')
    """
    line = " ".join(f"{path} {text}".split())[:_LONGEST_LINE]
    return InputError("".join(c if c.isprintable() else "?" for c in line))


@contextmanager
def library(path: Path, deed: str = "read", fix: str = "export it anew") -> Iterator[None]:
    """Turns whatever a library raises on a damaged file into one line.

    Only calls into the library belong inside, so that a fault of our own is never blamed on the
    file. What a library warns of either does not matter here or is checked by the reader.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (InputError, MemoryError):
        raise
    except ImportError as error:
        text = f"needs the package {error.name}: pip install 'bcdm[formats]'"
        raise refusal(path, text) from error
    except Exception as error:
        words = " ".join(f"{error}".split()) or type(error).__name__
        if len(words) > _LONGEST_REASON:
            words = words[:_LONGEST_REASON] + "..."
        raise refusal(path, f"cannot be {deed} ({words}): {fix}") from error


def check_size(
    path: Path, shape: Sequence[int], stored: np.dtype[Any], kept: np.dtype[Any]
) -> None:
    """Refuses an array that is empty or too large, by its declared shape and number types."""
    if any(int(length) < 1 for length in shape):
        raise refusal(path, f"holds an empty array {tuple(shape)}: export it anew")
    # Python's integers do not overflow, so that no shape slips through.
    total = math.prod(int(length) for length in shape) * max(stored.itemsize, kept.itemsize)
    if total > LIMIT_BYTES:
        raise refusal(
            path,
            f"declares {total / 2**30:.3g} GiB of numbers, of which {LIMIT_BYTES / 2**30:.3g} GiB "
            "fit: split it into fewer slices per file",
        )


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
    numbers = np.empty(count, kept)
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
    return numbers
