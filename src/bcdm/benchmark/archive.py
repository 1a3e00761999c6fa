"""What an archive costs beside a bare loop, and whether it stays so when it grows."""

import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from bcdm.archive.entries import Entry
from bcdm.archive.heads import HEAD, Head, begin
from bcdm.archive.job import Job
from bcdm.archive.local import run_local
from bcdm.archive.markers import Counts, Marker, name_marker
from bcdm.archive.places import open_place
from bcdm.archive.progress import Tally
from bcdm.archive.shards import Queue
from bcdm.archive.status import summarise
from bcdm.archive.store import IMAGES
from bcdm.archive.unit import Unit, open_unit
from bcdm.assessment.records import Record
from bcdm.assessment.statistics import bootstrap
from bcdm.benchmark import failures, kills
from bcdm.benchmark.small import SIZE, TINY, make_job, make_model
from bcdm.checkpoint import load
from bcdm.diffusion import DPMSolver, run_chain
from bcdm.files import count_bytes
from bcdm.measurement import Measurement
from bcdm.networks import Backbone
from bcdm.reconstruction.drawing import Item, Progress
from bcdm.reconstruction.fitting import Fitted
from bcdm.reconstruction.items import Outcome
from bcdm.reconstruction.joining import join_measurements
from bcdm.tensors import SeededNoise

__all__ = ["EXAMS", "run", "time_shard"]

EXAMS = ("model", "costs", "growth", "ray", "kills", "failures")
MODEL = "ixi64-mri-scanner"
LOCAL_LIMIT, RAY_LIMIT = "<= 1.03", "<= 1.05"
Report = Callable[[str], None]


