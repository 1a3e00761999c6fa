"""How far a run is: for people in a line, for Prometheus in a file."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from bcdm.archive.heads import Head
from bcdm.archive.markers import Counts
from bcdm.files import write_text

__all__ = ["Tally", "describe_counts"]

_METRICS_SECONDS = 10


@dataclass
class Tally:
    """Counts what a run finds and does.

    Attributes:
        head: Of the archive.
        shards: How many the run is to see to: all, or those of its part.
        say: Told how far it is, now and then.
        metrics: File for the textfile collector of Prometheus.
        interval: Seconds from line to line.
        clock: Seconds that only grow.
    """

    head: Head
    shards: int
    say: Callable[[str], None]
    metrics: Path | None = None
    interval: float = 20.0
    clock: Callable[[], float] = time.monotonic
    counts: Counts = field(default_factory=Counts)
    finished: int = 0
    deaths: int = 0
    workers: int = 0
    _new: int = 0

    def __post_init__(self) -> None:
        self._began = self._told = self._noted = self.clock()

    def finish(self, counts: Counts, *, new: bool) -> None:
        """Counts a shard; those that were there before tell nothing of the time."""
        self.counts.add(counts)
        self.finished += 1
        self._new += counts.items if new else 0

    def tell(self, begun: int = 0, *, last: bool = False) -> None:
        """Says how far it is, if it is time.

        Args:
            begun: Items of shards in work that are done.
            last: Whether it is the end: then in any case.
        """
        now = self.clock()
        if last or now - self._told >= self.interval:
            self._told = now
            self.say(self.describe(begun))
        if self.metrics is not None and (last or now - self._noted >= _METRICS_SECONDS):
            self._noted = now
            write_text(self.metrics, self.format_metrics(begun))

    def describe(self, begun: int = 0) -> str:
        """One line."""
        done, rate = self.counts.items + begun, self._find_rate(begun)
        line = f"{self.finished:,} of {self.shards:,} shards, {done:,} items"
        if rate > 0:
            line += f", {rate:.3g} a second"
            left = self._count_left(begun)
            if left:
                line += f", about {timedelta(seconds=round(left / rate))} to go"
        return f"{line}; {describe_counts(self.counts)}" if self.counts.items else line

    def format_metrics(self, begun: int = 0) -> str:
        """The text format of Prometheus."""
        mark = f'archive="{self.head.id[:12]}"'
        lines = [
            "# HELP bcdm_archive_items Items of finished shards, by what became of them.",
            "# TYPE bcdm_archive_items gauge",
            *(
                f'bcdm_archive_items{{{mark},status="{name}"}} {self.counts.status[name]}'
                for name in ("done", "refused", "failed")
            ),
            "# HELP bcdm_archive_lights Items of finished shards, by their light.",
            "# TYPE bcdm_archive_lights gauge",
            *(
                f'bcdm_archive_lights{{{mark},light="{name}"}} {self.counts.lights[name]}'
                for name in ("green", "amber", "red")
            ),
        ]
        for name, kind, value, said in (
            ("shards", "gauge", self.shards, "Shards that this run sees to."),
            ("shards_finished", "gauge", self.finished, "Those that are finished."),
            ("items_in_work", "gauge", begun, "Items done in shards that are not finished."),
            ("items_per_second", "gauge", self._find_rate(begun), "Since this run began."),
            ("workers", "gauge", self.workers, "Workers that are alive."),
            ("worker_deaths_total", "counter", self.deaths, "Workers that ended by themselves."),
            ("updated_seconds", "gauge", time.time(), "When this was written."),
        ):
            full = f"bcdm_archive_{name}"
            lines += [f"# HELP {full} {said}", f"# TYPE {full} {kind}"]
            lines += [f"{full}{{{mark}}} {value:.10g}"]
        return "\n".join(lines) + "\n"

    def _find_rate(self, begun: int) -> float:
        passed = self.clock() - self._began
        return (self._new + begun) / passed if passed > 0 else 0.0

    def _count_left(self, begun: int) -> float:
        """Items to go; where nobody counted them, as many in a shard as in those finished."""
        if not self.finished:
            return 0.0
        each = self.counts.items / self.finished
        return max(0.0, (self.shards - self.finished) * each - begun)


def describe_counts(counts: Counts) -> str:
    """What became of items, in words.

    >>> one = Counts()
    >>> one.count("done", "green", "")
    >>> one.count("failed", None, "is empty")
    >>> describe_counts(one)
    '1 done, 1 failed; 1 green'
    """
    found = [f"{counts.status[name]:,} {name}" for name in ("done", "refused", "failed")]
    lights = [f"{counts.lights[name]:,} {name}" for name in ("green", "amber", "red")]
    parts = [", ".join(one for one in some if not one.startswith("0 ")) for some in (found, lights)]
    return "; ".join(part for part in parts if part)
