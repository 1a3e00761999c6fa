"""What an archive costs beside a bare loop, and whether it stays so when it grows."""

import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import zarr

from bcdm.archive.heads import HEAD, begin
from bcdm.archive.job import Job
from bcdm.archive.markers import Counts, Marker, name_marker, read_marker
from bcdm.archive.places import open_place
from bcdm.archive.status import summarise
from bcdm.archive.unit import Unit, open_unit
from bcdm.assessment.records import Record
from bcdm.assessment.statistics import bootstrap
from bcdm.checkpoint import load, save_model
from bcdm.checkpoint.building import build_method, build_operator
from bcdm.checkpoint.calibration import store_calibration
from bcdm.checkpoint.settings import parse_config
from bcdm.files import count_bytes
from bcdm.measurement import Measurement
from bcdm.reconstruction.calibrating import calibrate
from bcdm.reconstruction.items import reconstruct_items

__all__ = ["run"]

SIZE, NOISE_STD = 32, 2.5
LOCAL_LIMIT, RAY_LIMIT = "<= 1.03", "<= 1.05"
_IMAGES = ("mean", "std", "low", "high")


def run(
    command: str, *, smoke: bool = False, ray: bool = False, report: Callable[[str], None]
) -> list[Record]:
    """Measures on a throwaway model of 32x32 images, on one thread.

    Args:
        command: That gives the records again.
        smoke: Whether to scale it down to seconds.
        ray: Whether to measure a worker of Ray, too.
        report: Told how far it is.
    """
    torch.set_num_threads(1)
    rounds, items = (2, 4) if smoke else (9, 16)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = _make_model(folder / "model")
        few = _make_job(folder, "few", model, rounds * items, items)
        records = _measure_overhead(few, rounds, items, report)
        records += _measure_bytes(few)
        records += _measure_growth(folder, model, items, report)
        if ray:
            records += _measure_ray(few, rounds, items, report)
        records += _measure_recognition(few, 20 if smoke else 1000, report)
    # A smoke test may run beside anything: it requires nothing.
    required = [None if smoke else one.required for one in records]
    return [
        replace(one, command=command, seed=0, required=limit)
        for one, limit in zip(records, required, strict=True)
    ]


def _make_model(folder: Path) -> Path:
    """A small network that was never trained, calibrated so that it draws whole cards."""
    config = parse_config(
        {
            "name": "small",
            "data": {
                "path": "nothing",
                "size": [SIZE, SIZE],
                "channels": 1,
                "source_range": [0, 255],
            },
            "operator": {"kind": "fourier_mask", "acceleration": 2, "centre": 0.2},
            "noise_std": 0.05,
            "network": {"width": 16, "multipliers": [1, 2], "blocks": 1, "attention": []},
            "parameterisation": {"prior_std": 0.3, "known_std": 3.0, "model_std": 0.03},
            "training": {"steps": 1},
        }
    )
    shape = (1, SIZE, SIZE)
    method, operator = (
        build_method(config, shape),
        build_operator(config.operator, (SIZE, SIZE)),  # type: ignore[arg-type]
    )
    save_model(folder, config, method.network, operator, shape, {"training_images": 0})
    images = _draw_images(60)
    found = calibrate(
        load(folder), images, samples=11, calls=2, on="smooth images", report=lambda _: None
    )
    store_calibration(folder, found)
    return folder


