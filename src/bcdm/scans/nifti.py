"""NIfTI images: .nii and .nii.gz, shown the way up that models know."""

import gzip
import json
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bcdm.scans.complaints import library, refusal
from bcdm.scans.layout import FLOAT
from bcdm.scans.limits import LIMITS, check_pieces, check_size, read_exactly
from bcdm.scans.orientation import STORED, Turn, find_turn
from bcdm.scans.output import place, writing
from bcdm.scans.scan import Results, Scan

__all__ = ["FORMAT", "find_header", "read", "read_provenance", "write"]

FORMAT = "NIfTI"

_COMMENT = 6
_SILENT = logging.Logger("silent", logging.CRITICAL + 1)
_MILLIMETRES = {"meter": 1000.0, "mm": 1.0, "micron": 0.001, "unknown": 1.0}


def find_header(start: bytes) -> bytes | None:
    """The header at the start of a file, or None if it is not that of one NIfTI file."""
    for length, place_of_magic, magic in ((348, 344, b"n+1\0"), (540, 4, b"n+2\0")):
        is_whole = len(start) >= length and start[place_of_magic:].startswith(magic)
        if is_whole and length.to_bytes(4, "little") in (start[:4], start[3::-1]):
            return start[:length]
    return None


def read(path: Path, key: str | None, beside: bytes = b"") -> Scan:
    """Reads a volume, scaled by the header's slope and intercept.

    Images are axial with anterior at the top and left on the left, if the header gives a position
    (see `find_turn`). Otherwise they are turned as those of another header, that of a scan which
    this file lies beside; or rows, columns and slices are the axes as stored.
    """
    if key is not None:
        raise refusal(path, f"holds one volume without a name: leave out the key {key!r}")
    with _opened(path) as stream:
        block = _read_block(path, stream)
        header = _parse(path, block)
        with library(path):
            shape = tuple(int(length) for length in header.get_data_shape())
            stored = header.get_data_dtype()
            slope, intercept = header.get_slope_inter()
            offset = float(header["vox_offset"])
            zooms = [float(zoom) for zoom in header.get_zooms()]
            unit = header.get_xyzt_units()[0]
        volume = _check_volume(path, shape, stored)
        _skip(path, stream, len(block), offset)
        turn = _find_turn(path, header)
        if turn is None:
            turn = _find_turn(path, _parse(path, beside)) if beside else None
        turn = turn or STORED
        rows, columns, slices = (volume[axis] for axis in turn.axes)
        data = np.empty((slices, 1, rows, columns), FLOAT)
        voxels = turn.undo(np.moveaxis(data[:, 0], 0, -1))
        for index in range(volume[2]):
            flat = read_exactly(path, stream, volume[:2], stored, stored)
            pixels = flat.reshape(volume[:2], order="F")
            with np.errstate(over="ignore", invalid="ignore"):
                scaled = pixels * float(slope or 1.0) + float(intercept or 0.0)
                is_plain = (slope, intercept) == (None, None)
                voxels[..., index] = pixels if is_plain else scaled
    lengths = [round(zoom * _MILLIMETRES.get(unit, 1.0), 6) for zoom in zooms]
    spacing = [lengths[axis] for axis in turn.axes if axis < len(lengths)]
    facts: dict[str, Any] = {"stored type": str(stored), "stored shape": [*shape]}
    facts["orientation"] = turn.words
    # A damaged header may hold any number, and JSON has no word for some.
    if all(math.isfinite(side) for side in spacing):
        facts["spacing in mm"] = spacing
    return Scan(path, FORMAT, "image", data, None, None, (rows, columns), facts, block)


def _find_turn(path: Path, header: Any) -> Turn | None:
    """How the volume of a header is shown, or None if it does not say where it lies."""
    with library(path):
        if not (int(header["sform_code"]) > 0 or int(header["qform_code"]) > 0):
            return None
        shape = [*(int(length) for length in header.get_data_shape()), 1][:3]
        try:
            affine = header.get_best_affine()
        except ValueError:  # of a rotation that is none
            return None
        return find_turn(affine, (shape[0], shape[1], shape[2]))


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with library(path):
        with path.open("rb") as start:
            is_packed = start.read(2) == b"\x1f\x8b"
        stream: Any = gzip.open(path) if is_packed else path.open("rb")  # noqa: SIM115
    with stream:
        yield stream


def _read_block(path: Path, stream: IO[bytes]) -> bytes:
    with library(path):
        start = stream.read(348)
        if find_header(start) is None:
            start += stream.read(540 - 348)
    block = find_header(start)
    if block is None:
        raise refusal(path, "is not one NIfTI file with its header: save it as .nii.gz")
    return block


