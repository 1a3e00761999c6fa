"""A finished archive as one file or folder: zarr, HDF5, or a table of what became of items."""

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcdm.archive.heads import Head
from bcdm.archive.markers import Counts, Marker, list_markers
from bcdm.archive.places import Place
from bcdm.archive.status import open_archive
from bcdm.archive.store import IMAGES, open_group, read_lines
from bcdm.errors import InputError
from bcdm.files import replacing
from bcdm.text import printable

__all__ = ["FORMATS", "export"]

FORMATS = ("zarr", "hdf5", "csv")
_COLUMNS = ("number", "shard", "row", "id", "from", "status", "light", "reason")
_SMALL = ("status", "light", "size", "gain", "offset", "noise_std")
_BLOCK = 1024


def export(
    out: str,
    target: Path,
    format: str,
    arrays: Sequence[str] = IMAGES,
    report: Callable[[str], None] = lambda _: None,
) -> int:
    """Writes a finished archive anew, shard by shard: memory holds one block.

    Args:
        out: The archive.
        target: Where to; it must not exist.
        format: One of `FORMATS`.
        arrays: Which images, for zarr and HDF5.
        report: Told how far it is.

    Returns:
        How many items were written.
    """
    place, head = open_archive(out)
    if target.exists():
        raise InputError(f"{target} exists: choose another name")
    count, shards = 0, 0
    for marker in list_markers(place, head.shards, head.id):
        count, shards = count + Counts.from_plain(marker.counts).items, shards + 1
    if shards < head.shards:
        raise InputError(
            f"{shards} of {head.shards} shards are finished: finish it by bcdm archive run first"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as partial:
        if format == "csv":
            _write_csv(partial, place, head)
        elif format == "hdf5":
            _write_hdf5(partial, place, head, count, (*arrays, *_SMALL), report)
        elif format == "zarr":
            _write_zarr(partial, place, head, count, (*arrays, *_SMALL), report)
        else:
            raise InputError(f"format is one of {', '.join(FORMATS)}, not {format!r}")
    return count


def _write_csv(path: Path, place: Place, head: Head) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        number = 0
        for marker in list_markers(place, head.shards, head.id):
            for row, line in enumerate(read_lines(place, marker.stem)):
                said = [_make_safe(str(line.get(name, ""))) for name in _COLUMNS[3:]]
                writer.writerow([number, marker.shard, row, *said])
                number += 1


def _make_safe(text: str) -> str:
    """Names of files come from elsewhere: none becomes a formula of a spreadsheet."""
    shown = printable(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown


def _write_hdf5(
    path: Path,
    place: Place,
    head: Head,
    count: int,
    names: Sequence[str],
    report: Callable[[str], None],
) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.attrs["archive"] = head.id

        def create(name: str, array: Any) -> Any:
            return file.create_dataset(name, (count, *array.shape[1:]), array.dtype)

        _copy(place, head, names, create, report)


def _write_zarr(
    path: Path,
    place: Place,
    head: Head,
    count: int,
    names: Sequence[str],
    report: Callable[[str], None],
) -> None:
    import zarr

    group = zarr.create_group(path, zarr_format=3, attributes={"archive": head.id})

    def create(name: str, array: Any) -> Any:
        shape = (count, *array.shape[1:])
        chunk = array.chunks[0] if array.shards else _BLOCK
        rows = -(-_BLOCK // chunk) * chunk
        chunks = (chunk, *array.shape[1:])
        return group.create_array(
            name, shape=shape, dtype=array.dtype, chunks=chunks, shards=(rows, *array.shape[1:])
        )

    _copy(place, head, names, create, report)


def _copy(
    place: Place,
    head: Head,
    names: Sequence[str],
    create: Callable[[str, Any], Any],
    report: Callable[[str], None],
) -> None:
    """Writes each array from its beginning to its end, in whole blocks."""
    for name in names:
        first = next(list_markers(place, head.shards, head.id))
        array = _open(place, first, name)
        written, start = create(name, array), 0
        rows = (getattr(written, "shards", None) or (_BLOCK,))[0]
        for block in _regroup(_read_parts(place, head, name), rows):
            written[start : start + len(block)] = block
            start += len(block)
        report(f"wrote {name}, {start} items")


def _open(place: Place, marker: Marker, name: str) -> Any:
    group = open_group(place, marker.stem)
    if name not in group:
        raise InputError(f"the archive holds no {name}")
    return group[name]


def _read_parts(place: Place, head: Head, name: str) -> Iterator[NDArray[Any]]:
    for marker in list_markers(place, head.shards, head.id):
        array = _open(place, marker, name)
        step = (array.shards or array.chunks)[0]
        for start in range(0, array.shape[0], step):
            yield np.asarray(array[start : start + step])


def _regroup(parts: Iterator[NDArray[Any]], rows: int) -> Iterator[NDArray[Any]]:
    """Arrays of so many rows, the last one of what is left."""
    held: list[NDArray[Any]] = []
    for part in parts:
        held.append(part)
        if sum(map(len, held)) >= rows:
            whole = np.concatenate(held)
            full = len(whole) // rows * rows
            for start in range(0, full, rows):
                yield whole[start : start + rows]
            held = [whole[full:]]
    rest = np.concatenate(held) if held else None
    if rest is not None and len(rest):
        yield rest
