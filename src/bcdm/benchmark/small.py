"""A throwaway model of 32x32 images, and measurements for it: what archives are examined on."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import zarr

from bcdm.archive.job import Job
from bcdm.checkpoint import load, save_model
from bcdm.checkpoint.building import build_method, build_operator
from bcdm.checkpoint.calibration import store_calibration
from bcdm.checkpoint.settings import parse_config
from bcdm.measurement import Measurement
from bcdm.reconstruction.calibrating import calibrate

__all__ = ["SIZE", "SMALL", "TINY", "make_job", "make_model"]

SIZE, NOISE_STD = 32, 2.5
SMALL = {"width": 8, "multipliers": [1, 2]}
# So that an item costs little more than its card.
TINY = {
    "width": 4,
    "multipliers": [1],
    "patch": 4,
    "bottleneck_attention": False,
    "progressive_input": "none",
}


def make_model(folder: Path, network: Mapping[str, object] = SMALL) -> Path:
    """A small network that was never trained, calibrated so that it draws whole cards.

    Args:
        folder: Where it goes.
        network: Its settings.
    """
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
            "network": {"blocks": 1, "attention": [], **network},
            "parameterisation": {"prior_std": 0.3, "known_std": 3.0, "model_std": 0.03},
            "training": {"steps": 1},
        }
    )
    shape = (1, SIZE, SIZE)
    method = build_method(config, shape)
    operator = build_operator(config.operator, (SIZE, SIZE))  # type: ignore[arg-type]
    save_model(folder, config, method.network, operator, shape, {"training_images": 0})
    found = calibrate(
        load(folder),
        _draw_images(60),
        samples=11,
        calls=2,
        on="smooth images",
        report=lambda _: None,
    )
    store_calibration(folder, found)
    return folder


def make_job(
    folder: Path, name: str, model: Path, count: int, shard: int, *, calls: int = 5
) -> Job:
    """An archive to be made, and the table that it is of."""
    images = 50 * (_draw_images(count) + 1)
    y = Measurement.simulate(images, load(model).operator, NOISE_STD, seed=1).y.numpy()
    group = zarr.create_group(folder / f"{name}.zarr", zarr_format=3)
    group.create_array("kspace", data=y, chunks=(min(shard, count), *y.shape[1:]))
    group.create_array("noise_std", data=np.full(count, NOISE_STD))
    return Job(
        str(folder / f"{name}.zarr"),
        str(folder / f"{name}.archive"),
        str(model),
        samples=9,
        calls=calls,
        batch=16,
        force=True,
        shard=shard,
    )


def _draw_images(count: int) -> torch.Tensor:
    """Smooth images in [-1, 1]."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 1, 4, 4, generator=generator) * 2 - 1
    images = torch.nn.functional.interpolate(coarse, size=SIZE, mode="bicubic")
    return images.clamp(-1, 1)
