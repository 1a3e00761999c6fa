"""Where results go, and how a failure to write them is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bcdm.files import replacing
from bcdm.scans.complaints import library
from bcdm.scans.scan import Scan

__all__ = ["place", "stem", "writing"]

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
def writing(target: Path) -> Iterator[Path]:
    """Gives a temporary path that takes the target's place once it is whole; failures are a line.

    Only calls into the library that writes belong inside.
    """
    hint = "free some space or choose another folder"
    with library(target, "written", hint), replacing(target) as partial:
        yield partial
