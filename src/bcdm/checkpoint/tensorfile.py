"""Tensors as files: the same bits for the same content, and nothing read that was not checked."""

import hashlib
import json
import stat
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as pack
from torch import Tensor

from bcdm.errors import ModelError
from bcdm.files import replacing
from bcdm.spool import release

__all__ = [
    "UNUSABLE",
    "check_file",
    "hash_file",
    "read_tensors",
    "shorten",
    "stream_tensors",
    "write_tensors",
]

_LONGEST_HEADER = 1 << 24  # bytes

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
    # The library orders tensors by their types: asked with one number of each, it says how.
    packed = pack({name: t.new_zeros(1) for name, t in tensors.items()}, header)
    length = int.from_bytes(packed[:8], "little")
    entries = json.loads(packed[8 : 8 + length])
    names = sorted(tensors, key=lambda name: entries[name]["data_offsets"])
    end = 0
    for name in names:
        start, end = end, end + tensors[name].nbytes
        entries[name] |= {"shape": list(tensors[name].shape), "data_offsets": [start, end]}
    ordered = json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()
    # Tensors start at a multiple of 8 bytes; the offsets count from there.
    head = ordered.ljust(-(-len(ordered) // 8) * 8)
    with replacing(path) as partial, partial.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for name in names:
            # A slice at a time, because maps of a volume may be larger than memory.
            whole = tensors[name].detach().cpu()
            for part in whole if whole.ndim > 3 else [whole]:
                flat = part.contiguous().reshape(-1)
                real = torch.view_as_real(flat) if flat.is_complex() else flat
                numbers = real.view(torch.uint8).numpy()
                file.write(numbers.data)
                release(numbers)


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


def stream_tensors(path: Path) -> tuple[dict[str, Iterator[bytes]], dict[str, str]]:
    """The bytes of each tensor of a safetensors file, in blocks, and the header's own entries."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            entries = json.loads(file.read(min(length, _LONGEST_HEADER)))
        header = entries.pop("__metadata__", {})
        places = {name: tuple(one["data_offsets"]) for name, one in entries.items()}
        return {
            name: _read_blocks(path, 8 + length + start, end - start)
            for name, (start, end) in places.items()
        }, header
    except (OSError, *UNUSABLE) as error:
        raise ModelError(f"{path} is not readable: {shorten(error)}") from None


def _read_blocks(path: Path, start: int, count: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        while count > 0 and (block := file.read(min(count, 1 << 20))):
            yield block
            count -= len(block)


def shorten(what: object) -> str:
    """An error's message, or a value of a file, on one line that can be read."""
    return " ".join(str(what).split())[:200] or type(what).__name__
