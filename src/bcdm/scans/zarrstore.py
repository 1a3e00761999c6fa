"""Zarr version 3: an array or a group in a folder."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcdm.scans.complaints import library, refusal
from bcdm.scans.layout import (
    arrange,
    choose_key,
    choose_kind,
    kept_dtype,
    name_axes,
    shape_mask,
)
from bcdm.scans.limits import LIMITS, check_chunks, check_links, check_name, check_size
from bcdm.scans.output import place, writing
from bcdm.scans.scan import Results, Scan
from bcdm.spool import each, make_array, release

__all__ = ["FORMAT", "read", "read_provenance", "write"]

FORMAT = "zarr"

_NOTE = "bcdm"


def read(path: Path, key: str | None) -> Scan:
    """Reads an array, or one array of a group with its `mask`."""
    check_links(path)
    metadata = _read_metadata(path, path)
    mask = None
    if metadata.get("node_type") == "array":
        if key is not None:
            raise refusal(path, f"holds one array without a name: leave out the key {key!r}")
        folder, name = path, "array"
    else:
        names = _list_members(path)
        # A deeper array may be named by its full key.
        with library(path):
            if key is not None and path.joinpath(*check_name(path, key), "zarr.json").is_file():
                names = [*names, key]
        name = choose_key(path, names, key)
        folder = path / name
        metadata = _read_metadata(path, folder)
        if "mask" in names and name != "mask":
            held = _read_metadata(path, path / "mask")
            stored = _check_array(path, "mask", held)[1]
            if stored.kind not in "buif":
                raise refusal(path, f"holds a mask of {stored}: store zeros and ones")
            mask = _read_array(path, path / "mask", held, np.dtype(np.float32))
    shape, stored = _check_array(path, name, metadata)
    kind = choose_kind(path, name, stored)
    data = arrange(path, _read_array(path, folder, metadata, kept_dtype(kind)), kind)
    size = data.shape[-2], data.shape[-1]
    known = shape_mask(path, mask, size) if mask is not None else None
    facts = {
        "array": name,
        "stored type": str(stored),
        "stored shape": [*shape],
        **name_axes(shape, kind),
    }
    return Scan(path, FORMAT, kind, data, known, None, size, facts)


def _list_members(path: Path) -> list[str]:
    with library(path):
        return [entry.parent.name for entry in path.glob("*/zarr.json") if entry.is_file()]


def _read_metadata(path: Path, folder: Path) -> dict[str, Any]:
    file = folder / "zarr.json"
    with library(path):
        if not file.is_file():
            raise refusal(path, "is not zarr of version 3: convert it")
        if file.stat().st_size > LIMITS.header:
            raise refusal(path, "has metadata too long to read: write it anew")
        metadata = json.loads(file.read_bytes())
    if not isinstance(metadata, dict):
        raise refusal(path, "has metadata that are no mapping: write it anew")
    return metadata


def _check_array(
    path: Path, name: str, metadata: dict[str, Any]
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and type that the metadata declare."""
    shape, word = metadata.get("shape"), metadata.get("data_type")
    if metadata.get("node_type") != "array" or not isinstance(word, str):
        raise refusal(path, f"holds no array of numbers as {name!r}: name one (--key)")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise refusal(path, f"declares the shape {shape}: write it anew")
    with library(path):
        stored = np.dtype(word)
    return tuple(shape), stored


def _read_array(
    path: Path, folder: Path, metadata: dict[str, Any], kept: np.dtype[Any]
) -> NDArray[Any]:
    shape, stored = _check_array(path, folder.name, metadata)
    check_size(path, shape, stored, kept)
    numbers = make_array(shape, kept)
    with library(path):
        import zarr

        # The array itself is opened, because a group's copy of the metadata may say otherwise.
        # Each chunk in work takes memory of its own, so that few are.
        with zarr.config.set({"async.concurrency": 2, "threading.max_workers": 1}):
            array = zarr.open_array(folder, mode="r", zarr_format=3)
            if array.shape != shape or array.dtype != stored:
                raise refusal(path, "changed while it was read: try again")
            # A chunk is unpacked whole, even if little of it lies in the array.
            check_size(path, array.shards or array.chunks, stored, kept)
            check_chunks(path, shape, array.chunks)
            # Whole shards at a time: what is unpacked once is not unpacked again.
            rows = (array.shards or array.chunks or (1,))[0]
            with np.errstate(over="ignore", invalid="ignore"):
                for start in range(0, shape[0] if shape else 0, rows):
                    numbers[start : start + rows] = array[start : start + rows]
                    release(numbers)
    return numbers


def write(folder: Path, scan: Scan, results: Results, provenance: str) -> list[Path]:
    """Writes a group with the arrays mean, std, low and high."""
    target = place(folder, scan, "_results.zarr")
    with writing(target) as partial:
        import zarr

        group = zarr.open_group(partial, mode="w", zarr_format=3)
        group.attrs.update({"level": results.level, **json.loads(provenance)})
        for name, values in results.items():
            stored = group.create_array(
                name, shape=values.shape, chunks=(1, *values.shape[1:]), dtype=values.dtype
            )
            for number, one in enumerate(each(values)):
                stored[number] = one
    return [target]


def read_provenance(path: Path) -> str | None:
    """Reads the attribute that results carry."""
    attributes = _read_metadata(path, path).get("attributes")
    if not isinstance(attributes, dict) or _NOTE not in attributes:
        return None
    return json.dumps({_NOTE: attributes[_NOTE]})
