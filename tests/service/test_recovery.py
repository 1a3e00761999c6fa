"""Nothing that was accepted is lost, whatever is killed, and the bits stay the same."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.cases import Client, serving, write_scan

from bcdm.benchmark.serving import Server

# Long enough to be killed in the middle, on any machine.
LONG = {"samples": 24, "calls": 15, "batch": 4}


@pytest.fixture(scope="module")
def disturbed(scanner: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    work = tmp_path_factory.mktemp("disturbed") / "work"
    with serving(scanner, work, "--lease", "6", "--queue", "3") as one:
        yield one


def test_a_killed_worker_loses_nothing(
    disturbed: Server, client: Client, scan: Path, tmp_path: Path
) -> None:
    own = Client(disturbed.port)
    job = own.submit(scan, **LONG)
    while own.show(job)["progress"] < 0.1:
        time.sleep(0.1)
    (worker,) = disturbed.list_workers()
    os.kill(worker, signal.SIGKILL)
    found = own.wait(job)
    assert (found["state"], found["attempts"]) == ("done", 2)
    undisturbed = client.submit(scan, **LONG)
    assert client.wait(undisturbed)["attempts"] == 1
    name = "scan_results.npz"
    assert own.fetch(job, name) == client.fetch(undisturbed, name)
    events = [line["event"] for line in disturbed.read_log()]
    assert events.count("worker died") == 1


def test_jobs_can_be_cancelled(disturbed: Server, scan: Path) -> None:
    own = Client(disturbed.port)
    running, waiting = own.submit(scan, **LONG, seed=1), own.submit(scan, seed=2)
    own.wait(running, "running")
    assert own.ask("DELETE", f"/v1/jobs/{running}")[0] == 409
    for job in (waiting, running):
        assert own.ask("POST", f"/v1/jobs/{job}/cancel")[0] == 200
        assert own.wait(job)["state"] == "cancelled"
        assert own.ask("GET", f"/v1/jobs/{job}/result")[0] == 409
    # The worker goes on with others.
    assert own.wait(own.submit(scan))["state"] == "done"
    assert own.ask("DELETE", f"/v1/jobs/{running}")[0] == 204
    assert own.ask("GET", f"/v1/jobs/{running}")[0] == 404


def test_a_worker_that_hangs_is_replaced_and_a_full_queue_refuses(
    disturbed: Server, scan: Path
) -> None:
    own = Client(disturbed.port)
    (worker,) = disturbed.list_workers()
    os.kill(worker, signal.SIGSTOP)
    jobs = [own.submit(scan, seed=seed) for seed in (3, 4, 5)]
    status, headers, _ = own.ask("POST", "/v1/jobs", scan.read_bytes())
    assert status == 503
    assert int(headers["retry-after"]) >= 1
    found = [own.wait(job) for job in jobs]
    assert [one["state"] for one in found] == ["done"] * 3
    assert [one["attempts"] for one in found] == [2, 1, 1]
    assert disturbed.list_workers() != [worker]


def test_all_accepted_jobs_survive_a_kill_of_everything(
    scanner: Path, client: Client, tmp_path: Path
) -> None:
    scans = [write_scan(tmp_path / f"scan{k}.npz", scanner, k) for k in range(3)]
    work = tmp_path / "work"
    with serving(scanner, work) as first:
        own = Client(first.port)
        jobs = [own.submit(scans[0], **LONG), *map(own.submit, scans[1:])]
        while own.show(jobs[0])["progress"] < 0.1:
            time.sleep(0.1)
        first.kill()
        # What was on its way in and never became a job is removed.
        (work / "incoming" / "left").mkdir()
    with serving(scanner, work) as second:
        own = Client(second.port)
        # Ended in order while it draws: what runs is finished, what waits is kept.
        own.wait(jobs[0], "running", "done")
        assert second.end() == 0
        assert not (work / "incoming" / "left").exists()
        assert second.read_log()[-1]["event"] == "closed"
    with serving(scanner, work) as third:
        own = Client(third.port)
        assert [own.wait(job)["state"] for job in jobs] == ["done"] * 3
        assert own.show(jobs[0])["attempts"] == 1, "nobody is blamed for a kill of everything"
        for k, job in enumerate(jobs):
            same = client.submit(scans[k], **(LONG if k == 0 else {}))
            client.wait(same)
            name = f"scan{k}_results.npz"
            assert own.fetch(job, name) == client.fetch(same, name)
        # The process that has the model may die, too.
        for number in (third.find_nursery(), *third.list_workers()):
            os.kill(number, signal.SIGKILL)
        assert own.wait(own.submit(scans[0]))["state"] == "done"
