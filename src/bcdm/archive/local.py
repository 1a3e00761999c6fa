"""Shards by processes of one machine, whole archives or one part of many."""

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bcdm.archive.failures import to_error
from bcdm.archive.job import Job
from bcdm.archive.markers import Counts
from bcdm.archive.places import open_place
from bcdm.archive.progress import Tally
from bcdm.archive.shards import Queue
from bcdm.errors import InputError

__all__ = ["count_processors", "run_local"]

_LISTEN_SECONDS = 1.0


def count_processors() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_local(job: Job, shards: Sequence[int], workers: int, tally: Tally) -> None:
    """Does shards by several processes. A process that dies is replaced, its shard done again.

    Args:
        job: What to do.
        shards: Which, such as a range; those that are finished cost a look at their marker.
        workers: How many processes.
        tally: Told what becomes of them.

    Raises:
        MachineError: If a worker has no memory, disk or network, or dies over and over.
        InputError: If a worker finds model or settings that cannot be used.
    """
    if workers < 1:
        raise InputError(f"workers must be 1 or more, got {workers}")
    pool = _Pool(job, Queue(open_place(job.out), shards, tally), tally)
    try:
        pool.run(workers)
    finally:
        pool.close()


class _Worker:
    """One process, what it does, and what of its answers is not read yet."""

    def __init__(self, job: Job) -> None:
        home = str(Path(__file__).parents[2])
        paths = filter(None, [home, os.environ.get("PYTHONPATH")])
        threads = str(job.threads)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
        }
        # Without -P the current folder could shadow modules.
        command = [sys.executable, "-P", "-m", "bcdm.archive.worker", str(os.getpid())]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self.shard: int | None = None
        self.items = 0
        self.is_ready = False
        self._rest = b""
        self.send(job.encode())

    @property
    def output(self) -> int:
        """The number of the file that its answers come from."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def send(self, line: str) -> None:
        """Sends a line; that nobody reads it any more shows when answers are read."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()

    def receive(self) -> list[dict[str, Any]] | None:
        """What it said since; None if it has ended."""
        held = os.read(self.output, 1 << 16)
        if not held:
            return None
        *lines, self._rest = (self._rest + held).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> int:
        """Ends it; its exit code."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        return self.process.wait()


class _Pool:
    """The workers, and who does what."""

    def __init__(self, job: Job, queue: Queue, tally: Tally) -> None:
        self._job, self._queue, self._tally = job, queue, tally
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()

    def run(self, count: int) -> None:
        """Returns when all shards are finished."""
        while self._workers or not self._queue.is_empty:
            while len(self._workers) < count and not self._queue.is_empty:
                self._start()
            for key, _ in self._selector.select(timeout=_LISTEN_SECONDS):
                self._listen(key.data)
            for worker in self._workers[:]:
                self._employ(worker)
            self._tally.workers = len(self._workers)
            self._tally.tell(sum(worker.items for worker in self._workers))

    def close(self) -> None:
        """Ends all workers."""
        for worker in self._workers[:]:
            self._dismiss(worker)
        self._selector.close()

    def _start(self) -> None:
        worker = _Worker(self._job)
        self._workers.append(worker)
        self._selector.register(worker.output, selectors.EVENT_READ, worker)

    def _dismiss(self, worker: _Worker) -> int:
        self._selector.unregister(worker.output)
        self._workers.remove(worker)
        return worker.end()

    def _employ(self, worker: _Worker) -> None:
        """Gives an idle worker something to do, or lets it go where nothing is left."""
        if not worker.is_ready or worker.shard is not None:
            return
        shard = self._queue.take()
        if shard is not None:
            worker.shard, worker.items = shard, 0
            worker.send(str(shard))
        elif self._queue.is_empty:
            self._dismiss(worker)

    def _listen(self, worker: _Worker) -> None:
        messages = worker.receive()
        if messages is None:
            self._bury(worker)
            return
        for message in messages:
            if "error" in message:
                raise to_error(message)
            worker.is_ready = True
            self._queue.forgive(message.get("shard"))
            worker.items = message.get("items", worker.items)
            if "shard" in message:
                self._conclude(worker, message)

    def _conclude(self, worker: _Worker, message: dict[str, Any]) -> None:
        shard, worker.shard, worker.items = message["shard"], None, 0
        if message["counts"] is None:
            self._queue.put_back(shard, wait=True)
            return
        counts = Counts.from_plain(message["counts"])
        self._tally.finish(counts, new=message["state"] == "new")

    def _bury(self, worker: _Worker) -> None:
        """A worker has died: its shard is done again."""
        code = self._dismiss(worker)
        self._tally.deaths += 1
        self._queue.mourn(worker.shard, f"exit code {code}")