def _draw_images(count: int) -> torch.Tensor:
    """Smooth images in [-1, 1]."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 1, 4, 4, generator=generator) * 2 - 1
    images = torch.nn.functional.interpolate(coarse, size=SIZE, mode="bicubic")
    return images.clamp(-1, 1)


def _make_job(folder: Path, name: str, model: Path, count: int, shard: int) -> Job:
    """An archive to be made, and the table that it is of."""
    images = 50 * (_draw_images(count) + 1)
    y = Measurement.simulate(images, load(model).operator, NOISE_STD, seed=1).y.numpy()
    group = zarr.create_group(folder / f"{name}.zarr", zarr_format=3)
    group.create_array("kspace", data=y, chunks=(shard, *y.shape[1:]))
    group.create_array("noise_std", data=np.full(count, NOISE_STD))
    return Job(
        str(folder / f"{name}.zarr"),
        str(folder / f"{name}.archive"),
        str(model),
        samples=9,
        calls=5,
        batch=16,
        force=True,
        shard=shard,
    )


def _open(job: Job) -> Unit:
    return open_unit(job, begin(job, lambda _: None))


def _time(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _loop(unit: Unit, shard: int) -> Callable[[], object]:
    """The bare loop: the same draws and cards of measurements in memory, kept nowhere."""
    entries = unit.source.read(shard, unit.fit)
    measured = [(entry.id, entry.fit().measure(entry.slice)) for entry in entries]
    return lambda: [one.status for one in reconstruct_items(unit.model, measured, unit.plan)]


def _measure_overhead(
    job: Job, rounds: int, items: int, report: Callable[[str], None]
) -> list[Record]:
    """Shards in turn with the bare loop over the same items."""
    unit, ratios, bare = _open(job), [], []
    for shard in range(rounds):
        loop = _loop(unit, shard)
        if shard % 2:
            own, plain = _time(lambda shard=shard: unit.run(shard)), _time(loop)  # type: ignore[misc]
        else:
            plain, own = _time(loop), _time(lambda shard=shard: unit.run(shard))  # type: ignore[misc]
        report(f"shard {shard}: {own:.2f} s, bare loop {plain:.2f} s")
        ratios.append(own / plain)
        bare.append(plain / items)
    case: dict[str, object] = {"scheduler": "local", "shard": items}
    middle, interval = float(np.median(ratios)), bootstrap(ratios, statistic=np.median)
    return [
        Record(
            "CPU-seconds over a bare loop", case, middle, interval=interval, required=LOCAL_LIMIT
        ),
        Record("bare loop", case, float(np.median(bare)), "CPU-s an item"),
    ]


def _measure_bytes(job: Job) -> list[Record]:
    found = summarise(job.out)
    arrays = len(_IMAGES) * 4 * SIZE * SIZE
    share = count_bytes(Path(job.out, "shards")) / found.counts.items / arrays
    case: dict[str, object] = {"shard": job.shard}
    return [Record("bytes over those of the arrays", case, share, required="<= 1.2")]


def _measure_growth(
    folder: Path, model: Path, items: int, report: Callable[[str], None]
) -> list[Record]:
    """Memory and cost of a shard ten times as long, after one as short as the others."""
    found = []
    for count in (items, 10 * items):
        unit = _open(_make_job(folder, f"grown{count}", model, count, count))
        seconds = _time(lambda unit=unit: unit.run(0)) / count  # type: ignore[misc]
        found.append((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
        report(f"{count} items: {seconds:.3f} s each, {found[-1][1] / 1024:.0f} MB")
    (short, before), (long, after) = found
    case: dict[str, object] = {"items": f"{items} and {10 * items}"}
    return [
        Record("memory of ten times more items", case, after / before, required="< 1.1"),
        Record("cost of an item of ten times more", case, long / short, required="<= 1.1"),
    ]


def _measure_ray(job: Job, rounds: int, items: int, report: Callable[[str], None]) -> list[Record]:
    """Shards by a worker of Ray, beside bare loops in this process while it waits."""
    from bcdm.archive.cluster import run_ray
    from bcdm.archive.progress import Tally

    job = replace(job, out=f"{job.out}.ray")
    head = begin(job, lambda _: None)
    unit, place = open_unit(job, head), open_place(job.out)
    loops = [_loop(unit, shard) for shard in range(rounds)]
    before = [_time(loop) for loop in loops]
    run_ray(job, range(rounds), "local", 1, Tally(head, rounds, report))
    after = [_time(loop) for loop in loops]
    ratios = []
    for shard in range(1, rounds):  # the first one warms the worker up
        marker = read_marker(place, shard, head.id)
        assert marker is not None
        ratios.append(marker.seconds / ((before[shard] + after[shard]) / 2))
    middle, interval = float(np.median(ratios)), bootstrap(ratios, statistic=np.median)
    case: dict[str, object] = {"scheduler": "Ray", "shard": items}
    return [
        Record("CPU-seconds over a bare loop", case, middle, interval=interval, required=RAY_LIMIT)
    ]


def _measure_recognition(job: Job, shards: int, report: Callable[[str], None]) -> list[Record]:
    """How fast `status` sees that all is finished, by markers of 1,000 items each."""
    place = open_place(f"{job.out}.markers")
    head = replace(begin(job, lambda _: None), shards=shards)
    place.write(HEAD, head.encode())
    counts = Counts()
    for _ in range(1000):
        counts.count("done", "green", "")
    hashes = dict.fromkeys((*_IMAGES, "status", "light", "size", "items"), "0" * 64)
    for shard in range(shards):
        marker = Marker(head.id, shard, "shards/none", counts.to_plain(), hashes)
        place.write(name_marker(shard), marker.encode())
    began = time.perf_counter()
    found = summarise(str(place))
    seconds = time.perf_counter() - began
    assert found.is_finished
    rate = found.counts.items / seconds
    report(f"{found.counts.items} items recognised in {seconds:.2f} s")
    case: dict[str, object] = {"shards": shards, "items": found.counts.items}
    return [Record("recognised as finished", case, rate, "items a second", required=">= 10000")]
