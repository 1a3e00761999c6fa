"""Validation measures and shows images in their own range of values."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bcdm.checkpoint.settings import parse_config
from bcdm.data import ArrayFile
from bcdm.training.train import Processes, Trainer


def train(folder: Path, images: Path, value_range: tuple[float, float]) -> float:
    """One step without effect, and the PSNR of its validation."""
    scale = value_range[1] - value_range[0]
    config = parse_config({
        "name": "tiny",
        "data": {"path": str(images), "channels": 1, "value_range": value_range},
        "operator": {"kind": "identity"},
        "noise_std": 0.02 * scale,
        "parameterisation": {"prior_std": 1000.0 * scale},
        "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "training": {"steps": 1, "batch": 2, "learning_rate": 1e-30, "validation_images": 4},
    })  # fmt: skip
    source = ArrayFile(images)
    Trainer(config, source, source, folder, Processes()).run()
    rows = [json.loads(row) for row in (folder / "log.jsonl").read_text().splitlines()]
    return next(row["psnr"] for row in rows if "psnr" in row)


@pytest.mark.parametrize("value_range", [(-1.0, 1.0), (0.0, 1.0), (0.0, 255.0)])
def test_validation_takes_the_range_of_the_settings(
    tmp_path: Path, value_range: tuple[float, float]
) -> None:
    """An untrained network under a wide prior leaves noise of a fiftieth of the range."""
    stack = np.random.default_rng(0).integers(0, 255, (4, 16, 16), np.uint8)
    np.save(tmp_path / "images.npy", stack)
    psnr = train(tmp_path / "run", tmp_path / "images.npy", value_range)
    assert psnr == pytest.approx(-20 * math.log10(0.02), abs=0.5)
    shown = np.asarray(Image.open(tmp_path / "run/validation.png"))
    np.testing.assert_array_equal(shown[:16], np.concatenate(list(stack), -1))
