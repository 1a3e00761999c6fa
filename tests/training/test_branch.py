"""Longer runs that go on from where a shorter one's rate began to fall, compared to the bit."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner, Result
from safetensors.torch import load_file

from bcdm.checkpoint.settings import parse_config
from bcdm.commands.entry import cli
from bcdm.data import ArrayFile
from bcdm.training.train import Processes, Trainer

SHORT, LONG = 8, 20


@pytest.fixture
def settings(tmp_path: Path) -> dict:
    images = np.random.default_rng(0).integers(0, 255, (24, 16, 16), np.uint8)
    labels = np.array(["train"] * 20 + ["val"] * 4)
    np.savez(tmp_path / "images.npz", images=images, split=labels)
    return {
        "name": "tiny",
        "data": {"path": str(tmp_path / "images.npz"), "channels": 1, "flip": True},
        "operator": {"kind": "fourier_mask", "acceleration": 4},
        "noise_std": 0.05,
        "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "training": {
            "steps": SHORT, "batch": 4, "warmup": 2, "decay": 0.25, "log_every": 1,
            "validate_every": 100, "validation_images": 2, "checkpoint_every": 3,
        },
    }  # fmt: skip


def train(settings: dict, folder: Path, *more: str) -> Result:
    path = folder.parent / "run.yaml"
    path.write_text(yaml.safe_dump(settings))
    return CliRunner().invoke(cli, ["train", str(path), "--out", str(folder), *more])


def test_a_branch_ends_as_a_run_of_its_own_would(settings, tmp_path: Path) -> None:
    assert train(settings, tmp_path / "short").exit_code == 0
    longer = settings | {"training": settings["training"] | {"steps": LONG}}
    assert train(longer, tmp_path / "whole").exit_code == 0
    # Left by one that was killed while it copied the other's state.
    (tmp_path / "branch/checkpoints/step-000000006.partial").mkdir(parents=True)
    branched = train(longer, tmp_path / "branch", "--branch", str(tmp_path / "short"))
    assert branched.exit_code == 0, branched.output
    whole, branch = (
        load_file(tmp_path / name / "model/model.safetensors") for name in ("whole", "branch")
    )
    assert all(torch.equal(whole[name], branch[name]) for name in whole)
    logs = [(tmp_path / name / "log.jsonl").read_text() for name in ("whole", "branch")]
    assert [json.loads(row)["step"] for row in logs[0].splitlines()] == [*range(1, LONG + 1), LONG]
    assert logs[0] == logs[1]
    # It trained the rest only: the state of its own step 3 was never written.
    assert "step 7/20" in branched.output
    assert "step 6/20" not in branched.output
    # From it a longer one can go on again.
    assert [p.name for p in (tmp_path / "branch/branch").iterdir()] == ["step-000000015"]


def test_the_rate_is_constant_and_then_falls_to_zero(settings, tmp_path: Path) -> None:
    settings["training"] |= {"steps": 10, "decay": 0.4}
    images = ArrayFile(tmp_path / "images.npz", "images")
    trainer = Trainer(parse_config(settings), images, None, tmp_path, Processes())
    rates = [trainer._rate(step) for step in range(11)]
    assert rates == pytest.approx([0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0])


def test_another_run_is_no_start(settings, tmp_path: Path) -> None:
    assert train(settings, tmp_path / "short").exit_code == 0
    training = settings["training"]

    def refuse(changes: dict, source: str = "short") -> str:
        changed = settings | {"training": training | {"steps": LONG} | changes}
        done = train(changed, tmp_path / "new", "--branch", str(tmp_path / source))
        assert done.exit_code == 1, done.output
        assert not (tmp_path / "new/checkpoints").exists()
        return str(done.exception)

    assert "training.learning_rate was 0.0002" in refuse({"learning_rate": 0.001})
    assert "raise training.steps" in refuse({"steps": 7})
    (tmp_path / "empty").mkdir()
    assert "both runs need a share as training.decay" in refuse({}, "empty")
    assert "both runs need a share as training.decay" in refuse({"decay": True})
    np.savez(
        tmp_path / "images.npz",
        images=np.zeros((30, 16, 16), np.uint8),
        split=np.array(["train"] * 25 + ["val"] * 5),
    )
    assert "other images" in refuse({})
