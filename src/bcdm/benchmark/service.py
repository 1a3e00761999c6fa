"""The service under load: is anything lost or wrong when workers are killed, and what it costs."""

import hashlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bcdm.assessment.records import Record
from bcdm.benchmark.load import Found
from bcdm.benchmark.serving import Client, Server, serving
from bcdm.checkpoint import Model, load
from bcdm.measurement import Measurement
from bcdm.reconstruction.drawing import Item, draw_previews
from bcdm.reconstruction.fitting import fit_scan
from bcdm.reconstruction.items import Plan, reconstruct_items
from bcdm.scans import read_scan
from bcdm.service.asked import Asked, AskedJob
from bcdm.service.jobs import Conclusion
from bcdm.service.shelves import MEAN, Shelf
from bcdm.service.tasks import MEAN_BATCH, open_tasks

__all__ = ["SMOKE", "Exam", "run"]

SAMPLES, BATCH, NOISE_STD = 16, 8, 2.5
EFFICIENT = ">= 0.8"
_SAMPLE_SECONDS = 0.5
Say = Callable[[str], None]


@dataclass(frozen=True)
class Exam:
    """How much is asked.

    Attributes:
        minutes: Of load.
        calls: Network calls per sample.
        clients: That submit jobs; more than workers, so that some job always waits.
        mean_clients: That ask for means.
        kill_seconds: From one kill of a worker to the next.
        scans: Different files.
        queue: Jobs that wait or run at most; three times as many are submitted at once.
        heavy: Bodies of 100 MB.
    """

    minutes: float = 10.0
    calls: int = 8
    clients: int = 3
    mean_clients: int = MEAN_BATCH
    kill_seconds: float = 60.0
    scans: int = 6
    queue: int = 12
    heavy: int = 10


SMOKE = Exam(minutes=0.05, calls=2, clients=2, kill_seconds=2.5, scans=2, queue=4, heavy=2)


def run(
    command: str, *, model: str = "ixi64-mri8x", exam: Exam | None = None, report: Say
) -> list[Record]:
    """Measures a service of one worker on one thread.

    Args:
        command: That gives the records again.
        model: Of k-space with one mask.
        exam: How much; all of it when left out.
        report: Told how far it is.
    """
    torch.set_num_threads(1)
    exam = exam or Exam()
    token = secrets.token_urlsafe(32)
    with tempfile.TemporaryDirectory() as name:
        case = _prepare(Path(name), model, exam, report)
        before = _measure_ideal(case, exam)
        options = ("--queue", str(exam.queue), "--grace", "1")
        with serving(model, case.folder / "work", f"bench admin {token}", *options) as server:
            client = Client(server.port, token)
            records = _measure_load(case, exam, server, client, before, report)
            records += _measure_strangers(exam, server, client, report)
            records += _kill_everything(case, exam, server, client, report, options)
    return [replace(one, command=command, seed=0) for one in records]


@dataclass(frozen=True)
class _Case:
    """Files, and the bits that the library makes of them."""

    folder: Path
    name: str
    model: Model
    scans: list[Path]
    asked: AskedJob
    results: list[str]
    means: list[str]

    @property
    def query(self) -> dict[str, object]:
        """What is asked of each job."""
        return self.asked.model_dump(include={"samples", "calls", "batch", "noise_std", "force"})


