"""A model folder that takes no time to make."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bcdm.checkpoint import save_model
from bcdm.checkpoint.building import build_method, build_operator
from bcdm.checkpoint.settings import parse_config

SINGLE = {"kind": "fourier_mask", "acceleration": 4}
FAMILY = {"kind": "family", "members": [{"kind": "holes"}]}


def write_model(
    folder: Path, factor: float = 0.01, family: bool = False, **training: object
) -> None:
    config = parse_config(
        {
            "name": "tiny",
            "data": {"path": "images", "channels": 1, "source_range": [0, 255]},
            "operator": FAMILY if family else SINGLE,
            "noise_std": 0.05,
            "network": {"width": 8, "multipliers": [1, 2], "attention": []},
            "training": {"steps": 1, **training},
        }
    )
    method = build_method(config, (1, 16, 16))
    with torch.no_grad():
        for parameter in method.network.parameters():
            parameter += factor
    operator = None if family else build_operator(config.operator, (16, 16))
    save_model(folder, config, method.network, operator, (1, 16, 16), {"training_images": 3})


@pytest.fixture
def tiny_model() -> Callable[..., None]:
    """Writes an untrained model into a folder; settings of its training may be given."""
    return write_model
