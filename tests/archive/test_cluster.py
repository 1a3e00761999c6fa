"""Ray: the bits of a loop, workers that die, and no listener beyond this machine."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.archive.cases import FAST, find_hashes, open_job, write_table

from bcdm.archive import cluster
from bcdm.archive.heads import begin
from bcdm.archive.job import Job
from bcdm.archive.progress import Tally
from bcdm.benchmark.processes import list_descendants, list_listeners, read_command
from bcdm.errors import InputError

cluster.protect()
ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def running() -> Iterator[None]:
    """One cluster for all tests: it takes long to start."""
    with cluster.start("local", 2):
        yield


@pytest.fixture
def started(running: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import nullcontext

    monkeypatch.setattr(cluster, "start", lambda *_: nullcontext())


def test_it_listens_on_loopback_alone(running: None) -> None:
    found = list_listeners(list_descendants(os.getpid()))
    assert found
    assert set(found) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_a_cluster_without_the_device_refuses_instead_of_waiting(started: None, job: Job) -> None:
    head = begin(job, print)
    with pytest.raises(InputError, match="the cluster of Ray has no cuda"):
        cluster.run_ray(replace(job, device="cuda"), range(3), "local", 2, Tally(head, 3, print))


def test_a_killed_worker_changes_no_bit(started: None, scanner: Path, rows, tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.zarr", np.concatenate([rows, 2 * rows]))
    job = Job(str(table), str(tmp_path / "out"), str(scanner), shard=4, **FAST)
    quiet = replace(job, out=str(tmp_path / "quiet"))
    unit = open_job(quiet)
    for shard in range(5):
        unit.run(shard)
    said, killed = [], []

    def kill(line: str) -> None:
        said.append(line)
        if killed or line.startswith("0 of"):
            return
        for process in list_descendants(os.getpid()):
            if read_command(process).startswith("ray::do_shard"):
                killed.append(process)
                os.kill(process, signal.SIGKILL)
                return

    tally = Tally(begin(job, print), 5, kill, interval=0)
    cluster.run_ray(job, range(5), "local", 2, tally)
    assert find_hashes(job) == find_hashes(quiet)
    assert (tally.finished, tally.counts.items) == (5, 20)
    assert tally.deaths == len(killed) == 1
    # All is there: nobody asks Ray.
    cluster.run_ray(job, range(5), "nowhere", None, Tally(begin(job, print), 5, print))


def test_what_is_at_fault_for_all_stops_all(started: None, job: Job, tmp_path: Path) -> None:
    head = begin(job, print)
    lost = replace(job, model=str(tmp_path / "gone"))
    with pytest.raises(InputError, match="no model"):
        cluster.run_ray(lost, range(3), "local", 2, Tally(head, 3, print))


def test_an_address_without_a_cluster(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("timed out")

    monkeypatch.setattr(ray, "init", fail)
    with pytest.raises(InputError, match="no cluster of Ray at"):
        cluster.run_ray(job, range(3), "127.0.0.1:9", None, Tally(begin(job, print), 3, print))


def test_errors_of_workers_are_answers(tmp_path: Path) -> None:
    answer = cluster.do_shard(Job("a", str(tmp_path), "m").encode(), 0)
    assert answer["fault"] == "input"
    assert "no archive" in answer["error"]