def _parse(path: Path, block: bytes) -> Any:
    with library(path):
        import nibabel

        kind: Any = nibabel.Nifti1Header if len(block) == 348 else nibabel.Nifti2Header
        header = kind(block, check=False)
        # It mends what it can and would tell the world of each; what it cannot is an error.
        header.check_fix(logger=_SILENT, error_level=40)
        return header


def _check_volume(
    path: Path, shape: tuple[int, ...], stored: np.dtype[Any]
) -> tuple[int, int, int]:
    if stored.kind not in "uif" or stored.itemsize > 8:
        raise refusal(path, f"holds {stored}: save it as integers or floats")
    check_size(path, shape, stored, FLOAT)
    rows, columns, slices, *more = *shape, *[1] * (3 - len(shape))
    check_pieces(path, slices, "slices")
    if len(shape) < 2 or any(length > 1 for length in more):
        raise refusal(path, f"holds an array {shape}: save one volume per file")
    return rows, columns, slices


def _skip(path: Path, stream: IO[bytes], start: int, offset: float) -> bytes:
    """Reads from the end of the header to the first voxel."""
    # A gzip stream can only be skipped by unpacking it, so that far is not allowed.
    if not start <= offset <= LIMITS.header:
        raise refusal(path, f"says its voxels start at byte {offset:g}: save it anew")
    with library(path):
        return stream.read(int(offset) - start)


def write(folder: Path, scan: Scan, results: Results, provenance: str) -> list[Path]:
    """Writes one .nii.gz file for each of mean, std, low and high, each with a JSON sidecar."""
    paths = []
    for name, values in results.items():
        target = place(folder, scan, f"_{name}.nii.gz")
        image = _make_image(scan, values, name, provenance)
        with writing(target) as partial:
            image.to_filename(partial)
        sidecar = place(folder, scan, f"_{name}.json")
        content = {
            "Description": f"posterior {name}",
            "Sources": [scan.path.name],
            "IntervalLevel": results.level,
            **json.loads(provenance),
        }
        with writing(sidecar) as partial:
            partial.write_text(json.dumps(content, indent=2) + "\n")
        paths += [target, sidecar]
    return paths


def _make_image(scan: Scan, values: NDArray[np.float32], name: str, provenance: str) -> Any:
    header = _parse(scan.path, scan.header)
    with library(scan.path, "written"):
        import nibabel

        turn = _find_turn(scan.path, header) or STORED
        _resize(header, turn, scan.size)
        voxels = turn.undo(np.moveaxis(values[:, 0], 0, -1)).reshape(header.get_data_shape())
        header.set_data_dtype(np.float32)
        header.set_slope_inter(None, None)
        header["cal_max"] = header["cal_min"] = 0
        header["descrip"] = f"posterior {name}"
        note = nibabel.nifti1.Nifti1Extension(_COMMENT, provenance.encode())
        header.extensions.append(note)
        kind: Any = nibabel.Nifti1Image if len(scan.header) == 348 else nibabel.Nifti2Image
        return kind(voxels, header.get_best_affine(), header)


def _resize(header: Any, turn: Turn, size: tuple[int, int]) -> None:
    """The same field of view in other voxels: shape, spacing and position."""
    old = header.get_data_shape()
    new = [*old]
    for axis, length in zip(turn.axes[:2], size, strict=True):
        new[axis] = length
    if new == [*old]:
        return
    placed = [
        (header.get_qform(coded=True), header.set_qform),
        (header.get_sform(coded=True), header.set_sform),
    ]
    ratios = [whole / length for whole, length in zip(old, new, strict=True)]
    zooms = header.get_zooms()
    header.set_data_shape(new)
    header.set_zooms([zoom * ratio for zoom, ratio in zip(zooms, ratios, strict=True)])
    change = np.eye(4)
    for axis, ratio in enumerate(ratios[:3]):
        # Positions are of the middle of a voxel.
        change[axis, [axis, 3]] = ratio, (ratio - 1) / 2
    for (affine, code), place_anew in placed:
        if affine is not None:
            place_anew(affine @ change, int(code))


def read_provenance(path: Path) -> str | None:
    """Reads the comment that results carry, out of the header's extensions."""
    with _opened(path) as stream:
        block = _read_block(path, stream)
        header = _parse(path, block)
        rest = _skip(path, stream, len(block), float(header["vox_offset"]))
    order: Literal["little", "big"] = "little" if block[0] else "big"
    start = 4
    while start + 8 <= len(rest) and rest[:1] == b"\1":
        length, code = (int.from_bytes(rest[start + at : start + at + 4], order) for at in (0, 4))
        text = rest[start + 8 : start + length].rstrip(b"\0")
        if code == _COMMENT and text.startswith(b'{"bcdm"'):
            return text.decode(errors="replace")
        # A length below its own size would never end.
        start += max(length, 8)
    return None