def _prepare(folder: Path, name: str, exam: Exam, report: Say) -> _Case:
    """Writes scans, and reconstructs each by the library."""
    model = load(name)
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(exam.scans, 1, 4, 4, generator=generator) * 100
    size = (model.shape[-2], model.shape[-1])
    images = torch.nn.functional.interpolate(coarse, size=size, mode="bicubic").clamp(0, 100)
    y = Measurement.simulate(images, model.operator, NOISE_STD, seed=1).y.numpy()
    # Nobody looks at these images: they need not be typical of the training data.
    asked = AskedJob(
        samples=SAMPLES, calls=exam.calls, batch=BATCH, noise_std=NOISE_STD, force=True
    )
    tasks = open_tasks(name, 1 << 26, 4)
    scans, results, means = [], [], []
    for k in range(exam.scans):
        shelf = Shelf(folder / f"library{k}")
        shelf.find_input("").mkdir(parents=True)
        path = shelf.find_input(f"scan{k}.npz")
        np.savez(path, kspace=y[k : k + 1].astype(np.complex64))
        named = asked.model_copy(update={"name": path.name})
        end = tasks.reconstruct(shelf, named, lambda _: None)
        assert end.state == "done", end
        results.append(_hash(shelf.out / f"scan{k}_results.npz"))
        small = Asked(name=path.name, noise_std=NOISE_STD)
        assert tasks.estimate([(shelf, small)]) == [Conclusion("done")]
        means.append(_hash(shelf.folder / MEAN))
        scans.append(path)
        report(f"the library has reconstructed {k + 1} of {exam.scans} files")
    return _Case(folder, name, model, scans, asked, results, means)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _measure_ideal(case: _Case, exam: Exam) -> tuple[float, float]:
    """CPU-seconds of a job and of a mean in full batches, all loaded, nothing written."""
    asked = case.asked
    calls = asked.calls or case.model.calls
    plan = Plan(samples=asked.samples, calls=calls, batch=asked.batch, force=True)
    items = []
    for k, path in enumerate(case.scans[:MEAN_BATCH]):
        fitted = fit_scan(read_scan(path), case.model, noise_std=NOISE_STD)
        items.append((str(k), fitted.measure(0)))
    began = time.process_time()
    done = [one.status for one in reconstruct_items(case.model, items, plan)]
    job = (time.process_time() - began) / len(done)
    some = [Item(name, one) for name, one in items]
    full = [some[k % len(some)] for k in range(MEAN_BATCH)]
    began = time.process_time()
    rounds = 1 if exam.minutes < 1 else 5
    for _ in range(rounds):
        draw_previews(case.model.method, full, 0, MEAN_BATCH)
    return job, (time.process_time() - began) / (rounds * MEAN_BATCH)


class _Meter:
    """Adds up the processor's time of all processes of a service, those that die among them."""

    def __init__(self, server: Server) -> None:
        self._server, self._seen = server, dict[int, float]()
        self._first = server.count_work()

    def read(self) -> float:
        """Seconds since it was made."""
        self._seen |= self._server.count_work()
        return sum(self._seen.values()) - sum(self._first.values())


@contextmanager
def _killing(server: Server, meter: _Meter, exam: Exam, report: Say) -> Iterator[list[int]]:
    """Kills a worker now and then while there is load; watches the time of the processor."""
    killed: list[int] = []
    is_over = threading.Event()

    def kill() -> None:
        last = time.monotonic()
        end = last + 60 * exam.minutes + _SAMPLE_SECONDS
        while not is_over.wait(_SAMPLE_SECONDS):
            meter.read()
            if time.monotonic() - last < exam.kill_seconds or time.monotonic() > end:
                continue
            last = time.monotonic()
            for worker in server.list_workers()[:1]:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)
                report(f"killed worker {len(killed)}")

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        is_over.set()
        thread.join()


def _measure_load(
    case: _Case,
    exam: Exam,
    server: Server,
    client: Client,
    before: tuple[float, float],
    report: Say,
) -> list[Record]:
    """Clients of another process, while workers are killed."""
    given = {
        "port": server.port,
        "token": client.token,
        "scans": list(map(str, case.scans)),
        "results": case.results,
        "means": case.means,
        "asked": case.query,
        "seconds": 60 * exam.minutes,
        "clients": exam.clients,
        "mean_clients": exam.mean_clients,
    }
    meter, began = _Meter(server), time.monotonic()
    with _killing(server, meter, exam, report) as killed:
        done = subprocess.run(
            [sys.executable, "-m", "bcdm.benchmark.load"],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            check=True,
        )
    found, wall = Found(**json.loads(done.stdout)), time.monotonic() - began
    work, after = meter.read(), _measure_ideal(case, exam)
    job, mean = ((one + other) / 2 for one, other in zip(before, after, strict=True))
    ideal = len(found.jobs) * job + len(found.means) * mean
    report(f"{len(found.jobs)} jobs, {len(found.means)} means; faults: {found.faults[:3]}")
    setting: dict[str, Any] = {
        "minutes": round(wall / 60, 2),
        "clients": exam.clients,
        "mean clients": exam.mean_clients,
        "kills": len(killed),
        "job": f"{SAMPLES} samples x {exam.calls} calls",
    }
    waits = {"jobs": found.jobs, "means": found.means}
    return [
        Record("accepted jobs that were lost", setting, found.lost, required="<= 0"),
        Record("answers that are not the library's bits", setting, found.wrong, required="<= 0"),
        Record("requests that failed", setting, len(found.faults), required="<= 0"),
        Record("jobs done", setting, len(found.jobs), required="> 0"),
        Record("means answered", setting, len(found.means)),
        Record("jobs begun again", setting, found.attempts - len(found.jobs)),
        *(
            Record(f"{kind}: p{part}", setting, float(np.percentile(some, part)), "s")
            for kind, some in waits.items()
            if some
            for part in (50, 99)
        ),
        Record("jobs a minute on the wall", setting, 60 * len(found.jobs) / wall),
        Record("share of a processor that it had", setting, work / wall),
        Record(
            "throughput over that of ideal batches, at equal CPU-seconds",
            setting | {"ideal": f"{job:.3f} CPU-s a job, {1000 * mean:.1f} CPU-ms a mean"},
            ideal / work,
            required=EFFICIENT if exam.minutes >= 1 else None,
        ),
    ]


