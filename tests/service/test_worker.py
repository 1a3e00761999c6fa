"""A worker: means that came while it was busy share their network calls."""

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from bcdm.errors import InputError
from bcdm.service.asked import Asked
from bcdm.service.channel import Channel
from bcdm.service.jobs import Conclusion
from bcdm.service.settings import ServiceSettings
from bcdm.service.shelves import Shelf
from bcdm.service.tasks import open_tasks
from bcdm.service.worker import Worker
from bcdm.service.workers import Processes


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
        assert failed["ends"][0]["is_ours"]
        # What one file does to the service is none of the others' business.
        files = [[f"/jobs/{name}", {}] for name in ("d", "broken", "e")]
        worker._means.append({"means": 4, "files": files})
        worker._answer_means()
        (mixed,) = gateway.receive() or []
        assert [one["state"] for one in mixed["ends"]] == ["done", "failed", "done"]


@pytest.mark.parametrize(
    ("device", "said"),
    [("elsewhere", "'elsewhere' is no device"), ("meta", "there is no meta here")],
)
def test_an_unknown_device_is_known_before_a_job_waits(
    scanner: Path, tmp_path: Path, device: str, said: str
) -> None:
    processes = Processes(ServiceSettings(str(scanner), tmp_path, device=device))
    try:
        with pytest.raises(InputError, match=said):
            processes.open()
    finally:
        processes.close()


def test_the_network_of_a_worker_moves(scanner: Path) -> None:
    tasks = open_tasks(str(scanner), 1 << 20, 1)
    assert tasks.to("cpu").model is tasks.model
    with pytest.raises(InputError, match="there is no meta here"):
        tasks.to("meta")
