"""Files on disk to scans: any file gives a scan or one line that says why not."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bcdm.scans import arrays, fastmri, isolation, nifti
from bcdm.scans.answers import Held, Request
from bcdm.scans.complaints import refusal
from bcdm.scans.formats import find_format
from bcdm.scans.kspace import CHANCE, find_sampled, has_origin_in_corner, have_one_mask
from bcdm.scans.layout import shape_mask
from bcdm.scans.limits import check_pieces
from bcdm.scans.scan import Scan
from bcdm.spool import each

__all__ = ["complete", "perform", "read_mask", "read_provenance_text", "read_scan"]


def read_scan(path: str | Path, mask: str | Path | None = None, key: str | None = None) -> Scan:
    """Reads a scan from a file or folder, recognised by its content.

    Nothing in the file is executed or followed to other files. A process of its own reads it,
    under limits on size, memory and time that are the same for all formats (`Limits`); it is kept
    for the next file. Reading is safe in threads.

    Args:
        path: A file, or the folder of a DICOM series or of zarr.
        mask: A file with what was sampled of k-space or is known of the image, (rows, columns) or
            (columns,): a picture, .npy, .npz or NIfTI, anything but zero. It overrules the scan's
            own. Rows and columns are those of `Scan.data`; NIfTI is turned as scans are.
        key: The name of the array in a file that holds several; for a folder of several DICOM
            series, the SeriesInstanceUID.

    Raises:
        InputError: One line that names the file and what to do.
    """
    beside = None if mask is None else Path(mask)
    scan = isolation.ask(Request("scan", Path(path), beside, key))
    assert isinstance(scan, Scan)
    return scan


def read_mask(path: str | Path, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Reads a mask (rows, columns): a picture, .npy, .npz or NIfTI, anything but zero."""
    mask = isolation.ask(Request("mask", Path(path), size=size))
    assert isinstance(mask, np.ndarray)
    return mask


def read_provenance_text(path: Path) -> str | None:
    """Reads the text that results carry, from any of the formats that `write_results` writes."""
    text = isolation.ask(Request("provenance", path))
    assert text is None or isinstance(text, str)
    return text


def perform(request: Request) -> Held:
    """Does in this process what a request asks for."""
    if request.verb == "scan":
        return _read_scan(request.path, request.mask, request.key)
    if request.verb == "mask":
        return _read_mask(request.path, request.size, None)
    return find_format(request.path).read_provenance(request.path)


def _read_scan(path: Path, mask: Path | None, key: str | None) -> Scan:
    scan = find_format(path).read(path, key)
    if mask is not None:
        rows, columns = scan.data.shape[-2:]
        taken = _read_mask(mask, (rows, columns), scan)
        if scan.format == fastmri.FORMAT and scan.kind == "k-space":
            facts = dict(scan.facts)
            taken = fastmri.remove_padding(taken, scan.data, facts)
            scan = replace(scan, facts=facts)
        scan = replace(scan, mask=taken)
    return complete(scan)


def _read_mask(path: Path, size: tuple[int, int], beside: Scan | None) -> NDArray[np.bool_]:
    """A mask; one in NIfTI that does not say where it lies is turned as the scan beside it."""
    format = find_format(path)
    if format.names[0] in ("npy", "npz"):
        return shape_mask(path, arrays.read_mask_array(path), size)
    if format.names[0] == nifti.FORMAT and beside is not None and beside.format == nifti.FORMAT:
        held = nifti.read(path, None, beside.header)
    else:
        held = format.read(path, None)
    # A mask may be a picture in colour.
    first, *others = (held.data != 0).any(1)
    if any(bool((one != first).any()) for one in others):
        raise refusal(path, f"holds other masks in {len(others) + 1} slices: give them one by one")
    return shape_mask(path, first, size)


def complete(scan: Scan) -> Scan:
    """Refuses numbers that are none, and finds what was sampled where no mask says so."""
    check_pieces(scan.path, len(scan.data), "slices")
    beside = [one for one in (scan.noise, scan.calibration) if one is not None]
    for numbers in chain(each(scan.data), beside):
        if not bool(np.isfinite(numbers).all()):
            raise refusal(scan.path, "holds values that are not finite: replace NaN and infinity")
    if scan.kind != "k-space":
        return scan
    found = find_sampled(scan.data)
    mask = found if scan.mask is None else scan.mask
    if not bool((mask & found).any()):
        raise refusal(
            scan.path, "holds k-space of zeros alone where it was sampled: export it anew"
        )
    empty = float((mask & ~found).sum() / mask.sum())
    if empty > CHANCE:
        raise refusal(
            scan.path,
            f"holds zeros alone in {empty:.0%} of what the mask says was sampled: check the mask "
            "(one number for each column, or one for each entry)",
        )
    if scan.mask is None and not have_one_mask(scan.data, mask):
        raise refusal(scan.path, "has slices with different masks: reconstruct them one by one")
    if has_origin_in_corner(np.array(scan.data[len(scan.data) // 2])):
        raise refusal(
            scan.path,
            "has the origin of k-space in a corner: store np.fft.fftshift(kspace, (-2, -1)) of it",
        )
    facts = {
        **scan.facts,
        "coils": scan.data.shape[1],
        "sampled": round(float(mask.mean()), 4),
        "acceleration": round(float(1 / mask.mean()), 2),
    }
    return replace(scan, mask=mask, facts=facts)
