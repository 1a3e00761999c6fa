"""An archive whose processes are killed at random moments: every item once, and the same bits."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bcdm.archive.heads import begin
from bcdm.archive.job import Job
from bcdm.archive.markers import list_markers
from bcdm.archive.places import open_place
from bcdm.archive.store import hash_shard, read_lines
from bcdm.archive.unit import open_unit
from bcdm.assessment.records import Record
from bcdm.benchmark.nodes import Nodes
from bcdm.benchmark.processes import kill_all, list_descendants, read_command
from bcdm.benchmark.small import TINY, make_job, make_model
from bcdm.errors import MachineError

__all__ = ["Found", "Run", "kill_parts", "kill_ray", "read_archive", "run"]

# Part 1 is run twice at once: that must change nothing.
_PARTS = ("0/2", "1/2", "1/2")
_SHARE = 0.02
_LOOK_SECONDS = 0.05


def run(
    rounds: int,
    items: int,
    shard: int,
    *,
    parts: bool = True,
    ray: bool = True,
    report: Callable[[str], None],
) -> list[Record]:
    """Kills processes of parts, then of Ray on two nodes.

    Args:
        rounds: How many kills.
        items: Of the archive.
        shard: Items of a shard.
        parts: Whether to kill processes of parts.
        ray: Whether to kill those of Ray.
        report: Told how far it is.
    """
    records = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = make_model(folder / "model", TINY)
        quiet = make_job(folder, "items", model, items, shard, calls=2)
        unit = open_unit(quiet, begin(quiet, report))
        for number in range(unit.head.shards):
            unit.run(number)
        report(f"{items} items without a kill")
        expected = read_archive(quiet)
        for kill in [kill_parts] * parts + [kill_ray] * ray:
            job = replace(quiet, out=f"{quiet.out}.{kill.__name__}")
            found = kill(job, rounds, report=report)
            records += _judge(found, read_archive(job), expected, job, items)
    return records


@dataclass
class Found:
    """What was done to a run.

    Attributes:
        scheduler: Of the run.
        kills: By what was killed.
        attempts: Names of all attempts at shards.
    """

    scheduler: str
    kills: Counter[str] = field(default_factory=Counter)
    attempts: set[str] = field(default_factory=set)


class Run:
    """`bcdm archive run`, begun again whenever it was killed."""

    def __init__(
        self, job: Job, options: Sequence[str], environment: dict[str, str] | None = None
    ) -> None:
        command = [sys.executable, "-m", "bcdm", "archive", "run", job.source, job.out]
        command += ["--model", job.model, "--samples", str(job.samples), "--calls", str(job.calls)]
        command += ["--batch", str(job.batch), "--shard", str(job.shard), "--force", *options]
        home = str(Path(__file__).parents[2])
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._environment = {**(environment or os.environ), "PYTHONPATH": os.pathsep.join(paths)}
        self._command, self._log = command, tempfile.TemporaryFile()  # noqa: SIM115
        self._begin()

    def _begin(self) -> None:
        self.process = subprocess.Popen(
            self._command, env=self._environment, stdout=self._log, stderr=self._log
        )

    def is_over(self) -> bool:
        """Whether it has done all; begins it again if it was killed."""
        code = self.process.poll()
        if code == -signal.SIGKILL:
            self._begin()
        elif code:
            self._log.seek(0)
            said = self._log.read().decode(errors="replace").strip().splitlines()
            raise MachineError(f"a run ended with exit code {code}: {said[-1:]}")
        return code == 0

    def list_workers(self) -> list[int]:
        """Its worker processes."""
        own = list_descendants(self.process.pid)
        return [one for one in own if "bcdm.archive.worker" in read_command(one)]

    def close(self) -> None:
        """Ends it."""
        self.process.kill()
        self.process.wait()
        self._log.close()


def kill_parts(
    job: Job, rounds: int, *, seed: int = 0, report: Callable[[str], None] = lambda _: None
) -> Found:
    """Two parts, one of them run twice at once; workers and whole runs are killed."""
    runs: list[Run] = []

    def pick(random: np.random.Generator) -> Run:
        return runs[int(random.integers(len(runs)))]

    def kill_worker(random: np.random.Generator) -> bool:
        workers = pick(random).list_workers()
        kill_all(workers[:1])
        return bool(workers)

    def kill_driver(random: np.random.Generator) -> bool:
        chosen = pick(random)
        is_there = chosen.process.poll() is None
        kill_all([chosen.process.pid] if is_there else [])
        return is_there

    with ExitStack() as stack:
        for part in _PARTS:
            runs.append(Run(job, ["--part", part]))
            stack.callback(runs[-1].close)
        kinds = {"worker": kill_worker, "driver": kill_driver}
        found = Found("--part, one of them twice")
        _disturb(job, runs, kinds, rounds, seed, found, report)
        return found


def kill_ray(
    job: Job, rounds: int, *, seed: int = 0, report: Callable[[str], None] = lambda _: None
) -> Found:
    """Ray on two nodes; workers, the second node's raylet and the driver are killed."""
    with tempfile.TemporaryDirectory(prefix="ray") as name, Nodes(Path(name, "r")) as nodes:
        driver = Run(job, ["--ray", nodes.address], nodes.environment)

        def kill_worker(random: np.random.Generator) -> bool:
            workers = nodes.list_workers()
            kill_all([int(random.choice(workers))] if workers else [])
            return bool(workers)

        def kill_raylet(_: np.random.Generator) -> bool:
            nodes.kill_raylet()
            return True

        def kill_driver(_: np.random.Generator) -> bool:
            kill_all([driver.process.pid])
            return True

        kinds = {"worker": kill_worker, "raylet": kill_raylet, "driver": kill_driver}
        try:
            found = Found("Ray, two nodes")
            _disturb(job, [driver], kinds, rounds, seed, found, report)
        finally:
            driver.close()
        return found