def run(
    command: str,
    exams: Sequence[str] = EXAMS,
    *,
    items: int = 10_000,
    smoke: bool = False,
    report: Report,
) -> list[Record]:
    """Measures on a throwaway model of 32x32 images, on one thread.

    Args:
        command: That gives the records again.
        exams: Which, of `EXAMS`.
        items: Of the archives whose processes are killed.
        smoke: Whether to scale it down to seconds.
        report: Told how far it is.
    """
    torch.set_num_threads(1)
    rounds, few = (2, 4) if smoke else (5, 50)
    records = _measure_model(MODEL) if "model" in exams else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if {"costs", "ray"} & set(exams):
            job = make_job(folder, "few", make_model(folder / "model"), rounds * few, few)
        if "costs" in exams:
            records += _measure_overhead(job, rounds, few, report)
        if "growth" in exams:
            records += _measure_growth(folder, 4 if smoke else 20, report)
            records += _measure_recognition(folder, 20 if smoke else 1000, report)
        if "ray" in exams:
            records += _measure_ray(replace(job, out=f"{job.out}.ray"), rounds, few, report)
    if "kills" in exams:
        # 400 shards: what two workers of a driver lose with it stays below the limit.
        size = (2, 80, 5) if smoke else (20, items, items // 400)
        records += kills.run(*size, ray=not smoke, report=report)
    if "failures" in exams:
        records += failures.run(report, smoke=smoke)
    # A smoke test may run beside anything: only what no load can change is required of it.
    kept = [one.required if not smoke or one.case["exam"] == "kills" else None for one in records]
    return [
        replace(one, command=command, seed=0, required=limit)
        for one, limit in zip(records, kept, strict=True)
    ]


def _measure_model(name: str, batch: int = 8) -> list[Record]:
    """What one pass of a shipped network costs, an image of a batch."""
    from torch.utils.flop_counter import FlopCounterMode

    model = load(name)
    (backbone,) = (part for part in model.method.network.modules() if isinstance(part, Backbone))
    images, level = (
        torch.zeros(batch, backbone.config.channels_in, *model.shape[1:]),
        torch.zeros(1),
    )
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        backbone(images, level)
    with torch.no_grad():
        seconds = [_time(lambda: backbone(images, level)) / batch for _ in range(5)]
    case: dict[str, object] = {"exam": "model", "model": name, "batch": batch}
    return [
        Record("FLOPs of a pass", case, counter.get_total_flops() / batch),
        Record("network pass", case, float(np.median(seconds)), "CPU-s"),
    ]


def _open(job: Job) -> Unit:
    return open_unit(job, begin(job, lambda _: None))


def _time(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@dataclass(frozen=True)
class _Watched(Unit):
    """A unit that notes how long its items take, from reading them to their numbers and cards."""

    spent: list[float] = field(default_factory=list)

    def draw(
        self, entries: Iterator[Entry], on_step: Callable[[Progress], None] | None = None
    ) -> Iterator[tuple[int, Entry, Fitted | None, Outcome]]:
        """As the unit does, with an eye on the clock."""
        drawn = super().draw(entries, on_step)
        while True:
            began = time.process_time()
            one = next(drawn, None)
            self.spent.append(time.process_time() - began)
            if one is None:
                return
            yield one


@lru_cache(maxsize=1)
def _watch(line: str) -> _Watched:
    job = Job.decode(line)
    torch.set_num_threads(job.threads)
    unit = _open(job)
    return _Watched(**{one.name: getattr(unit, one.name) for one in fields(unit)})


def time_shard(line: str, shard: int) -> tuple[float, float]:
    """CPU-seconds of a shard, and of that what a loop over items in memory takes.

    Both are parts of one run: what the processor does beside it changes them alike.

    Args:
        line: The job.
        shard: Its number.
    """
    unit = _watch(line)
    reading = _time(lambda: _read(unit, shard))
    unit.spent.clear()
    whole = _time(lambda: unit.run(shard))
    return whole, sum(unit.spent) - reading


def _read(unit: Unit, shard: int) -> list[tuple[str, Measurement]]:
    entries = unit.source.read(shard, unit.fit)
    return [(one.id, one.fit().measure(one.slice)) for one in entries]


@torch.no_grad()
def _sample(unit: Unit, shard: int) -> None:
    """Samples in full batches, their mean and standard deviation: torch, and no card."""
    plan, method = unit.plan, unit.model.method
    items = _read(unit, shard)
    wanted = iter([(Item(*one), k) for one in items for k in range(plan.samples)])
    drawn = []
    while batch := list(islice(wanted, plan.batch)):
        denoiser = method.condition(join_measurements([item.measurement for item, _ in batch]))
        noise = SeededNoise(plan.seed, [k for _, k in batch], [item.id for item, _ in batch])
        levels = denoiser.schedule.grid(plan.calls)
        drawn.append(run_chain(denoiser, DPMSolver(plan.churn), levels, noise))
    samples = torch.cat(drawn).unflatten(0, (-1, plan.samples))
    samples.mean(1), samples.std(1)


def _compare(case: dict[str, object], found: Sequence[tuple[float, float]], limit: str) -> Record:
    ratios = [whole / inside for whole, inside in found]
    middle, interval = float(np.median(ratios)), bootstrap(ratios, statistic=np.median)
    return Record("CPU-seconds over a bare loop", case, middle, "", interval, limit)


def _measure_overhead(job: Job, rounds: int, items: int, report: Report) -> list[Record]:
    """What a shard costs over the loop that is inside of it."""
    found = [time_shard(job.encode(), shard) for shard in range(rounds)]
    # Without cards, once: what it says of the archive's price is nothing, but of a card's.
    alone = _time(lambda: _sample(_watch(job.encode()), 0)) / items
    case: dict[str, object] = {"exam": "costs", "scheduler": "local", "shard": items}
    own, same = (float(np.median([one[k] / items for one in found])) for k in range(2))
    report(f"{own:.3f} CPU-s an item, {same:.3f} in the loop")
    return [
        _compare(case, found, LOCAL_LIMIT),
        Record("item of the archive", case, own, "CPU-s"),
        Record("item of the loop", case, same, "CPU-s"),
        Record("item by sampling alone", case, alone, "CPU-s"),
    ]


def _measure_growth(folder: Path, items: int, report: Report) -> list[Record]:
    """Memory, cost and bytes of archives in one shard, the second ten times as long."""
    model, found = make_model(folder / "tiny", TINY), []
    for count in (items, 10 * items):
        job = make_job(folder, f"grown{count}", model, count, count)
        head = begin(job, report)
        run_local(job, range(head.shards), 1, Tally(head, head.shards, report))
        # The largest of all workers so far: the longer archive comes second.
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        found.append((summarise(job.out).seconds / count, memory))
        report(f"{count} items: {found[-1][0]:.3f} s each, {memory:.0f} MB")
    (short, before), (long, after) = found
    case: dict[str, object] = {"exam": "growth", "items": f"{items} and {10 * items}"}
    arrays = 10 * items * len(IMAGES) * 4 * SIZE * SIZE
    kept = count_bytes(Path(job.out, "shards")) / arrays
    return [
        Record("bytes over those of the arrays", case, kept, required="<= 1.2"),
        Record("memory of a worker", case, after, "MB"),
        Record("memory of ten times more items", case, after / before, required="< 1.1"),
        Record("cost of an item of ten times more", case, long / short, required="<= 1.1"),
    ]


def _measure_ray(job: Job, rounds: int, items: int, report: Report) -> list[Record]:
    """The same in a worker of Ray, whose own threads count, too."""
    from bcdm.archive import cluster

    begin(job, report)
    with cluster.start("local", 1):
        import ray

        task = ray.remote(num_cpus=1)(time_shard)
        # The first one warms the worker up.
        found = [ray.get(task.remote(job.encode(), shard)) for shard in range(rounds)][1:]
    return [_compare({"exam": "ray", "scheduler": "Ray", "shard": items}, found, RAY_LIMIT)]


def _measure_recognition(folder: Path, shards: int, report: Report) -> list[Record]:
    """How fast `status` and `run` see that all is finished, by markers of 1,000 items each."""
    place = open_place(str(folder / "markers"))
    head = Head("none", {}, {}, shards, 1000 * shards)
    place.write(HEAD, head.encode())
    counts = Counts()
    for _ in range(1000):
        counts.count("done", "green", "")
    hashes = dict.fromkeys((*IMAGES, "status", "light", "size", "items"), "0" * 64)
    for shard in range(shards):
        marker = Marker(head.id, shard, "shards/none", counts.to_plain(), hashes)
        place.create(name_marker(shard), marker.encode())
    records = []
    for name in ("status", "run"):
        began = time.perf_counter()
        if name == "status":
            items = summarise(str(place)).counts.items
        else:
            tally = Tally(head, shards, report)
            assert Queue(place, range(shards), tally).is_empty
            items = tally.counts.items
        rate = items / (time.perf_counter() - began)
        case: dict[str, object] = {"exam": "growth", "by": name, "shards": shards, "items": items}
        records.append(
            Record("recognised as finished", case, rate, "items a second", required=">= 10000")
        )
    return records
