"""DICOM images: one file, or a folder with the files of one series."""

import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bcdm.scans.complaints import library, refusal
from bcdm.scans.frames import Frame, find_number, find_text, list_frames
from bcdm.scans.layout import FLOAT
from bcdm.scans.limits import LIMITS, check_links, check_size
from bcdm.scans.packing import pack
from bcdm.scans.scan import Scan

if TYPE_CHECKING:
    from pydicom import Dataset

__all__ = ["FORMAT", "has_preamble", "read", "read_provenance"]

FORMAT = "DICOM"

_FACTS = {
    "modality": "Modality",
    "photometric interpretation": "PhotometricInterpretation",
    "vendor": "Manufacturer",
    "model": "ManufacturerModelName",
    "field strength in T": "MagneticFieldStrength",
    "TR in ms": "RepetitionTime",
    "TE in ms": "EchoTime",
}


def has_preamble(path: Path) -> bool:
    """Whether a file starts as DICOM files do."""
    with library(path), path.open("rb") as stream:
        return stream.read(132)[128:] == b"DICM"


def read(path: Path, key: str | None) -> Scan:
    """Reads a file, or the series of a folder that the key, a SeriesInstanceUID, names.

    Slices are sorted by position, and numbers scaled by the slope and intercept of each.
    """
    files = _list_files(path)
    heads = [(file, _read_head(path, file)) for file in files]
    heads = [(file, head) for file, head in heads if find_text(head, "Rows")]
    heads = _choose_series(path, heads, key)
    frames = [list_frames(path, head) for _, head in heads]
    if len(heads) > 1 and any(len(each) > 1 for each in frames):
        raise refusal(path, "holds several files of many frames: give one of the files")
    _check_places(path, [frame for each in frames for frame in each])
    order = _sort([head for _, head in heads], [each[0] for each in frames])
    heads, frames = [heads[i] for i in order], [frames[i] for i in order]
    kinds = {_describe(path, head) for _, head in heads}
    if len(kinds) != 1:
        raise refusal(path, "holds images of different sizes: keep one size per folder")
    rows, columns, stored = kinds.pop()
    check_size(path, (sum(map(len, frames)), 1, rows, columns), stored, FLOAT)
    data = np.empty((sum(map(len, frames)), 1, rows, columns), FLOAT)
    start = 0
    for (file, _), placed in zip(heads, frames, strict=True):
        _read_pixels(path, file, placed, data[start : start + len(placed), 0])
        start += len(placed)
    facts = _list_facts(heads[0][1], [frame for each in frames for frame in each])
    packed = pack(_encode(path, head) for _, head in heads)
    return Scan(path, FORMAT, "image", data, None, None, (rows, columns), facts, packed)


def _list_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    check_links(path)
    with library(path):
        files = sorted(entry for entry in path.iterdir() if entry.is_file())
    if len(files) > LIMITS.files:
        raise refusal(path, f"holds {len(files)} files: give a folder of one series")
    return [file for file in files if has_preamble(file)]


def _read_head(path: Path, file: Path) -> "Dataset":
    _check_unpacked(path, file)
    with library(path):
        import pydicom

        return pydicom.dcmread(file, stop_before_pixels=True)


def _check_unpacked(path: Path, file: Path) -> None:
    """Refuses a deflated file of more than fits: pydicom would unpack all of it at once."""
    with library(path):
        from pydicom.filereader import read_file_meta_info
        from pydicom.uid import DeflatedExplicitVRLittleEndian

        meta = read_file_meta_info(file)
        if meta.get("TransferSyntaxUID") != DeflatedExplicitVRLittleEndian:
            return
        # Behind 128 bytes, the name and the length of the group that names the packing.
        start = 144 + meta.FileMetaInformationGroupLength
        unpacker, total = zlib.decompressobj(-zlib.MAX_WBITS), 0
        with file.open("rb") as stream:
            stream.seek(start)
            while packed := stream.read(1 << 16):
                while packed:
                    total += len(unpacker.decompress(packed, 1 << 20))
                    packed = unpacker.unconsumed_tail
                    if total > LIMITS.numbers + LIMITS.header:
                        text = f"unpacks to more than {LIMITS.numbers / 2**30:.3g} GiB"
                        raise refusal(path, f"{text}: split it into fewer slices per file")


def _choose_series(
    path: Path, heads: list[tuple[Path, "Dataset"]], key: str | None
) -> list[tuple[Path, "Dataset"]]:
    series = {find_text(head, "SeriesInstanceUID") for _, head in heads}
    if key is not None:
        heads = [pair for pair in heads if find_text(pair[1], "SeriesInstanceUID") == key]
    elif len(series) > 1:
        shown = ", ".join(sorted(series)[:3])
        raise refusal(path, f"holds {len(series)} series: give the key of one ({shown})")
    if not heads:
        raise refusal(path, "holds no DICOM image: give a file or the folder of a series")
    return heads