def _disturb(
    job: Job,
    runs: Sequence[Run],
    kinds: Mapping[str, Callable[[np.random.Generator], bool]],
    rounds: int,
    seed: int,
    found: Found,
    report: Callable[[str], None],
) -> None:
    """Kills, as often as asked, at moments that are spread over the run."""
    head, random = begin(job, report), np.random.default_rng(seed)
    # Not at the very end: a run may be over before it is killed.
    moments = np.sort(random.uniform(0.02, 0.9, rounds)) * head.shards
    order = [[*kinds][k % len(kinds)] for k in random.permutation(rounds)]
    while (first := _look(job, found)) < 1:  # starting is no part of a shard's time
        _check(runs)
    began = time.monotonic()
    for moment, kind in zip(moments, order, strict=True):
        while (last := _look(job, found)) < moment:
            _check(runs)
        # Anywhere in a shard.
        pause = (time.monotonic() - began) / (last - first + 1) * float(random.uniform(0, 2))
        until = time.monotonic() + pause
        while time.monotonic() < until:
            _look(job, found)
        while not kinds[kind](random):  # there is none at this moment
            _look(job, found)
            if _check(runs):
                raise MachineError(f"all was over before a {kind} was killed: take more items")
        found.kills[kind] += 1
        report(f"killed a {kind} at {last} of {head.shards} shards")
    while not _check(runs):
        _look(job, found)
    _look(job, found)


def _check(runs: Sequence[Run]) -> bool:
    """Whether all are over; every one is asked, because asking begins it again."""
    return sum(one.is_over() for one in runs) == len(runs)


def _look(job: Job, found: Found) -> int:
    """Notes attempts at shards, and counts those that are finished."""
    time.sleep(_LOOK_SECONDS)
    finished = 0
    for folder in Path(job.out, "shards").glob("*"):
        for name in os.listdir(folder):
            stem, _, ending = name.partition(".")
            finished += ending == "json" and stem.isdecimal()
            if ending == "zarr":
                found.attempts.add(stem)
    return finished


def read_archive(job: Job) -> list[tuple[dict[str, str], list[str]]]:
    """Hashes of each shard's arrays as they are on the disk, and names of its items."""
    place, head, found = open_place(job.out), begin(job, lambda _: None), []
    for marker in list_markers(place, head.shards, head.id):
        hashes = hash_shard(place, marker.stem, marker.hashes)
        found.append((hashes, [line["id"] for line in read_lines(place, marker.stem)]))
    return found


def _judge(
    found: Found,
    archive: list[tuple[dict[str, str], list[str]]],
    expected: list[tuple[dict[str, str], list[str]]],
    job: Job,
    items: int,
) -> list[Record]:
    kills = found.kills.total()
    case: dict[str, object] = {
        "exam": "kills",
        "scheduler": found.scheduler,
        "items": items,
        "shard": job.shard,
        "kills": ", ".join(f"{count} {kind}" for kind, count in sorted(found.kills.items())),
    }
    names, right = (
        Counter(name for _, some in one for name in some) for one in (archive, expected)
    )
    unequal = sum(one != two for one, two in zip(archive, expected, strict=False))
    unequal += abs(len(archive) - len(expected))
    groups = len(list(Path(job.out, "shards").glob("*/*.zarr")))
    # Every attempt that was not committed counts as a whole shard.
    again = (len(found.attempts) - len(expected)) * job.shard / items
    allowed = _SHARE + kills * job.shard / items
    return [
        Record(
            "items missing or twice",
            case,
            float(((names - right) + (right - names)).total()),
            required="<= 0",
        ),
        Record("shards with other bits", case, float(unequal), required="<= 0"),
        Record("groups left over", case, float(groups - len(expected)), required="<= 0"),
        Record("share done again, at most", case, again, required=f"<= {allowed:.4g}"),
    ]
