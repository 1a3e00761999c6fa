"""Runs `bcdm archive run` and kills its processes at random moments."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from bcdm.archive.heads import begin
from bcdm.archive.job import Job
from bcdm.archive.markers import list_markers
from bcdm.archive.places import open_place


class Killer:
    """A run by two workers, again and again."""

    def __init__(self, job: Job, seed: int) -> None:
        self.job, self._random = job, np.random.default_rng(seed)
        self._head = begin(job, print)

    def _start(self) -> "subprocess.Popen[bytes]":
        job = self.job
        command = [sys.executable, "-m", "bcdm", "archive", "run", job.source, job.out]
        command += ["--model", job.model, "--samples", str(job.samples), "--calls", str(job.calls)]
        command += ["--batch", str(job.batch), "--shard", str(job.shard), "--force"]
        return subprocess.Popen([*command, "--workers", "2"], stderr=subprocess.DEVNULL)

    def count(self) -> int:
        return sum(
            1 for _ in list_markers(open_place(self.job.out), self._head.shards, self._head.id)
        )

    def disturb(self, number: int) -> None:
        """Kills, in turn, a worker and then the driver, or the driver at once."""
        process, before = self._start(), self.count()
        target = before + int(self._random.integers(1, 3))
        while self.count() < min(target, self._head.shards) and process.poll() is None:
            time.sleep(0.05)
        time.sleep(float(self._random.uniform(0, 0.5)))
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if number % 2 == 0 and process.poll() is None and (own := children.read_text().split()):
            os.kill(int(own[int(self._random.integers(len(own)))]), signal.SIGKILL)
            time.sleep(float(self._random.uniform(0, 0.5)))
        process.kill()
        process.wait()

    def finish(self) -> None:
        """Goes on to the end, by two runs at once, while nobody kills."""
        both = [self._start(), self._start()]
        assert [process.wait() for process in both] == [0, 0]
        assert self.count() == self._head.shards
