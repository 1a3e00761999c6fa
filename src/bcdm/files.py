"""How no half-written file ever has a final name."""

import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from bcdm.errors import InputError

__all__ = ["remove_partial", "replacing", "write_arrays", "write_text"]

_MARK = ".partial-"


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Gives a temporary path beside the target, and renames it once it is whole.

    It may become a file or a folder. If anything fails in between, what was under the final name
    before is still there.
    """
    # The ending stays last, because some libraries choose the format by it.
    partial = target.with_name(f"{_MARK}{os.getpid()}-{target.name}")
    try:
        yield partial
        _flush(partial)
        _rename(partial, target)
    finally:
        _remove(partial)


def write_text(path: Path, text: str) -> None:
    """Writes a text file; it is whole or not there. Makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_arrays(path: Path, arrays: Mapping[str, ArrayLike]) -> None:
    """Writes an .npz file whose bits depend on the arrays alone; numpy's own hold the time, too."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def remove_partial(folder: Path) -> None:
    """Removes what a run that was killed left half-written in a folder."""
    for left in folder.glob(f"{_MARK}*"):
        _remove(left)


def _flush(partial: Path) -> None:
    # A rename may reach the disk before the content does; a crash would then leave an empty file.
    files = [partial] if partial.is_file() else [p for p in partial.rglob("*") if p.is_file()]
    for file in files:
        # Windows flushes only what is open for writing.
        descriptor = os.open(file, os.O_RDWR | getattr(os, "O_BINARY", 0))
        try:
            os.fsync(descriptor)
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
