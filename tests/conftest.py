"""A tiny model that was never trained: its arithmetic is all that these tests are about."""

from pathlib import Path

import pytest
import torch

from bcdm.checkpoint import Model, load, save_model
from bcdm.checkpoint.building import build_method, build_operator
from bcdm.checkpoint.calibration import store_calibration
from bcdm.checkpoint.settings import parse_config
from bcdm.reconstruction.calibrating import calibrate


def smooth_images(count: int, size: int = 16) -> torch.Tensor:
    """Random smooth images in [-1, 1], (count, 1, size, size)."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 1, 4, 4, generator=generator) * 2 - 1
    images: torch.Tensor = torch.nn.functional.interpolate(coarse, size=size, mode="bicubic")
    return images.clamp(-1, 1)


def make_model(folder: Path, operator: dict[str, object]) -> Path:
    config = parse_config({
        "name": folder.name,
        "data": {"path": "nothing", "size": [16, 16], "channels": 1, "source_range": [0, 255]},
        "operator": operator,
        "noise_std": 0.05,
        "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "parameterisation": {"prior_std": 0.3, "known_std": 3.0, "model_std": 0.03},
        "training": {"steps": 1},
    })  # fmt: skip
    shape = (1, 16, 16)
    method = build_method(config, shape)
    built = build_operator(config.operator, (16, 16))
    save_model(folder, config, method.network, built, shape, {"training_images": 0})
    found = calibrate(
        load(folder), smooth_images(60), samples=11, calls=3, on="smooth images", report=print
    )
    store_calibration(folder, found)
    return folder


@pytest.fixture(scope="session")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    operator = {"kind": "centre_box", "box": [4, 4]}
    return make_model(tmp_path_factory.mktemp("models") / "masked", operator)


@pytest.fixture(scope="session")
def scanner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    operator = {"kind": "fourier_mask", "acceleration": 2, "centre": 0.2}
    return make_model(tmp_path_factory.mktemp("models") / "scanner", operator)


@pytest.fixture(scope="session")
def coarse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    operator = {"kind": "block_mean", "factor": [2, 2]}
    return make_model(tmp_path_factory.mktemp("models") / "coarse", operator)


@pytest.fixture
def masked_model(masked: Path) -> Model:
    return load(masked)


@pytest.fixture(scope="session")
def images() -> torch.Tensor:
    return smooth_images(3)
