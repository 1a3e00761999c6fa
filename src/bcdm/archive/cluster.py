"""Shards by tasks of Ray: it finds processors and replaces workers, all safety is the unit's."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bcdm.archive.failures import describe_error, to_error
from bcdm.archive.heads import read_head
from bcdm.archive.job import Job
from bcdm.archive.local import count_processors
from bcdm.archive.markers import Counts
from bcdm.archive.places import open_place
from bcdm.archive.progress import Tally
from bcdm.archive.shards import Queue
from bcdm.errors import InputError

if TYPE_CHECKING:
    from bcdm.archive.unit import Unit

__all__ = ["do_shard", "protect", "run_ray", "start"]

LOCAL = "local"
_SAFE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
# A cluster that we start is for this machine alone; else its ports listen on all interfaces. Of a
# cluster of several machines, this would hide the address by which its workers answer.
_ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_LISTEN_SECONDS = 1.0


def run_ray(
    job: Job, shards: Sequence[int], address: str, workers: int | None, tally: Tally
) -> None:
    """Does shards by tasks of a Ray cluster, whose nodes have bcdm and see input and archive.

    Args:
        job: What to do.
        shards: Which.
        address: Of the cluster; "local" starts one of this machine, on loopback.
        workers: How many tasks at once at most; left out: as many as there are processors.
        tally: Told what becomes of them.

    Raises:
        MachineError: If a worker has no memory, disk or network, or dies over and over.
        InputError: If a worker finds model or settings that cannot be used.
    """
    queue = Queue(open_place(job.out), shards, tally)
    if queue.is_empty:
        return
    with start(address, workers):
        _schedule(job, queue, workers, tally)


def protect(address: str = LOCAL) -> None:
    """Sets what Ray reads when it is imported; what a user has set stays."""
    wanted = _SAFE | _ALONE if address == LOCAL else _SAFE
    os.environ |= {name: value for name, value in wanted.items() if name not in os.environ}


@contextmanager
def start(address: str, workers: int | None = None) -> Iterator[None]:
    """Connects to a cluster, or starts one that listens on loopback, without dashboard."""
    protect(address)
    import ray

    try:
        if address == LOCAL:
            ray.init(
                "local",
                num_cpus=workers or count_processors(),
                include_dashboard=False,
                log_to_driver=False,
                logging_level="error",
                _node_ip_address="127.0.0.1",
            )
        else:
            ray.init(address, log_to_driver=False, logging_level="error")
    except (ConnectionError, ValueError, RuntimeError) as error:
        line = " ".join(str(error).split())[:300]
        raise InputError(f"no cluster of Ray at {address}: {line}") from None
    try:
        yield
    finally:
        ray.shutdown()


def do_shard(line: str, shard: int) -> dict[str, Any]:
    """What runs on a worker: as `bcdm.archive.worker`, and answers the same.

    Args:
        line: The job.
        shard: Its number.
    """
    try:
        finished = _open(line).run(shard)
    except Exception as error:
        # Not raised: Ray would need to unpickle it, and wraps it.
        return describe_error(error)
    counts = None if finished.counts is None else finished.counts.to_plain()
    return {"shard": shard, "state": finished.state, "counts": counts}


@lru_cache(maxsize=1)
def _open(line: str) -> "Unit":
    """Loads the model once in each worker."""
    import logging

    import torch

    from bcdm.archive.unit import open_unit

    logging.getLogger("bcdm").setLevel(logging.ERROR)
    job = Job.decode(line)
    torch.set_num_threads(job.threads)
    head = read_head(open_place(job.out))
    if head is None:
        raise InputError(f"{job.out} is no archive, seen from a worker: is the disk shared?")
    return open_unit(job, head)


def _count_gpus(job: Job) -> int:
    """How many a task takes for itself."""
    return int(job.device.startswith("cuda"))


def _check_gpus(job: Job, found: Mapping[str, float]) -> None:
    """Refuses what would wait for ever.

    >>> _check_gpus(Job("in", "out", "model", device="cuda"), {"CPU": 2, "GPU": 1})
    """
    if _count_gpus(job) > found.get("GPU", 0):
        raise InputError(
            f"the cluster of Ray has no {job.device}: choose cpu, or add nodes with GPUs"
        )


def _schedule(job: Job, queue: Queue, workers: int | None, tally: Tally) -> None:
    import ray
    from ray.exceptions import RayError

    _check_gpus(job, ray.cluster_resources())
    # A task that dies is put back by us, so that it is counted. One that asks for no GPU sees none.
    task = ray.remote(num_cpus=job.threads, num_gpus=_count_gpus(job), max_retries=0)(do_shard)
    line, begun = job.encode(), dict[Any, int]()
    while begun or not queue.is_empty:
        most = workers or 2 * int(ray.cluster_resources().get("CPU", 1) // job.threads)
        while len(begun) < max(1, most) and (shard := queue.take()) is not None:
            begun[task.remote(line, shard)] = shard
        tally.workers = len(begun)
        if not begun:
            time.sleep(_LISTEN_SECONDS)  # another run has what is left
            continue
        ready, rest = ray.wait([*begun], timeout=_LISTEN_SECONDS)
        if rest:
            # All that are finished by now: one a turn would be slow with thousands of workers.
            ready += ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        for reference in ready:
            shard = begun.pop(reference)
            try:
                answer = ray.get(reference)
            except RayError as error:
                tally.deaths += 1
                queue.mourn(shard, type(error).__name__)
                continue
            if "error" in answer:
                raise to_error(answer)
            queue.forgive(shard)
            if answer["counts"] is None:
                queue.put_back(shard, wait=True)
            else:
                counts = Counts.from_plain(answer["counts"])
                tally.finish(counts, new=answer["state"] == "new")
        tally.tell()
