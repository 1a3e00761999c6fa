"""The formats: how each is recognised, read and written."""

import gzip
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from bcdm.scans import (
    arrays,
    derivation,
    dicom,
    fastmri,
    hdf5,
    mrd,
    nifti,
    pictures,
    zarrstore,
)
from bcdm.scans.complaints import library, refusal
from bcdm.scans.limits import LIMITS
from bcdm.scans.scan import Results, Scan

__all__ = ["Format", "find_format", "find_writer"]

_KNOWN = "fastMRI or ISMRMRD .h5, .nii, .nii.gz, DICOM, .png, .tif, .npy, .npz or zarr"


class Format(NamedTuple):
    """One kind of file.

    Attributes:
        names: What `Scan.format` can be for such files.
        read: Reads a scan.
        write: Writes results.
        read_provenance: Reads the text that results carry.
    """

    names: tuple[str, ...]
    read: Callable[[Path, str | None], Scan]
    write: Callable[[Path, Scan, Results, str], list[Path]]
    read_provenance: Callable[[Path], str | None]


def _read_hdf5(path: Path, key: str | None) -> Scan:
    with hdf5.opened(path) as file:
        read = mrd.read if mrd.is_mrd(path, file, key) else fastmri.read
        return read(path, file, key)


def _write_hdf5(folder: Path, scan: Scan, results: Results, provenance: str) -> list[Path]:
    write = mrd.write if scan.format == mrd.FORMAT else fastmri.write
    return write(folder, scan, results, provenance)


_HDF5 = Format((fastmri.FORMAT, mrd.FORMAT), _read_hdf5, _write_hdf5, hdf5.read_provenance)
_DICOM = Format((dicom.FORMAT,), dicom.read, derivation.write, dicom.read_provenance)
_ZARR = Format((zarrstore.FORMAT,), zarrstore.read, zarrstore.write, zarrstore.read_provenance)
_NIFTI = Format((nifti.FORMAT,), nifti.read, nifti.write, nifti.read_provenance)
_PNG = Format(("PNG",), pictures.read_png, pictures.write_png, pictures.read_png_note)
_TIFF = Format(("TIFF",), pictures.read_tiff, pictures.write_tiff, pictures.read_tiff_note)
_NPY = Format(("npy",), arrays.read_npy, arrays.write, arrays.read_provenance)
_NPZ = Format(("npz",), arrays.read_npz, arrays.write, arrays.read_provenance)

_FORMATS = (_HDF5, _DICOM, _ZARR, _NIFTI, _PNG, _TIFF, _NPY, _NPZ)

_MAGIC = {
    b"\x93NUMPY": _NPY,
    b"PK\3\4": _NPZ,
    b"PK\5\6": _NPZ,
    b"\x89PNG\r\n\x1a\n": _PNG,
    b"II*\0": _TIFF,
    b"MM\0*": _TIFF,
    b"II+\0": _TIFF,
    b"MM\0+": _TIFF,
    b"\x89HDF\r\n\x1a\n": _HDF5,
}
_ENDINGS = {
    ".h5": "HDF5",
    ".hdf5": "HDF5",
    ".mrd": "HDF5",
    ".nii": "NIfTI",
    ".gz": "NIfTI",
    ".dcm": "DICOM",
    ".png": "PNG",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".npy": "npy",
    ".npz": "npz",
}


def find_format(path: Path) -> Format:
    """Recognises a file by its first bytes, and a folder by what is in it."""
    with library(path, fix="check the path and its permissions"):
        is_folder, is_file = path.is_dir(), path.is_file()
    if is_folder:
        return _find_folder(path)
    if not is_file:
        raise refusal(path, "is no file or folder: check the path")
    with library(path, fix="check its permissions"), path.open("rb") as stream:
        start = stream.read(2048)
    if not start:
        raise refusal(path, "is empty: copy it anew")
    for magic, format in _MAGIC.items():
        if start.startswith(magic):
            return format
    if start.startswith(b"\x1f\x8b"):
        with library(path), gzip.open(path) as packed:
            start = packed.read(2048)
    if nifti.find_header(start) is not None:
        return _NIFTI
    if start[128:132] == b"DICM":
        return _DICOM
    # A block of the user may come first.
    if any(start[at:].startswith(b"\x89HDF\r\n\x1a\n") for at in (512, 1024)):
        return _HDF5
    claimed = _ENDINGS.get(path.suffix.lower())
    if claimed is not None:
        raise refusal(path, f"does not hold {claimed} as its name says: export it anew")
    raise refusal(path, f"is of no known format: give {_KNOWN}")


def _find_folder(path: Path) -> Format:
    with library(path, fix="check its permissions"):
        if (path / "zarr.json").is_file():
            return _ZARR
        if (path / ".zgroup").exists() or (path / ".zarray").exists():
            raise refusal(path, "is zarr of version 2: convert it to version 3")
        files = [entry for entry in islice(path.iterdir(), LIMITS.files) if entry.is_file()]
    if any(dicom.has_preamble(file) for file in files):
        return _DICOM
    raise refusal(path, "holds neither a DICOM series nor zarr: give one scan")


def find_writer(scan: Scan) -> Format:
    """The format that a scan was read from."""
    for format in _FORMATS:
        if scan.format in format.names:
            return format
    raise refusal(scan.path, f"is of the unknown format {scan.format!r}: use read_scan")
