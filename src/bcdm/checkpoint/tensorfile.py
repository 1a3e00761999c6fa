"""Tensors as files: the same bits for the same content, and nothing read that was not checked."""

import hashlib
import json
import stat
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as pack
from torch import Tensor

from bcdm.errors import ModelError
from bcdm.files import replacing

__all__ = ["UNUSABLE", "check_file", "hash_file", "read_tensors", "shorten", "write_tensors"]


# What is raised where something is built from settings that make no sense.
UNUSABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


def write_tensors(
    path: Path, tensors: dict[str, Tensor], header: dict[str, str] | None = None
) -> None:
    """Writes a safetensors file with the usual permissions and the same bits for the same content.

    The library's own is readable by its owner alone, and its header comes in any order.
    """
    packed = pack(tensors, header)
    length = int.from_bytes(packed[:8], "little")
    ordered = json.dumps(json.loads(packed[8 : 8 + length]), sort_keys=True, separators=(",", ":"))
    # Tensors start at a multiple of 8 bytes; the offsets count from there.
    head = ordered.encode().ljust(-(-len(ordered.encode()) // 8) * 8)
    with replacing(path) as partial:
        partial.write_bytes(len(head).to_bytes(8, "little") + head + packed[8 + length :])


def check_file(path: Path, largest: int) -> None:
    """Refuses what is not a file, such as a device that never ends, and what is too large."""
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {shorten(error)}") from None
    if not stat.S_ISREG(found.st_mode):
        raise ModelError(f"{path} is not a file")
    if found.st_size > largest:
        raise ModelError(f"{path} is too large: {found.st_size} bytes, at most {largest} are read")


def hash_file(path: Path, largest: int) -> str:
    """SHA-256 of a file of bounded size."""
    check_file(path, largest)
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {shorten(error)}") from None


def read_tensors(path: Path, largest: int) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Reads a safetensors file: tensors by name, all finite, and the header's own entries."""
    check_file(path, largest)
    try:
        with safe_open(str(path), "pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        finite = all(bool(t.isfinite().all()) for t in tensors.values())
    except (OSError, SafetensorError, *UNUSABLE) as error:
        raise ModelError(f"{path} is not readable: {shorten(error)}") from None
    if not finite:
        raise ModelError(f"{path} holds numbers that are not finite: make it anew")
    return tensors, header


def shorten(what: object) -> str:
    """An error's message, or a value of a file, on one line that can be read."""
    return " ".join(str(what).split())[:200] or type(what).__name__