def _read_memory(process: int) -> float:
    """MB that a process has in memory."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def _measure_strangers(exam: Exam, server: Server, client: Client, report: Say) -> list[Record]:
    """Clients that hang, and bodies of 100 MB: memory and time of the gateway."""
    process = server.process.pid
    memory, work = _read_memory(process), server.count_work()[process]
    hanging = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
    for one in hanging[::2]:
        one.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n")

    def send() -> Iterator[bytes]:
        for _ in range(100):
            yield bytes(1 << 20)

    answers = []
    for k in range(exam.heavy):
        # In turn one that says how large it is, and one that does not.
        heavy = {"Content-Length": str(100 << 20)} if k % 2 else {}
        answers.append(client.ask("POST", "/v1/jobs", send(), heavy, chunked=not k % 2)[0])
    status = client.ask("GET", "/live")[0]
    grown = _read_memory(process) - memory
    spent = server.count_work()[process] - work
    for one in hanging:
        one.close()
    report(f"{exam.heavy} bodies of 100 MB: {sorted(set(answers))}, gateway + {grown:.1f} MB")
    case: dict[str, object] = {"hanging": len(hanging), "bodies of 100 MB": exam.heavy}
    refused = sum(one == 413 for one in answers) / len(answers)
    return [
        Record("bodies of 100 MB that were refused", case, refused, required=">= 1"),
        Record("answers meanwhile", case, float(status == 200), required=">= 1"),
        Record("memory that the gateway grew by", case, grown, "MB", required="<= 16"),
        Record("memory of the gateway", case, memory, "MB"),
        Record("time of the gateway", case, spent, "CPU-s"),
    ]


def _kill_everything(
    case: _Case,
    exam: Exam,
    server: Server,
    client: Client,
    report: Say,
    options: tuple[str, ...],
) -> list[Record]:
    """A burst that is more than the queue takes; then kill -9 of everything, and a new start."""
    jobs: list[tuple[str, int]] = []
    statuses, longest = [], 0
    for k in range(3 * exam.queue):
        place = k % len(case.scans)
        status, headers, content = client.try_submit(case.scans[place], case.query)
        statuses.append(status)
        if status == 202:
            jobs.append((json.loads(content)["id"], place))
        elif int(headers.get("retry-after", 0)) < 1:
            statuses[-1] = 0
        about = json.loads(client.ask("GET", "/v1/about")[2])
        longest = max(longest, about["waiting"] + about["running"])
    server.kill()
    report(f"killed everything with {len(jobs)} accepted jobs, {statuses.count(503)} refused")
    right = 0
    with serving(case.name, server.work, f"bench admin {client.token}", *options) as second:
        again = Client(second.port, client.token)
        for job, place in jobs:
            if again.wait(job)["state"] == "done":
                content = again.fetch(job, f"scan{place}_results.npz")
                right += hashlib.sha256(content).hexdigest() == case.results[place]
    setting: dict[str, object] = {"queue": exam.queue, "submitted at once": len(statuses)}
    others = sum(one not in (202, 503) for one in statuses)
    return [
        Record("longest queue", setting, longest, required=f"<= {exam.queue}"),
        Record("refused with 503 and Retry-After", setting, statuses.count(503), required="> 0"),
        Record("other answers", setting, others, required="<= 0"),
        Record("accepted before kill -9 of everything", setting, len(jobs), required="> 0"),
        Record(
            "of these, done after the restart with the library's bits",
            setting,
            right / max(1, len(jobs)),
            required=">= 1",
        ),
    ]