def _describe(path: Path, head: "Dataset") -> tuple[int, int, np.dtype[Any]]:
    rows, columns, bits = (find_number(head, n) or 0 for n in ("Rows", "Columns", "BitsAllocated"))
    if (find_number(head, "SamplesPerPixel") or 1) != 1:
        raise refusal(path, "is in colour: give the grey original")
    if find_text(head, "PhotometricInterpretation") == "MONOCHROME1":
        raise refusal(path, "stores white as its smallest number: convert it to MONOCHROME2")
    if find_text(head, "PhotometricInterpretation") != "MONOCHROME2":
        raise refusal(path, "is not a grey image: give the grey original")
    if not (1 <= rows <= 65535 and 1 <= columns <= 65535 and bits in (8, 16, 32, 64)):
        raise refusal(path, f"declares {rows:g} x {columns:g} pixels of {bits:g} bits: export anew")
    if not (find_text(head, "SOPClassUID") and find_text(head, "SOPInstanceUID")):
        raise refusal(path, "does not name its own kind and identity: export it anew")
    return int(rows), int(columns), np.dtype(f"u{int(bits) // 8}")


def _check_places(path: Path, frames: Sequence[Frame]) -> None:
    orientations = {tuple(round(v, 3) for v in frame.orientation or ()) for frame in frames}
    if len(orientations) > 1:
        raise refusal(path, "holds slices of different directions: keep one per folder")
    positions = [frame.position for frame in frames if frame.position is not None]
    # Results are found again by position.
    if len(set(positions)) < len(positions):
        raise refusal(path, "holds several images at one position: keep one echo, one time")


def _sort(heads: Sequence["Dataset"], frames: Sequence[Frame]) -> list[int]:
    """The order of files along the normal of the slices, or by their number."""
    numbers = [find_number(head, "InstanceNumber") or 0.0 for head in heads]
    if any(frame.position is None or frame.orientation is None for frame in frames):
        return sorted(range(len(heads)), key=lambda i: (numbers[i], i))
    direction = np.asarray(frames[0].orientation)
    normal = np.cross(direction[:3], direction[3:])
    along = [round(float(normal @ np.asarray(frame.position)), 4) for frame in frames]
    return sorted(range(len(heads)), key=lambda i: (along[i], numbers[i], i))


def _read_pixels(
    path: Path, file: Path, frames: Sequence[Frame], images: NDArray[np.float32]
) -> None:
    """Fills the images of one file (frames, rows, columns)."""
    with library(path, fix="convert it to explicit VR little endian without compression"):
        import pydicom

        head = pydicom.dcmread(file)
        if "PixelData" not in head:
            raise refusal(path, "holds no integer pixels: give the original images")
        stored = np.asarray(head.pixel_array)
    if stored.size != images.size or stored.shape[-2:] != images.shape[-2:]:
        raise refusal(path, f"declares {images.shape} pixels, holds {stored.shape}: export it anew")
    for image, pixels, frame in zip(images, stored.reshape(images.shape), frames, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            image[...] = pixels * np.float64(frame.slope) + frame.intercept


def _list_facts(head: "Dataset", frames: Sequence[Frame]) -> dict[str, Any]:
    facts: dict[str, Any] = {"slices": len(frames)}
    for name, keyword in _FACTS.items():
        number = find_number(head, keyword)
        facts[name] = number if number is not None else find_text(head, keyword)
    if frames[0].thickness is not None:
        facts["slice thickness in mm"] = frames[0].thickness
    if frames[0].spacing is not None:
        facts["spacing in mm"] = [*frames[0].spacing]
    return {name: value for name, value in facts.items() if value != ""}


def _encode(path: Path, head: "Dataset") -> bytes:
    """The header as a file of its own, without pixels and private elements."""
    with library(path):
        from pydicom.uid import ExplicitVRLittleEndian

        head.remove_private_tags()
        head.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        stream = io.BytesIO()
        head.save_as(stream, implicit_vr=False, little_endian=True, enforce_file_format=False)
        return stream.getvalue()


def read_provenance(path: Path) -> str | None:
    """Reads the text that results carry, in pieces, as a contribution of equipment."""
    files = _list_files(path)
    if not files:
        raise refusal(path, "holds no DICOM file: give a file or the folder of a series")
    head = _read_head(path, files[0])
    with library(path):
        items = head.get("ContributingEquipmentSequence") or []
        pieces = [
            str(item.get("ContributionDescription", ""))
            for item in items
            if item.get("ManufacturerModelName") == "bcdm"
        ]
    return "".join(pieces) or None
