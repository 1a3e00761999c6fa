"""How no half-written file ever has a final name, and what a file holds in one number."""

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bcdm.errors import InputError, MachineError, blames_machine

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "count_bytes",
    "flush",
    "flush_names",
    "hash_content",
    "hash_path",
    "remove_partial",
    "replacing",
    "write_arrays",
    "write_text",
]

_MARK = ".partial-"
_OWN = re.compile(r"\.partial-([0-9a-f]{8})-(\d+)-[0-9a-f]{8}-")
# Nobody writes one file for so long.
_LEASE_SECONDS = 7 * 24 * 3600
_BLOCK = 1 << 20


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Gives a temporary path beside the target, and renames it once it is whole.

    It may become a file or a folder. If anything fails in between, what was under the final name
    before is still there.
    """
    # No other host, process or thread has this name. The ending stays last, because some libraries
    # choose the format by it; the front of a long name would leave no room for the rest.
    own = f"{_name_host()}-{os.getpid()}-{secrets.token_hex(4)}"
    partial = target.with_name(f"{_MARK}{own}-{target.name[-40:]}")
    try:
        yield partial
        flush(partial)
        _rename(partial, target)
        flush_names(target.parent)
    finally:
        _remove(partial)


def write_text(path: Path, text: str) -> None:
    """Writes a text file; it is whole or not there. Makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_arrays(path: Path, arrays: "Mapping[str, ArrayLike]") -> None:
    """Writes an .npz file whose bits depend on the arrays alone; numpy's own hold the time, too."""
    # Here, because help and finished work do without.
    import numpy as np

    from bcdm.spool import each

    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(member, "w", force_zip64=True) as file:
                whole = np.asanyarray(array)
                if not isinstance(whole, np.memmap):
                    np.lib.format.write_array(file, whole, allow_pickle=False)
                    continue
                # The same bits, a part at a time: it may be larger than memory.
                layout = np.lib.format.header_data_from_array_1_0(whole)
                np.lib.format.write_array_header_1_0(file, layout)
                for part in each(whole):
                    file.write(part.data)


def hash_path(path: Path) -> str:
    """SHA-256 of a file, or of all files of a folder with their names."""
    digest = hashlib.sha256()
    try:
        path.stat()  # what is not there has no files, either
        for file in _list_files(path):
            if path.is_dir():
                # Names need not be UTF-8.
                digest.update(os.fsencode(file.relative_to(path).as_posix()))
            with file.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    digest.update(block)
    except OSError as error:
        kind = MachineError if blames_machine(error) else InputError
        raise kind(f"cannot read {path}: {error.strerror}") from None
    return digest.hexdigest()


def hash_content(content: Mapping[str, Any]) -> str:
    """SHA-256 of plain settings."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def count_bytes(path: Path) -> int:
    """The size of a file, or of all files of a folder."""
    return sum(file.stat().st_size for file in _list_files(path))


def remove_partial(folder: Path, *, alone: bool = False) -> None:
    """Removes what runs that were killed left half-written in a folder.

    What a living process may still write is kept: only what a process of this host left that is
    gone by now, and what is older than a week, is removed.

    Args:
        folder: Where to look.
        alone: Whether the caller holds the folder's lock, so that nobody else can be writing.
    """
    for left in folder.glob(f"{_MARK}*"):
        if alone or _is_dead(left):
            _remove(left)


def _is_dead(partial: Path) -> bool:
    """Whether nobody can be writing it any more."""
    try:
        age = time.time() - partial.stat().st_mtime
    except OSError:
        return False
    if age > _LEASE_SECONDS:
        return True
    own = _OWN.match(partial.name)
    return own is not None and own[1] == _name_host() and not _is_alive(int(own[2]))


def _is_alive(process: int) -> bool:
    if os.name == "nt":  # there a signal of 0 would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _name_host() -> str:
    """Eight digits of where process ids mean the same: a host, or a container in it."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]


def _list_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())


def flush(path: Path) -> None:
    """Returns when a file, or all that is in a folder, would survive a crash of the machine."""
    # A rename may reach the disk before the content does; a crash would then leave an empty file.
    for file in _list_files(path):
        # Windows flushes only what is open for writing.
        descriptor = os.open(file, os.O_RDWR | getattr(os, "O_BINARY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    if path.is_dir():
        for folder in [path, *(inner for inner in path.rglob("*") if inner.is_dir())]:
            flush_names(folder)


def flush_names(folder: Path) -> None:
    """Returns when the names in a folder, and renames, would survive a crash of the machine."""
    if os.name == "nt":
        return  # it has no such call
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems of networks keep names at once, and know no such call.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _rename(partial: Path, target: Path) -> None:
    if not target.is_dir() or target.is_symlink():
        partial.replace(target)
        return
    if not partial.is_dir():
        raise InputError(f"{target} is a folder: remove it or choose another folder")
    # A folder that is not empty cannot be replaced in one step: set the old one aside.
    aside = partial.with_name(f"{partial.name}.old")
    target.replace(aside)
    try:
        partial.replace(target)
    except OSError:
        aside.replace(target)
        raise
    shutil.rmtree(aside)


def _remove(partial: Path) -> None:
    if partial.is_dir():
        shutil.rmtree(partial, ignore_errors=True)
    partial.unlink(missing_ok=True)
