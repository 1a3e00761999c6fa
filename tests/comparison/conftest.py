"""A study of two tiny networks, in files."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from tests.comparison.studies import DUAL


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 255, (30, 16, 16), np.uint8)
    split = np.array(["train"] * 16 + ["val"] * 4 + ["test"] * 10)
    np.savez(tmp_path / "images.npz", images=pixels, split=split)
    family = {"kind": "family", "members": [{"kind": "holes"}, {"kind": "blocks", "factors": [2]}]}
    base = {
        "name": "tiny",
        "data": {"path": "images.npz", "channels": 1},
        "operator": family,
        "noise_std": [0.01, 0.1],
        "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "training": {"steps": 2, "batch": 4, "validation_images": 2},
    }
    methods = {
        "plain": {"kind": "network", "network": "plain", "calls": 2},
        "dual": {"kind": "network", "network": "dual", "calls": 2, "few": True},
    }
    common = {
        "minutes": 0.002,
        "set": ["training.warmup=1"],
        "networks": {"plain": [], "never used": ["network.width=4096"]},
        "methods": methods,
        "ours": "plain",
        "beaten": ["dual"],
        "figure": ["plain", "dual"],
        "samples": 4,
        "images": 7,
        "few_images": 3,
        "noise_std": 0.05,
    }
    study = {
        "extends": "common.yaml",
        "base": "base.yaml",
        "set": ["parameterisation.prior_std=0.4"],
        "networks": {"dual": [*DUAL, "training.start_from=network:plain", "minutes=0.003"]},
        "operator": "{kind: centre_box, box: [4, 4]}",
    }
    for name, content in (("base", base), ("common", common), ("study", study)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return tmp_path
