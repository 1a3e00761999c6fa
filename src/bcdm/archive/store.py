"""How a shard lies on the disk: a group of zarr version 3, and beside it a line for each item.

Arrays have one row for each item. Those of images are cut into blocks that become one file each
(a shard, in zarr's words), so that a thousand items are a handful of files.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from bcdm.archive.entries import Entry
from bcdm.archive.places import Place
from bcdm.checkpoint import Model
from bcdm.errors import InputError
from bcdm.reconstruction.features import crop_middle
from bcdm.reconstruction.fitting import Fitted
from bcdm.reconstruction.items import LEVEL, Outcome, Status
from bcdm.reconstruction.posterior import as_shown
from bcdm.trust import Light

__all__ = [
    "IMAGES",
    "LIGHTS",
    "STATUSES",
    "ShardWriter",
    "convert_images",
    "find_room",
    "hash_shard",
    "open_group",
    "read_lines",
    "remove_shard",
]

STATUSES: tuple[Status, ...] = get_args(Status)
# 0 is for items without a card.
LIGHTS: tuple[Light | None, ...] = (None, *get_args(Light))
IMAGES = ("mean", "std", "low", "high")
_ITEMS = "items"
_CHUNK_BYTES = 1 << 18
_BLOCK_BYTES = 1 << 26


class ShardWriter:
    """Takes outcomes as they come, and writes them in the order of the items.

    Only blocks that wait for an item are in memory.

    Args:
        place: Where.
        stem: What the names of its files begin with.
        shape: Room for an image, (C, H, W); smaller ones lie in the middle.
        samples: How many samples are kept of each item; 0 for none.
        count: About how many items there will be.
    """

    def __init__(
        self, place: Place, stem: str, shape: tuple[int, ...], samples: int, count: int
    ) -> None:
        import zarr

        self._place, self._stem = place, stem
        shapes = dict.fromkeys(IMAGES, shape)
        if samples:
            shapes["samples"] = (samples, *shape)
        largest = max(4 * int(np.prod(one)) for one in shapes.values())
        chunk = min(max(1, _CHUNK_BYTES // largest), count)
        chunks = max(1, min(_BLOCK_BYTES // largest, count + chunk - 1) // chunk)
        self._rows = chunk * chunks
        self._group = zarr.create_group(
            place.open_store(_name_group(stem)),
            zarr_format=3,
            attributes={
                "status": list(STATUSES),
                "light": ["none" if one is None else one for one in LIGHTS],
                "level": LEVEL,
                "units": "those of the files: model = gain x file + offset",
            },
        )
        self._shapes = shapes
        self._arrays: dict[str, Any] = {
            name: self._group.create_array(
                name,
                shape=(0, *one),
                chunks=(chunk, *one),
                shards=(self._rows, *one),
                dtype="float32",
                fill_value=float("nan"),
            )
            for name, one in shapes.items()
        }
        self._digests = {name: hashlib.sha256() for name in shapes}
        self._blocks: dict[int, tuple[dict[str, NDArray[np.float32]], set[int]]] = {}
        self._columns: dict[int, tuple[int, int, list[int], list[float]]] = {}
        self._lines: dict[int, str] = {}
        self._written = 0

    def add(
        self,
        row: int,
        outcome: Outcome,
        entry: Entry,
        fitted: Fitted | None,
        *,
        cards: bool = False,
    ) -> None:
        """Takes what became of an item.

        Args:
            row: Its place in the shard.
            outcome: The outcome.
            entry: The item.
            fitted: What it was in, where it could be read: tells units and size.
            cards: Whether to keep the checks behind its light.
        """
        number = row // self._rows
        if number not in self._blocks:
            self._blocks[number] = self._make_block(), set()
        images, rows = self._blocks[number]
        if outcome.status == "done":
            assert fitted is not None
            for key, values in convert_images(outcome, fitted, entry.slice).items():
                if key in images:
                    room = images[key][row % self._rows]
                    sides = [
                        min(pair) for pair in zip(room.shape[-2:], values.shape[-2:], strict=True)
                    ]
                    crop_middle(room, sides)[...] = crop_middle(values, sides)
        rows.add(row)
        size = [0, 0] if fitted is None else list(fitted.scan.size)
        numbers = [np.nan, np.nan, np.nan]
        if fitted is not None:
            numbers = [fitted.units.gain, fitted.units.offset, fitted.noise.std]
        light = LIGHTS.index(outcome.light)
        self._columns[row] = (STATUSES.index(outcome.status), light, size, numbers)
        self._lines[row] = _describe(outcome, entry.name, cards)
        while self._written in self._blocks:
            if len(self._blocks[self._written][1]) < self._rows:
                break
            self._write_block(self._rows)

    def close(self) -> dict[str, str]:
        """Writes the rest; hashes of what was written, by name."""
        count = len(self._columns)
        while self._written in self._blocks:
            self._write_block(min(self._rows, count - self._written * self._rows))
        columns = [self._columns[row] for row in range(count)]
        numbers = np.array([one[3] for one in columns], np.float64).reshape(count, 3)
        small = {
            "status": np.array([one[0] for one in columns], np.uint8),
            "light": np.array([one[1] for one in columns], np.uint8),
            "size": np.array([one[2] for one in columns], np.int32).reshape(count, 2),
            "gain": numbers[:, 0],
            "offset": numbers[:, 1],
            "noise_std": numbers[:, 2],
        }
        for name, values in small.items():
            own = np.ascontiguousarray(values)
            if count:
                self._group.create_array(name, data=own, chunks=own.shape)
            self._digests[name] = hashlib.sha256(own.tobytes())
        text = "".join(f"{self._lines[row]}\n" for row in range(count)).encode()
        # Without the time, so that equal lines are equal files.
        self._place.write(_name_lines(self._stem), gzip.compress(text, 6, mtime=0))
        self._digests[_ITEMS] = hashlib.sha256(text)
        self._place.settle(_name_group(self._stem))
        return {name: digest.hexdigest() for name, digest in sorted(self._digests.items())}

    def _make_block(self) -> dict[str, NDArray[np.float32]]:
        return {
            name: np.full((self._rows, *shape), np.nan, np.float32)
            for name, shape in self._shapes.items()
        }

    def _write_block(self, count: int) -> None:
        images, _ = self._blocks.pop(self._written)
        start = self._written * self._rows
        for name, values in images.items():
            array, own = self._arrays[name], values[:count]
            array.resize((start + count, *self._shapes[name]))
            # A whole block at once: zarr would read and write a shard again for every part.
            array[start : start + count] = own
            self._digests[name].update(np.ascontiguousarray(own).tobytes())
        self._written += 1


def find_room(model: Model) -> tuple[int, ...]:
    """What an archive holds of an image at most, (C, H, W): all sizes that the model is for."""
    scope = model.config.scope
    return tuple(model.shape) if scope is None else (model.shape[0], *[scope.sides[1]] * 2)


def convert_images(outcome: Outcome, fitted: Fitted, number: int) -> dict[str, NDArray[np.float32]]:
    """The images of an item that is done, in the units of its file; magnitudes if complex."""
    assert outcome.mean is not None
    assert outcome.std is not None
    assert outcome.low is not None
    assert outcome.high is not None
    images = {
        "mean": fitted.to_file(outcome.mean, number),
        "std": fitted.to_file_size(outcome.std, number),
        "low": fitted.to_file(outcome.low, number),
        "high": fitted.to_file(outcome.high, number),
    }
    if outcome.samples is not None:
        images["samples"] = fitted.to_file(as_shown(outcome.samples), number)
    return images


def _describe(outcome: Outcome, name: str, cards: bool) -> str:
    facts: dict[str, Any] = {"id": outcome.id, "from": name, "status": outcome.status}
    if outcome.reason:
        facts["reason"] = outcome.reason
    if outcome.trust is not None:
        facts |= {"light": outcome.trust.light}
        if cards:
            facts["summary"] = outcome.trust.summary
            facts["checks"] = [vars(check) for check in outcome.trust.checks]
    return json.dumps(facts)


def open_group(place: Place, stem: str) -> Any:
    """The group of a shard, for reading."""
    import zarr

    return zarr.open_group(place.open_store(_name_group(stem)), mode="r", zarr_format=3)


def read_lines(place: Place, stem: str) -> Iterator[dict[str, Any]]:
    """What is said of each item."""
    for line in _read_text(place, stem).splitlines():
        yield json.loads(line)


def remove_shard(place: Place, stem: str) -> None:
    """Removes what a writer wrote."""
    place.remove(_name_group(stem))
    place.remove(_name_lines(stem))


def hash_shard(place: Place, stem: str, names: Iterable[str]) -> dict[str, str]:
    """The hashes that `ShardWriter.close` gave, of what is there now."""
    found, group = {}, open_group(place, stem)
    for name in names:
        if name == _ITEMS:
            found[name] = hashlib.sha256(_read_text(place, stem)).hexdigest()
            continue
        digest, array = hashlib.sha256(), group[name]
        rows = (array.shards or array.chunks)[0]
        for start in range(0, array.shape[0], rows):
            digest.update(np.ascontiguousarray(array[start : start + rows]).tobytes())
        found[name] = digest.hexdigest()
    return found


def _read_text(place: Place, stem: str) -> bytes:
    held = place.read(_name_lines(stem))
    if held is None:
        raise InputError(f"{place}/{_name_lines(stem)} is not there")
    try:
        return gzip.decompress(held)
    except (OSError, EOFError, zlib.error):
        raise InputError(f"{place}/{_name_lines(stem)} is damaged") from None


def _name_group(stem: str) -> str:
    return f"{stem}.zarr"


def _name_lines(stem: str) -> str:
    # Not in the group: zarr warns of what it does not know.
    return f"{stem}.jsonl.gz"
