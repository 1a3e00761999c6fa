"""Tiny models, hardly trained or not at all: their arithmetic is all that these tests are about."""

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tests.pages import open_browser

from bcdm.checkpoint import Model, load, save_model
from bcdm.checkpoint.building import build_method, build_operator
from bcdm.checkpoint.calibration import store_calibration
from bcdm.checkpoint.settings import parse_config
from bcdm.data.phase import draw_phase
from bcdm.problems.familiarity import UnfamiliarWarning
from bcdm.reconstruction.calibrating import calibrate
from bcdm.training.run import train


@pytest.fixture(autouse=True)
def logger() -> Iterator[None]:
    """The package's logger is after each test what it was before: servers and workers set it."""
    ours = logging.getLogger("bcdm")
    handlers, level, propagate = ours.handlers[:], ours.level, ours.propagate
    yield
    ours.handlers, ours.propagate = handlers, propagate
    ours.setLevel(level)


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


def make_discs(count: int, side: int = 16) -> torch.Tensor:
    """Smooth complex images in a disc, black around it, (count, 1, side, side)."""
    magnitudes = (smooth_images(count, side) + 1) / 2
    place = torch.linspace(-1, 1, side)
    inside = place[:, None] ** 2 + place**2 < 0.7
    phases = [draw_phase((side, side), rng=np.random.default_rng(k)) for k in range(count)]
    return torch.polar(magnitudes * inside, torch.stack(phases)[:, None])


@pytest.fixture(scope="session")
def receivers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of complex images of any size and several coils, whose network gives zero."""
    folder = tmp_path_factory.mktemp("models") / "receivers"
    masks = {
        "kind": "k_space",
        "acceleration": [1.2, 4.0],
        "patterns": ["equispaced_columns", "poisson"],
    }
    config = parse_config(
        {
            "name": "receivers",
            "data": {
                "path": "nothing",
                "size": [16, 16],
                "channels": 1,
                "value_range": [0, 1],
                "source_range": [0, 255],
                "phase": True,
            },
            "operator": {
                "kind": "family",
                "nothing": 0.1,
                "members": [{"kind": "receivers", "masks": masks, "coils": [1, 4]}],
            },
            "noise_std": [0.002, 0.3],
            "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
            "parameterisation": {"prior_std": 0.3},
            "training": {"steps": 1},
            "scope": {"sides": [12, 40], "spacing": [0.5, 3.0]},
        }
    )
    shape = (1, 16, 16)
    save_model(folder, config, build_method(config, shape).network, None, shape, {})
    with warnings.catch_warnings():
        # One in a hundred is an alarm.
        warnings.simplefilter("ignore", UnfamiliarWarning)
        found = calibrate(
            load(folder), make_discs(42), samples=9, calls=3, intervals=6, on="discs", report=print
        )
    store_calibration(folder, found)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of holes and its images, in one folder."""
    folder = tmp_path_factory.mktemp("family")
    rng = np.random.default_rng(0)
    bright = rng.uniform(60, 200, (120, 1, 1)) + rng.normal(0, 20, (120, 12, 12))
    labels = np.array(["train"] * 60 + ["val"] * 50 + ["test"] * 10)
    np.savez(folder / "images.npz", images=bright.clip(0, 255).astype(np.uint8), split=labels)
    settings = {
        "name": "tiny",
        "data": {"path": "images.npz", "channels": 1, "flip": True},
        "operator": {"kind": "family", "members": [{"kind": "holes", "hidden": [0.1, 0.4]}]},
        "noise_std": [0.01, 0.2],
        "network": {"width": 8, "multipliers": [1], "blocks": 1, "attention": [],
                    "progressive_input": "none", "progressive_output": "none"},
        "parameterisation": {"prior_std": 0.4, "probes": True},
        "training": {"steps": 2, "batch": 4, "warmup": 1, "learning_rate": 0.01},
    }  # fmt: skip
    (folder / "run.yaml").write_text(yaml.safe_dump(settings))
    train(folder / "run.yaml", data=folder, out=folder / "run", report=lambda _: None)
    return folder
