"""Who hands out work: what kills a worker is found out, and the rest goes on."""

import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bcdm.service.asked import Asked, AskedJob
from bcdm.service.channel import Channel
from bcdm.service.dispatch import Dispatcher
from bcdm.service.jobs import Jobs
from bcdm.service.journal import Journal
from bcdm.service.metrics import Metrics
from bcdm.service.settings import ServiceSettings
from bcdm.service.shelves import Shelf, Shelves

DONE = {"state": "done", "light": "green", "summary": "fine"}
Play = Callable[["Puppet", dict[str, Any]], None]


class Puppet(threading.Thread):
    """A worker without a process, that a test plays; it dies by closing its channel."""

    def __init__(self, connection: socket.socket, play: Play) -> None:
        super().__init__(daemon=True)
        self.channel, self._connection, self._play = Channel(connection), connection, play
        self.has_job = False

    def run(self) -> None:
        self.channel.send({"ready": 1})
        while (messages := self.channel.receive()) is not None:
            for message in messages:
                self._play(self, message)
        self._connection.close()

    def die(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)

    def answer(self, message: dict[str, Any]) -> None:
        ends = [{"state": "done"} for _ in message["files"]]
        said = {"means": message["means"], "ends": ends, "kind": "", "first": True}
        self.channel.send(said)

    def conclude(self, message: dict[str, Any]) -> None:
        self.channel.send({"job": message["job"], "end": DONE, "kind": ""})


class Stage:
    """A dispatcher with puppets."""

    def __init__(self, work: Path, play: Play, workers: int, journal: Journal) -> None:
        # A puppet has no process of its own: nobody is to be killed.
        self.settings = ServiceSettings("model", work, attempts=3, lease=5, workers=workers)
        self.jobs, self.shelves = Jobs(work / "jobs.sqlite"), Shelves(work)
        self._play = play
        self.dispatcher = Dispatcher(
            self.settings,
            self.jobs,
            self.shelves,
            self,  # type: ignore[arg-type]
            journal,
            Metrics(),
        )
        self.dispatcher.start()

    def start(self) -> Channel:
        ours, theirs = socket.socketpair()
        Puppet(theirs, self._play).start()
        return Channel(ours)

    def add(self, name: str) -> None:
        self.jobs.add(name, "clinic", AskedJob(), 9)
        self.dispatcher.wake()

    def wait(self, name: str, *states: str) -> Any:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = self.jobs.find(name)
            assert found is not None
            if found.state in states:
                return found
            time.sleep(0.01)
        raise AssertionError(f"{name} is {found.state}")

    def ask(self, name: str) -> Any:
        return self.dispatcher.ask_mean(Shelf(Path("/jobs", name)), Asked())


@pytest.fixture
def open_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Stage]]:
    opened: list[Stage] = []
    monkeypatch.setattr("bcdm.service.dispatch._PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("bcdm.service.dispatch._LISTEN_SECONDS", 0.02)
    monkeypatch.setattr("bcdm.service.workers.os.kill", lambda *_: None)

    def make(play: Play, workers: int = 1, journal: Journal | None = None) -> Stage:
        opened.append(Stage(tmp_path, play, workers, journal or Journal()))
        return opened[-1]

    yield make
    for stage in opened:
        stage.dispatcher.stop(0)
        stage.jobs.close()


def is_bad(message: dict[str, Any]) -> bool:
    return any("bad" in folder for folder, _ in message["files"])


@pytest.mark.parametrize("workers", [1, 2])
def test_a_mean_that_kills_costs_nobody_else(
    open_stage: Callable[..., Stage], workers: int
) -> None:
    together: list[tuple[bool, int]] = []

    def play(puppet: Puppet, message: dict[str, Any]) -> None:
        if "job" in message:
            puppet.has_job = True
            time.sleep(0.3)  # means come in between
            puppet.conclude(message)
            puppet.has_job = False
        elif is_bad(message):
            together.append((puppet.has_job, len(message["files"])))
            puppet.die()
        else:
            puppet.answer(message)

    stage = open_stage(play, workers)
    stage.add("long")
    stage.wait("long", "running", "done")
    answers = [stage.ask(name) for name in ("a", "bad", "b")]
    ends = [one.result(60) for one in answers]
    assert [end.state for end in ends] == ["done", "failed", "done"]
    assert ends[1].is_ours
    assert stage.wait("long", "done", "failed").state == "done"
    # Once among others, then alone and beside no job, until it was given up.
    assert together[1:] == [(False, 1)] * 2
    assert stage.ask("c").result(60).state == "done"


def test_a_job_that_kills_is_found_out_although_means_come_and_go(
    open_stage: Callable[..., Stage],
) -> None:
    beside: list[int] = []

    def play(puppet: Puppet, message: dict[str, Any]) -> None:
        if "job" not in message:
            puppet.answer(message)
        elif message["job"] == "bad":
            # It dies while it has means, as long as it is given any.
            puppet._connection.settimeout(0.3)
            messages = puppet.channel.receive() or []
            beside.append(sum("means" in one for one in messages))
            puppet.die()
        else:
            puppet.conclude(message)

    stage = open_stage(play)
    stage.add("bad")
    stage.wait("bad", "running")
    first = stage.ask("a")
    while (found := stage.wait("bad", "waiting", "running", "failed")).state != "failed":
        if stage.jobs.find("bad").state == "running" and len(stage.dispatcher._means) < 2:
            stage.ask("more")
    assert "every worker that began it died" in found.summary
    assert beside[0] == 1
    assert beside[1:] == [0] * (len(beside) - 1), "a suspect is given no means"
    assert first.result(60).state == "done"
    stage.add("good")
    assert stage.wait("good", "done").light == "green"


def test_a_list_that_cannot_be_written_for_a_while_loses_nothing(
    open_stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    conclude, faults = Jobs.conclude, [sqlite3.OperationalError("disk is full")] * 3

    def fail(jobs: Jobs, *given: Any) -> bool:
        if faults:
            raise faults.pop()
        return conclude(jobs, *given)

    monkeypatch.setattr(Jobs, "conclude", fail)
    stage = open_stage(lambda puppet, message: puppet.conclude(message))
    stage.add("a")
    assert stage.wait("a", "done").attempts == 1
    assert not faults


def test_a_log_that_cannot_be_written_stops_nothing(
    open_stage: Callable[..., Stage], tmp_path: Path
) -> None:
    closed = (tmp_path / "closed").open("w")
    closed.close()
    stage = open_stage(lambda puppet, message: puppet.conclude(message), journal=Journal(closed))
    stage.add("a")
    stage.wait("a", "done")
    full = Path("/dev/full").open("w")  # noqa: SIM115
    Journal(full).note("nobody can read this")
    with pytest.raises(OSError, match="No space"):
        full.close()


@pytest.mark.parametrize(("is_ours", "state"), [(True, "done"), (False, "failed")])
def test_a_full_disk_gives_up_no_job(
    open_stage: Callable[..., Stage], is_ours: bool, state: str
) -> None:
    """More often than a job may fail; memory that does not last is counted."""
    times = []

    def play(puppet: Puppet, message: dict[str, Any]) -> None:
        times.append(message)
        end = {"state": "waiting", "summary": "no room", "is_ours": is_ours}
        said = {"job": message["job"], "end": end if len(times) < 6 else DONE, "kind": ""}
        puppet.channel.send(said)

    stage = open_stage(play)
    stage.add("a")
    assert stage.wait("a", "done", "failed").state == state
