"""An output folder has one writer at a time, and one file that says it is finished."""

import errno
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from bcdm.files import count_bytes

__all__ = ["MARKER", "claim", "find_finished", "stays_inside", "try_claim"]

# Written last, when all that it names is whole.
MARKER = "run.json"
_LOCK = ".lock"
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 2.0
# What file systems answer that have no locks, some kinds of NFS among them.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)


@contextmanager
def claim(folder: Path, say: Callable[[str], None]) -> Iterator[bool]:
    """Waits until no other process or thread writes a folder, and keeps others out.

    The lock belongs to an open file: when its process ends, by kill -9 too, it is free again. It
    holds between processes of one host, and between hosts where the file system passes locks on
    (NFS 4 does; NFS 3 with its lock service).

    Args:
        folder: It must exist.
        say: Told whom it waits for, once.

    Yields:
        Whether nobody else writes; False where the file system has no locks, which `say` is told.
    """
    path = folder / _LOCK
    descriptor = _acquire(path, folder, say)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            if sys.platform != "win32":  # there an open file cannot be removed
                path.unlink(missing_ok=True)
            os.close(descriptor)


@contextmanager
def try_claim(path: Path) -> Iterator[bool | None]:
    """Takes a lock file if nobody holds it, without waiting.

    Args:
        path: The lock file, in a folder that exists. It is removed at the end.

    Yields:
        Whether it is ours; None where the file system has no locks.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    is_ours: bool | None = False
    try:
        try:
            is_ours = _try_lock(descriptor) and _is_same(descriptor, path)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            is_ours = None
        yield is_ours
    finally:
        if is_ours is not False and sys.platform != "win32":
            path.unlink(missing_ok=True)
        os.close(descriptor)


def find_finished(folder: Path, request: str) -> dict[str, Any] | None:
    """What the marker of a folder says, if it was finished for the same request.

    Every file that it names must still be there, with its size; `bcdm verify` looks inside, too.
    """
    try:
        content = json.loads((folder / MARKER).read_text())
        if not request or content["request"] != request:
            return None
        sizes = content["sizes"].items()
        whole = all(
            stays_inside(name) and count_bytes(folder / name) == size for name, size in sizes
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return content if whole else None


def stays_inside(name: str) -> bool:
    """Whether a name leads to something in its folder, and not out of it.

    >>> stays_inside("samples.zarr"), stays_inside("../model"), stays_inside("/dev/zero")
    (True, False, False)
    """
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _acquire(path: Path, folder: Path, say: Callable[[str], None]) -> int | None:
    """The open file that holds the lock; None where there are no locks."""
    told, pause = False, _PAUSE_SECONDS
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            taken = _try_lock(descriptor)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in _NO_LOCKS:
                raise
            path.unlink(missing_ok=True)
            say(f"{folder} cannot be locked: let no other process write there")
            return None
        if taken and _is_same(descriptor, path):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {platform.node()}".encode())
            return descriptor
        owner = _read_owner(descriptor)
        os.close(descriptor)
        if taken:
            continue  # its former owner removed it in between
        if not told:
            say(f"{folder} is being written by {owner}: waiting for it")
            told = True
        time.sleep(pause)
        # A thousand who wait would else keep a file server busy.
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _try_lock(descriptor: int) -> bool:
    """Whether the lock is ours now."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK):
            return False
        raise
    return True


def _read_owner(descriptor: int) -> str:
    try:
        return os.read(descriptor, 200).decode(errors="replace") or "another process"
    except OSError:  # on Windows a lock keeps others from reading
        return "another process"


def _is_same(descriptor: int, path: Path) -> bool:
    """Whether the file that is open is still the one that others find."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
