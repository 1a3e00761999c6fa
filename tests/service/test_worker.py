"""A worker: means that came while it was busy share their network calls."""

import socket
from collections.abc import Sequence

from bcdm.service.asked import Asked
from bcdm.service.channel import Channel
from bcdm.service.jobs import Conclusion
from bcdm.service.shelves import Shelf
from bcdm.service.worker import Worker


class Tasks:
    """Counts how it is asked."""

    def __init__(self) -> None:
        self.lots: list[list[str]] = []

    def estimate(self, files: Sequence[tuple[Shelf, Asked]]) -> list[Conclusion]:
        self.lots.append([shelf.name for shelf, _ in files])
        if "broken" in self.lots[-1]:
            raise KeyError("text of a file")
        return [Conclusion("done", summary=shelf.name) for shelf, _ in files]


def test_means_are_drawn_together_and_answered_apart() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        tasks, gateway = Tasks(), Channel(ours)
        worker = Worker(Channel(theirs), tasks, 60, 60)  # type: ignore[arg-type]
        worker._answer_means()
        assert tasks.lots == [], "nobody asked"
        for number, names in ((1, ["a", "b"]), (2, ["c"])):
            files = [[f"/jobs/{name}", {}] for name in names]
            worker._means.append({"means": number, "files": files})
        worker._answer_means()
        assert tasks.lots == [["a", "b", "c"]]
        first, second = gateway.receive() or []
        assert [one["summary"] for one in first["ends"]] == ["a", "b"]
        assert [one["summary"] for one in second["ends"]] == ["c"]
        assert [first["means"], second["means"]] == [1, 2]
        assert [first["first"], second["first"]] == [True, False]
        worker._means.append({"means": 3, "files": [["/jobs/broken", {}]]})
        worker._answer_means()
        (failed,) = gateway.receive() or []
        assert failed["ends"][0]["state"] == "failed"
        assert "KeyError at test_worker.py" in failed["kind"]
        assert "text" not in str(failed), "the log must not quote it"
