"""A small archive of k-space: rows of one zarr group, each with its noise level."""

from pathlib import Path

import numpy as np
import torch
import zarr
from tests.conftest import smooth_images

from bcdm.archive.heads import begin
from bcdm.archive.job import Job
from bcdm.archive.markers import list_markers
from bcdm.archive.places import open_place
from bcdm.archive.store import hash_shard
from bcdm.archive.unit import Unit, open_unit
from bcdm.checkpoint import load
from bcdm.measurement import Measurement

FAST = {"samples": 9, "calls": 2, "batch": 16, "force": True}


def measure_rows(model: Path, count: int) -> np.ndarray:
    """K-space of smooth images from 0 to 100, with noise of 2.5."""
    images = 50 * (smooth_images(count) + 1)
    measured = Measurement.simulate(images, load(model).operator, 2.5, seed=1)
    return measured.y.numpy().astype(np.complex64)


def write_table(path: Path, y: np.ndarray, **others: np.ndarray) -> Path:
    group = zarr.create_group(path, zarr_format=3)
    group.create_array("kspace", data=y, chunks=(4, *y.shape[1:]))
    for name, values in {"noise_std": np.full(len(y), 2.5), **others}.items():
        group.create_array(name, data=np.asarray(values))
    return path


def open_job(job: Job) -> Unit:
    torch.set_num_threads(1)
    return open_unit(job, begin(job, print))


def find_hashes(job: Job) -> list[dict[str, str]]:
    """What the markers of an archive say of its arrays, after they were held beside them."""
    place, head = open_place(job.out), begin(job, print)
    found = []
    for marker in list_markers(place, head.shards, head.id):
        assert hash_shard(place, marker.stem, marker.hashes) == marker.hashes
        found.append(dict(marker.hashes))
    assert len(found) == head.shards
    return found
