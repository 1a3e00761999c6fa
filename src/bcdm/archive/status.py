"""How far an archive is, by its markers alone: no array is opened, no model loaded."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from bcdm.archive.heads import Head, read_head
from bcdm.archive.markers import Counts, list_markers
from bcdm.archive.places import Place, open_place
from bcdm.archive.progress import describe_counts
from bcdm.errors import InputError

__all__ = ["Summary", "open_archive", "summarise"]


@dataclass
class Summary:
    """What the markers of an archive say.

    Attributes:
        head: Of the archive.
        finished: Shards that are finished.
        counts: Of their items.
        seconds: Of processors that they took.
        first: When the first one was finished, in seconds since 1970.
        last: When the last one was.
    """

    head: Head
    finished: int = 0
    counts: Counts = field(default_factory=Counts)
    seconds: float = 0.0
    first: float = float("inf")
    last: float = 0.0

    @property
    def is_finished(self) -> bool:
        """Whether no shard is missing."""
        return self.finished == self.head.shards

    def describe(self) -> list[str]:
        """Lines for people."""
        state = "finished" if self.is_finished else "not finished"
        lines = [f"{state}: {self.finished:,} of {self.head.shards:,} shards"]
        total = "" if self.head.items is None else f" of {self.head.items:,}"
        lines.append(f"items: {self.counts.items:,}{total}")
        if self.counts.items:
            lines.append(describe_counts(self.counts))
            lines.append(f"processor: {self.seconds / self.counts.items:.3g} s an item")
        if self.finished > 1 and self.last > self.first and not self.is_finished:
            rate = (self.finished - 1) / (self.last - self.first)
            left = timedelta(seconds=round((self.head.shards - self.finished) / rate))
            lines.append(f"at the rate so far about {left} to go")
        for reason, count in self.counts.reasons.most_common(5):
            lines.append(f"{count:,} x {reason}")
        return lines


def open_archive(out: str) -> tuple[Place, Head]:
    """An archive that was begun."""
    place = open_place(out)
    head = read_head(place)
    if head is None:
        raise InputError(f"{out} is no archive: bcdm archive run makes one")
    return place, head


def summarise(out: str, on_shard: Callable[[int], None] | None = None) -> Summary:
    """Reads all markers.

    Args:
        out: The archive.
        on_shard: Called with the number of markers read so far.
    """
    place, head = open_archive(out)
    found = Summary(head)
    for marker in list_markers(place, head.shards, head.id):
        found.finished += 1
        found.counts.add(Counts.from_plain(marker.counts))
        found.seconds += marker.seconds
        found.first, found.last = min(found.first, marker.ended), max(found.last, marker.ended)
        if on_shard is not None:
            on_shard(found.finished)
    return found
