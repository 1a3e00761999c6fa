"""Counts for Prometheus, in its text format."""

import threading
from collections import defaultdict
from collections.abc import Mapping

__all__ = ["Metrics"]

_Key = tuple[str, tuple[tuple[str, str], ...]]
_COUNTED = {
    "requests_total": "Requests, by route and status.",
    "request_seconds_total": "Time from request to answer, by route.",
    "jobs_concluded_total": "Jobs, by what became of them.",
    "job_seconds_total": "Time of the last attempt at jobs that were done.",
    "job_waiting_seconds_total": "Time that jobs waited before their last attempt.",
    "handed_back_total": "Jobs that were begun and wait again.",
    "worker_deaths_total": "Workers that ended by themselves.",
    "means_total": "Files whose mean was answered at once.",
    "mean_batches_total": "Batches that they came in.",
    "refused_full_total": "Requests that were refused because the queue or the disk was full.",
}


class Metrics:
    """What is counted since the start. Safe in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: defaultdict[_Key, float] = defaultdict(float)

    def count(
        self, name: str, labels: Mapping[str, str] | None = None, amount: float = 1.0
    ) -> None:
        """Counts something.

        Args:
            name: One of those above.
            labels: Plain words, nothing that a client wrote.
            amount: How much.
        """
        assert name in _COUNTED
        key = (name, tuple(sorted((labels or {}).items())))
        with self._lock:
            self._values[key] += amount

    def find(self, name: str) -> float:
        """The sum over all labels."""
        with self._lock:
            return sum(value for (own, _), value in self._values.items() if own == name)

    def format(self, gauges: Mapping[str, tuple[str, Mapping[str, float]]]) -> str:
        """The text.

        Args:
            gauges: What is so now: a name, what it is, and values by label; the label's name is
                the part of the text in front of "=".
        """
        lines = []
        with self._lock:
            values = dict(self._values)
        for name, said in _COUNTED.items():
            full = f"bcdm_service_{name}"
            lines += [f"# HELP {full} {said}", f"# TYPE {full} counter"]
            own = {labels: value for (key, labels), value in values.items() if key == name}
            for labels, value in sorted(own.items() or {(): 0}.items()):
                shown = ",".join(f'{key}="{text}"' for key, text in labels)
                lines.append(f"{full}{{{shown}}} {value:.10g}" if shown else f"{full} {value:.10g}")
        for name, (said, found) in gauges.items():
            full = f"bcdm_service_{name}"
            lines += [f"# HELP {full} {said}", f"# TYPE {full} gauge"]
            for label, value in found.items():
                key, _, text = label.partition("=")
                lines.append(f'{full}{{{key}="{text}"}} {value:.10g}' if key else f"{full} {value}")
        return "\n".join(lines) + "\n"
