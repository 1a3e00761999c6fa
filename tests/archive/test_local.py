"""Processes of one machine: what dies is done again, what is at fault for all stops all."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner
from tests.archive.cases import find_hashes, open_job

from bcdm.archive.heads import begin
from bcdm.archive.job import Job
from bcdm.archive.local import run_local
from bcdm.archive.markers import Counts
from bcdm.archive.progress import Tally
from bcdm.archive.shards import choose_part
from bcdm.commands.entry import cli
from bcdm.errors import InputError, MachineError, ModelError

WORKER = "bcdm.archive.local._Worker"


def read_command(process: str) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def test_parts_hold_every_shard_once() -> None:
    parts = [choose_part(f"{index}/3", 8) for index in range(3)]
    assert sorted(shard for part in parts for shard in part) == list(range(8))
    assert list(choose_part("4/9", 3)) == []
    for text in ("3/3", "-1/3", "1", "a/b", "1/2/3", "1/0"):
        with pytest.raises(InputError, match=r"part"):
            choose_part(text, 8)


def test_two_workers_give_the_bits_of_a_loop(job: Job, tmp_path: Path) -> None:
    """And a worker that is killed is replaced."""
    head, said = begin(job, print), []
    tally = Tally(head, 3, said.append, tmp_path / "bcdm.prom", interval=0)
    killed = []

    def kill(line: str) -> None:
        said.append(line)
        # This process may have other children: of tests before, readers of scans.
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        own = [one for one in children if b"archive.worker" in read_command(one)]
        if not killed and "shards" in line and tally.workers and own:
            killed.append(int(own[0]))
            os.kill(killed[0], signal.SIGKILL)

    tally.say = kill
    run_local(job, range(head.shards), 2, tally)
    assert (tally.finished, tally.counts.items, tally.deaths) == (3, 10, 1)
    assert any("a worker died" in line for line in said)
    alone = replace(job, out=str(tmp_path / "alone"))
    unit = open_job(alone)
    for shard in range(3):
        unit.run(shard)
    assert find_hashes(job) == find_hashes(alone)
    tally.tell(last=True)
    assert 'status="done"} 10' in (tmp_path / "bcdm.prom").read_text()
    # All is there: no worker is started.
    again = Tally(head, 3, said.append)
    run_local(job, range(head.shards), 2, again)
    assert (again.finished, again.workers, again.deaths) == (3, 0, 0)


def test_a_missing_model_stops_everything(job: Job, tmp_path: Path) -> None:
    head = begin(job, print)
    with pytest.raises((ModelError, InputError), match="no model"):
        run_local(replace(job, model=str(tmp_path / "gone")), range(3), 1, Tally(head, 3, print))


def test_an_unknown_device_stops_everything(job: Job) -> None:
    arguments = [job.source, job.out, "--model", job.model, "--workers", "1"]
    run = ["archive", "run", *arguments, "--device", "elsewhere"]
    done = CliRunner().invoke(cli, run)
    assert isinstance(done.exception, InputError), done.output
    assert "'elsewhere' is no device: choose among ['cpu'" in str(done.exception)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--part", "3/2"),
        ("--part", "a"),
        ("--workers", "0"),
        ("--samples", "3"),
        ("--batch", "0"),
        ("--mask", "nowhere.npy"),
        ("--mask", __file__),
        ("--operator", "nothing I know"),
        ("--key", "none"),
    ],
)
def test_a_wrong_option_begins_nothing(job: Job, wrong: tuple[str, str]) -> None:
    """What is begun is held to its settings, so the right command would be refused after it."""
    run = ["archive", "run", job.source, job.out, "--model", job.model, *wrong]
    assert isinstance(CliRunner().invoke(cli, run).exception, InputError)
    assert not Path(job.out).exists()


class Imagined:
    """A worker without a process: answers what a test says."""

    def __init__(self, job: Job) -> None:
        self.read, self._write = os.pipe()
        self.shard, self.items, self.is_ready = None, 0, False
        self._answers: list[list[dict[str, object]] | None] = [[{"ready": True}]]
        self._wake()

    script: ClassVar[dict[int, list[object]]] = {}

    @property
    def output(self) -> int:
        return self.read

    def _wake(self) -> None:
        os.write(self._write, b".")

    def send(self, line: str) -> None:
        shard = int(line)
        state = self.script.get(shard, []).pop(0) if self.script.get(shard) else "new"
        counts = Counts()
        counts.count("done", "green", "")
        if state == "dies":
            self._answers.append(None)
        elif isinstance(state, dict):
            self._answers.append([state])
        else:
            said = None if state == "busy" else counts.to_plain()
            self._answers.append([{"shard": shard, "state": state, "counts": said}])
        self._wake()

    def receive(self) -> list[dict[str, object]] | None:
        os.read(self.read, 1)
        return self._answers.pop(0)

    def end(self) -> int:
        os.close(self._write)
        os.close(self.read)
        return -9


@pytest.fixture
def imagined(job: Job, monkeypatch: pytest.MonkeyPatch) -> Tally:
    monkeypatch.setattr(WORKER, Imagined)
    monkeypatch.setattr("bcdm.archive.local._LISTEN_SECONDS", 0.01)
    monkeypatch.setattr("bcdm.archive.shards._PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(Imagined, "script", {})
    return Tally(begin(job, print), 3, print)


def test_what_another_run_has_is_asked_for_again(job: Job, imagined: Tally) -> None:
    Imagined.script = {1: ["busy", "busy", "there"], 2: ["dies", "new"]}
    run_local(job, range(3), 2, imagined)
    assert (imagined.finished, imagined.deaths) == (3, 1)


def test_a_shard_that_kills_its_workers_ends_the_run(job: Job, imagined: Tally) -> None:
    Imagined.script = {1: ["dies"] * 9}
    with pytest.raises(MachineError, match="5 workers died at shard 1"):
        run_local(job, range(3), 2, imagined)


def test_a_full_disk_of_one_worker_stops_all(job: Job, imagined: Tally) -> None:
    Imagined.script = {0: [{"error": "No space left on device", "fault": "machine"}]}
    with pytest.raises(MachineError, match="No space"):
        run_local(job, range(3), 2, imagined)


def test_progress_in_words(job: Job) -> None:
    now = [0.0]
    tally = Tally(begin(job, print), 4, print, clock=lambda: now[0])
    counts = Counts()
    for _ in range(10):
        counts.count("done", "green", "")
    tally.finish(counts, new=False)
    now[0] = 100.0
    assert tally.describe() == "1 of 4 shards, 10 items; 10 done; 10 green"
    tally.finish(counts, new=True)
    assert "0.1 a second, about 0:03:20 to go" in tally.describe()
    assert "0.15 a second, about 0:01:40 to go" in tally.describe(begun=5)
