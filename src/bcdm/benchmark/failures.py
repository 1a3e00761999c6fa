"""Does the simulation of a fleet say what a real run with the same failures does?

Clocks are those of processors: a worker dies when it has used so much of one, and time is what
workers have used. A processor that others share is slower in one run than in another, by a tenth
and more: each run is simulated with the shards as long as they were in it, and the price of
failures is what they cost beyond that.
"""

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bcdm.archive.job import Job
from bcdm.archive.markers import list_markers
from bcdm.archive.simulation import Course, Fleet, simulate
from bcdm.archive.status import open_archive
from bcdm.assessment.records import Record
from bcdm.benchmark.kills import Run
from bcdm.benchmark.processes import kill_all
from bcdm.benchmark.small import TINY, make_job, make_model

__all__ = ["LARGE", "run"]

_LOOK_SECONDS = 0.02
_DAY = 86400.0
_NEVER = float("inf")
_NEAR = "<= 0.15"
# A thousand workers for a month: each dies every two days, the driver every week.
LARGE = Fleet(
    workers=1000,
    shards=1_000_000,
    shard=2500.0,
    spread=0.1,
    start=60.0,
    replace=300.0,
    lifetime=2 * _DAY,
    driver_lifetime=7 * _DAY,
    driver_start=600.0,
    hand_out=0.01,
)
Report = Callable[[str], None]
Lifetime = Callable[[int, int], float]


@dataclass
class _Observed:
    """A real run.

    Attributes:
        seconds: Of the processor that the busiest place of a worker has used.
        deaths: Of workers.
        used: Seconds of all workers.
        shards: Seconds of each shard that was finished.
        starts: How many processes there were.
    """

    seconds: float
    deaths: int
    used: float
    shards: list[float]
    starts: int

    @property
    def shard(self) -> float:
        """Seconds of a shard, on average."""
        return float(np.mean(self.shards))


def run(report: Report, *, smoke: bool = False) -> list[Record]:
    """Runs an archive without failures, with failures, and in the simulation.

    Args:
        report: Told how far it is.
        smoke: Whether to scale it down to seconds.
    """
    workers, shards, items, lifetime = (2, 6, 2, 9.0) if smoke else (3, 240, 12, 12.0)

    def draw_lifetime(worker: int, life: int) -> float:
        return float(np.random.default_rng([0, worker, life]).exponential(lifetime))

    with tempfile.TemporaryDirectory() as name:
        model = make_model(Path(name, "model"), TINY)
        job = make_job(Path(name), "items", model, shards * items, items, calls=2)
        quiet = _observe(job, workers, lambda *_: _NEVER)
        report(f"without failures {quiet.seconds:.1f} s of each of {workers} workers")
        real = _observe(replace(job, out=f"{job.out}.killed"), workers, draw_lifetime)
        report(f"with {real.deaths} deaths {real.seconds:.1f} s")
    start = (quiet.used - sum(quiet.shards)) / quiet.starts
    spread = float(np.std(np.log(quiet.shards)))
    calm = Fleet(workers, shards, quiet.shard, spread, start)
    slower = real.shard / quiet.shard
    hard = replace(calm, shard=real.shard, start=slower * start, lifetime=lifetime)
    course = simulate(hard, draw_lifetime=draw_lifetime)
    records = _compare(calm, quiet, real, simulate(calm), course)
    return records + _foretell(LARGE if not smoke else replace(LARGE, shards=2000))


def _observe(job: Job, workers: int, draw_lifetime: Lifetime) -> _Observed:
    """Runs an archive; a worker is killed when it has used its lifetime of the processor."""
    used: dict[int, float] = {}  # by process
    place_of: dict[int, int] = {}
    lives, free = [0] * workers, list(range(workers))
    killed: set[int] = set()
    one = Run(job, ["--workers", str(workers)])
    try:
        while not one.is_over():
            time.sleep(_LOOK_SECONDS)
            for process in one.list_workers():
                if process not in place_of:
                    if not free:
                        continue  # its predecessor is not noticed as dead yet
                    place_of[process] = free.pop(0)
                    lives[place_of[process]] += 1
                spent = _read_seconds(process)
                used[process] = max(used.get(process, 0.0), spent)
                where = place_of[process]
                if process not in killed and spent > draw_lifetime(where, lives[where] - 1):
                    kill_all([process])
                    killed.add(process)
                    free.append(where)
    finally:
        one.close()
    places = [sum(used[p] for p in used if place_of[p] == k) for k in range(workers)]
    place, head = open_archive(job.out)
    shards = [marker.seconds for marker in list_markers(place, head.shards, head.id)]
    return _Observed(max(places), len(killed), sum(used.values()), shards, sum(lives))


def _read_seconds(process: int) -> float:
    """What a process has used of processors."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0.0
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _compare(
    fleet: Fleet, quiet: _Observed, real: _Observed, calm: Course, course: Course
) -> list[Record]:
    case: dict[str, object] = {
        "exam": "failures",
        "workers": fleet.workers,
        "shards": fleet.shards,
        "deaths": f"{real.deaths} real, {course.deaths} simulated",
    }
    # In units of a shard of its own run: what a slower processor takes is no price of failures.
    slower = real.shard / quiet.shard
    overhead = real.seconds / (slower * quiet.seconds) - 1
    foretold = course.seconds / (slower * calm.seconds) - 1
    return [
        Record("finish time without failures, real", case, quiet.seconds, "CPU-s of a worker"),
        Record("finish time without failures, simulated", case, calm.seconds, "s"),
        Record("shards slower than in the run without failures", case, slower),
        Record("start of a worker", case, fleet.start, "CPU-s"),
        Record("shard", case, fleet.shard, "CPU-s"),
        Record("finish time of a real run", case, real.seconds, "CPU-s of a worker"),
        Record("finish time simulated", case, course.seconds, "s"),
        Record("overhead of failures, real", case, overhead),
        Record("overhead of failures, simulated", case, foretold),
        Record(
            "finish time, simulated off real",
            case,
            abs(course.seconds / real.seconds - 1),
            required=_NEAR,
        ),
        Record(
            "finish time without failures, simulated off real",
            case,
            abs(calm.seconds / quiet.seconds - 1),
            required=_NEAR,
        ),
        Record("overhead, simulated off real", case, abs(foretold / overhead - 1), required=_NEAR),
    ]


def _foretell(fleet: Fleet) -> list[Record]:
    """The course of a large fleet."""
    course = simulate(fleet)
    case: dict[str, object] = {"exam": "failures", "workers": fleet.workers, "shards": fleet.shards}
    case |= {"deaths": course.deaths, "deaths of the driver": course.driver_deaths}
    return [
        Record("large fleet, finish time", case, course.seconds / _DAY, "days"),
        Record("large fleet, over a month without failures", case, course.seconds / fleet.least),
        Record("large fleet, work done again", case, course.redone, required="<= 0.02"),
    ]
