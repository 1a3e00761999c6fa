"""Where results go, and how no partial file ever has a final name."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bcdm.scans.limits import library, refusal
from bcdm.scans.scan import Scan

__all__ = ["place", "replacing", "stem"]

_ENDINGS = (".nii.gz", ".nii", ".h5", ".hdf5", ".mrd", ".npz", ".npy", ".zarr", ".dcm", ".png")


def stem(path: Path) -> str:
    """The name of a scan without the ending of its format.

    >>> stem(Path("data/sub-01_T1w.nii.gz"))
    'sub-01_T1w'
    """
    name = path.name or path.absolute().name
    for ending in (*_ENDINGS, ".tiff", ".tif"):
        if name.lower().endswith(ending) and len(name) > len(ending):
            return name[: -len(ending)]
    return name or "scan"


def place(folder: Path, scan: Scan, ending: str) -> Path:
    """The path of one result."""
    return folder / f"{stem(scan.path)}{ending}"


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Gives a temporary path beside the target, and renames it once it is whole.

    It may become a file or a folder. If anything fails in between, what was under the final name
    before is still there.
    """
    # The ending stays last, because some libraries choose the format by it.
    partial = target.with_name(f".partial-{os.getpid()}-{target.name}")
    try:
        yield partial
        with library(target, "written", "free some space or choose another folder"):
            _flush(partial)
            _rename(partial, target)
    finally:
        _remove(partial)


def _flush(partial: Path) -> None:
    # A rename may reach the disk before the content does; a crash would then leave an empty file.
    files = [partial] if partial.is_file() else [p for p in partial.rglob("*") if p.is_file()]
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _rename(partial: Path, target: Path) -> None:
    if not target.is_dir() or target.is_symlink():
        partial.replace(target)
        return
    if not partial.is_dir():
        raise refusal(target, "is a folder: remove it or choose another folder")
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
    with suppress(FileNotFoundError):
        partial.unlink()
