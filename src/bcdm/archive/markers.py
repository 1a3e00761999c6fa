"""What says that a shard is finished: a small file, written last, with hashes and counts."""

import json
import os
import platform
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from bcdm.archive.places import Place
from bcdm.files import hash_content

__all__ = [
    "Counts",
    "Marker",
    "describe_machine",
    "is_damaged",
    "list_markers",
    "name_marker",
    "name_shard",
    "read_marker",
    "read_markers",
]

_REASONS = 5
_GROUP = 1000


@dataclass
class Counts:
    """How many items became what.

    Attributes:
        status: By status.
        lights: By light, of those that have one.
        reasons: By reason, of those that are not done.
    """

    status: Counter[str] = field(default_factory=Counter)
    lights: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def items(self) -> int:
        """All of them."""
        return self.status.total()

    def count(self, status: str, light: str | None, reason: str) -> None:
        """Counts one item."""
        self.status[status] += 1
        if light is not None:
            self.lights[light] += 1
        if reason:
            self.reasons[reason] += 1

    def add(self, other: "Counts") -> None:
        """Counts all that another one did; of reasons the commonest are kept."""
        self.status.update(other.status)
        self.lights.update(other.lights)
        self.reasons.update(other.reasons)
        if len(self.reasons) > 100 * _REASONS:
            self.reasons = Counter(dict(self.reasons.most_common(_REASONS)))

    def to_plain(self) -> dict[str, dict[str, int]]:
        """Ready for JSON."""
        return {
            "status": dict(self.status),
            "lights": dict(self.lights),
            "reasons": dict(self.reasons.most_common(_REASONS)),
        }

    @classmethod
    def from_plain(cls, content: Mapping[str, Mapping[str, int]]) -> Self:
        """From `to_plain`."""
        return cls(*(Counter(content[name]) for name in ("status", "lights", "reasons")))


@dataclass(frozen=True)
class Marker:
    """A finished shard.

    Attributes:
        archive: Hash of the archive's settings.
        shard: Its number.
        stem: What the names of its files begin with.
        counts: Of its items, as `Counts.to_plain`.
        hashes: Of its arrays, by name.
        seconds: Of the processor that it took.
        ended: When it was finished, in seconds since 1970.
        made_by: Versions, machine and device.
    """

    archive: str
    shard: int
    stem: str
    counts: Mapping[str, Mapping[str, int]]
    hashes: Mapping[str, str]
    seconds: float = 0.0
    ended: float = field(default_factory=time.time)
    made_by: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """A file."""
        content = asdict(self)
        return (json.dumps(content | {"seal": hash_content(content)}) + "\n").encode()

    @classmethod
    def decode(cls, held: bytes) -> Self | None:
        """From a file; None where it is damaged."""
        try:
            content: dict[str, Any] = json.loads(held)
            if content.pop("seal") != hash_content(content):
                return None
            return cls(**content)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


def name_shard(shard: int) -> str:
    """Where a shard is, without an ending; not all in one folder: there may be 100,000."""
    return f"shards/{shard // _GROUP:05d}/{shard:08d}"


def name_marker(shard: int) -> str:
    """Where a shard's marker is."""
    return f"{name_shard(shard)}.json"


def read_marker(place: Place, shard: int, archive: str) -> Marker | None:
    """The marker of a shard, if it is finished."""
    return _open(place.read(name_marker(shard)), archive)


def read_markers(place: Place, shards: Iterable[int], archive: str) -> Iterator[Marker | None]:
    """The markers of shards, in order; None for each that is not finished."""
    return (_open(held, archive) for held in place.read_all(map(name_marker, shards)))


def list_markers(place: Place, shards: int, archive: str) -> Iterator[Marker]:
    """The markers of all finished shards, in order; only some names are in memory."""
    for group in range(-(-shards // _GROUP)):
        names = (name.removesuffix(".json") for name in place.list(f"shards/{group:05d}"))
        numbers = sorted(int(name) for name in names if name.isdecimal())
        found = read_markers(place, numbers, archive)
        yield from (marker for marker in found if marker is not None)


def is_damaged(place: Place, shard: int, archive: str) -> bool:
    """Whether a shard has a marker that says nothing: no other can be created beside it."""
    held = place.read(name_marker(shard))
    return held is not None and _open(held, archive) is None


def _open(held: bytes | None, archive: str) -> Marker | None:
    marker = None if held is None else Marker.decode(held)
    return marker if marker is not None and marker.archive == archive else None


def describe_machine(device: str = "cpu") -> dict[str, str]:
    """Who made it: what the last digits may depend on.

    Args:
        device: Where the network ran.
    """
    import torch

    return {
        "torch": str(torch.__version__),
        "processor": platform.machine(),
        "device": device,
        "host": platform.node(),
        "process": str(os.getpid()),
    }
