"""Results to files, in the format that the scan came in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bcdm.errors import ShapeError
from bcdm.scans.complaints import library, refusal, show
from bcdm.scans.formats import find_writer
from bcdm.scans.provenance import encode
from bcdm.scans.scan import Results, Scan

__all__ = ["check_results", "write_results"]

_GREY = ("DICOM", "NIfTI")


def check_results(scan: Scan, shape: tuple[int, ...]) -> None:
    """Refuses results (slices, channels, rows, columns) that do not fit beside a scan."""
    channels = scan.data.shape[1] if scan.kind == "image" else 1
    expected = (len(scan.data), channels, *scan.size)
    if shape != expected:
        need = f"{show(scan.path)} needs {expected}: crop the images to scan.size"
        raise ShapeError(f"results have shape {shape} but {need}")
    if scan.format in _GREY and channels != 1:
        raise refusal(scan.path, f"is {scan.format}, which takes no results in colour: give PNG")


def write_results(
    folder: str | Path, scan: Scan, results: Results, provenance: Mapping[str, Any]
) -> list[Path]:
    """Writes mean, standard deviation and interval in the scan's own format.

    Each file is written under another name and renamed once it is whole. Each carries the
    provenance, which `read_provenance` reads back.

    Args:
        folder: Where to write; it is made if need be.
        scan: What was read.
        results: One image per slice, of `scan.size`; one channel for k-space, those of the image
            otherwise.
        provenance: Plain things that JSON can say, such as model, command, seeds and versions.

    Returns:
        The files and folders written.
    """
    folder = Path(folder)
    check_results(scan, results.mean.shape)
    text = encode(provenance)
    with library(folder, "written to", "choose another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        if folder.resolve() == scan.path.resolve():
            raise refusal(folder, "is the input itself: choose another folder")
    return find_writer(scan).write(folder, scan, results, text)
