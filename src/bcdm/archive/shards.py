"""Which shards there are to do, in which order; the same for every scheduler."""

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence

from bcdm.archive.markers import Counts, read_markers
from bcdm.archive.places import Place
from bcdm.archive.progress import Tally
from bcdm.errors import InputError, MachineError

__all__ = ["Queue", "choose_part"]

_DEATHS = 5
_PAUSE_SECONDS = 2.0


def choose_part(text: str, shards: int) -> range:
    """The shards of part I of N, counted from 0; every shard is in one part.

    >>> list(choose_part("1/3", 8))
    [1, 4, 7]
    """
    try:
        index, count = (int(number) for number in text.split("/"))
    except ValueError:
        raise InputError(f"a part is I/N, such as 0/100, not {text!r}") from None
    if not 0 <= index < count:
        raise InputError(f"parts of {count} are 0/{count} to {count - 1}/{count}, not {text}")
    return range(index, shards, count)


class Queue:
    """Which shard is next: new ones first, then those that another run had.

    Args:
        place: The archive.
        shards: Which ones; those that are finished cost a look at their marker.
        tally: Told of those.
    """

    def __init__(self, place: Place, shards: Sequence[int], tally: Tally) -> None:
        self._tally, self._new = tally, self._find_new(place, shards)
        self._again: deque[tuple[float, int]] = deque()
        self._peeked: int | None = None
        self._deaths: Counter[int | None] = Counter()

    def _find_new(self, place: Place, shards: Sequence[int]) -> Iterator[int]:
        markers = read_markers(place, shards, self._tally.head.id)
        for shard, marker in zip(shards, markers, strict=True):
            if marker is None:
                yield shard
            else:
                self._tally.finish(Counts.from_plain(marker.counts), new=False)
                self._tally.tell()

    def take(self) -> int | None:
        """The next one; None if there is none, or none yet."""
        peeked, self._peeked = self._peeked, None
        shard = next(self._new, None) if peeked is None else peeked
        if shard is None and self._again and self._again[0][0] <= time.monotonic():
            return self._again.popleft()[1]
        return shard

    def put_back(self, shard: int, *, wait: bool) -> None:
        """A shard that is not done, for later or for now."""
        if wait:
            self._again.append((time.monotonic() + _PAUSE_SECONDS, shard))
        else:
            self._again.appendleft((0.0, shard))

    @property
    def is_empty(self) -> bool:
        """Whether all were taken."""
        if self._peeked is None:
            self._peeked = next(self._new, None)
        return self._peeked is None and not self._again

    def mourn(self, shard: int | None, how: str) -> None:
        """A worker has died at a shard, or before it had one: another one is to do it.

        Raises:
            MachineError: If it kills one worker after the other.
        """
        self._deaths[shard] += 1
        what = "before it began" if shard is None else f"at shard {shard}"
        if self._deaths[shard] >= _DEATHS:
            raise MachineError(f"{_DEATHS} workers died {what} ({how}): is there memory for them?")
        self._tally.say(f"a worker died {what} ({how}): going on with another")
        if shard is not None:
            self.put_back(shard, wait=False)

    def forgive(self, shard: int | None) -> None:
        """It went well this time: only what kills over and over is at fault."""
        self._deaths.pop(shard, None)
