"""A precision that is left to the machine is chosen once, and kept with what it made."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from bcdm import machine
from bcdm.checkpoint.settings import RunConfig, parse_config
from bcdm.errors import InputError
from bcdm.training.run import run_settings, time_settings


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    pixels = np.random.default_rng(0).integers(0, 255, (12, 16, 16), np.uint8)
    np.savez(tmp_path / "images.npz", images=pixels, split=np.array(["train"] * 8 + ["val"] * 4))
    network = {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []}
    settings = {
        "name": "tiny",
        "data": {"path": str(tmp_path / "images.npz"), "channels": 1},
        "operator": {"kind": "block_mean", "factor": [2, 2]},
        "noise_std": 0.05,
        "network": network,
        "training": {"steps": 2, "batch": 4, "validation_images": 2, "precision": "auto"},
    }
    return parse_config(settings)


def pretend(monkeypatch: pytest.MonkeyPatch, *features: str) -> None:
    monkeypatch.setattr(machine, "_read_processor", lambda: ("a processor", frozenset(features)))


def read_precision(folder: Path) -> str:
    stored = yaml.safe_load((folder / "config.yaml").read_text())["training"]["precision"]
    if (folder / "model").exists():
        model = json.loads((folder / "model/config.json").read_text())["config"]
        assert model["training"]["precision"] == stored
    return str(stored)


def test_a_run_goes_on_in_the_precision_it_began_in(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(settings: RunConfig) -> str:
        run_settings(settings, None, tmp_path / "run", dry_run=False, report=print, device="cpu")
        return read_precision(tmp_path / "run")

    pretend(monkeypatch, "amx_bf16")
    assert run(config) == "bfloat16"
    # Another machine, where float32 would be chosen.
    pretend(monkeypatch)
    assert run(config) == "bfloat16"
    training = config.training.model_copy(update={"precision": "float32"})
    with pytest.raises(InputError, match=r"training\.precision was bfloat16"):
        run(config.model_copy(update={"training": training}))
    assert time_settings(config, None, device="cpu") > 0


def test_several_processes_take_the_same(config: RunConfig, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config.model_dump(mode="json")))
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "bcdm"]
    words += ["train", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, *words, "--device", "cpu"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    taken = machine.choose_precision("auto", torch.device("cpu"))
    assert read_precision(tmp_path / "run") == taken


def test_other_words_are_refused(config: RunConfig) -> None:
    raw = config.model_dump(mode="json")
    raw["training"]["precision"] = "float16"
    with pytest.raises(InputError, match=r"training\.precision.*'auto', 'float32' or 'bfloat16'"):
        parse_config(raw)
