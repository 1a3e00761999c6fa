"""Plans of runs whose images are elsewhere: counted without them, and by the right rule."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode

from bcdm.checkpoint.settings import parse_config
from bcdm.commands import cli
from bcdm.networks import Experts, NCSNpp, NCSNppConfig, UnrolledNetwork
from bcdm.training.cost import count_cost

ROOT = Path(__file__).resolve().parents[2]
PLANS = sorted(ROOT.glob("experiments/paper/*/gpu.yaml"))
TINY = NCSNppConfig(width=8, multipliers=(1, 1, 2, 2), blocks=1, attention=())


def test_every_task_has_a_plan() -> None:
    assert {path.parent.name for path in PLANS} == {"mri", "deblur", "sr", "inpaint", "denoise"}
    assert all("NEVER RUN HERE" in path.read_text() for path in PLANS)


@pytest.mark.parametrize("path", PLANS, ids=lambda p: p.parent.name)
def test_paper_size_runs_are_planned_without_data(path: Path, tmp_path: Path) -> None:
    arguments = ["train", str(path), "--dry-run", "--data", str(tmp_path)]
    done = CliRunner().invoke(cli, [*arguments, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    settings = yaml.safe_load(path.read_text())
    assert "500.0 epochs" in done.output
    assert "256x256" in done.output
    assert f"needs       {settings['data']['path']} in the data folder, which is not here" in (
        done.output
    )
    # Two networks of 7.8 M each, or one of 31 M.
    (size,) = re.findall(r"([\d.]+) M parameters", done.output)
    assert float(size) == pytest.approx(31.1 if settings["network"]["width"] == 64 else 15.6, 0.01)
    assert re.search(r"[\d.]+ GiB kept in a step", done.output)
    assert re.search(r"[\d.]+ TFLOP a step, \d+ hours in all", done.output)
    assert not (tmp_path / "run").exists()


def test_cost_is_that_of_a_step() -> None:
    """The count from a small image is what a whole one takes."""
    backbone = NCSNpp(TINY)
    with FlopCounterMode(display=False) as counter:
        backbone(torch.zeros(3, 1, 32, 32), torch.zeros(1)).sum().backward()
    once = count_cost(UnrolledNetwork(backbone, 1), (32, 32))
    assert 3 * once.operations == pytest.approx(counter.get_total_flops(), rel=0.02)
    many = count_cost(UnrolledNetwork(Experts([backbone, NCSNpp(TINY)], [0.0]), 4), (32, 64))
    assert many.operations == pytest.approx(8 * once.operations)
    assert many.activations == pytest.approx(8 * once.activations)
    saved = count_cost(UnrolledNetwork(backbone, 4, checkpointing=True), (32, 64))
    assert saved.activations == pytest.approx(2 * once.activations)
    assert many.operations < saved.operations < 1.4 * many.operations


def test_a_plan_needs_the_images_or_their_size(tmp_path: Path) -> None:
    settings = {
        "name": "a",
        "data": {"path": "images"},
        "operator": {"kind": "identity"},
        "noise_std": 0.1,
        "training": {"steps": 10},
    }
    path = tmp_path / "a.yaml"
    arguments = ["train", str(path), "--dry-run", "--data", str(tmp_path)]
    for change in ({}, {"count": 100}, {"size": [16, 16]}):
        path.write_text(yaml.safe_dump(settings | {"data": {"path": "images"} | change}))
        said = str(CliRunner().invoke(cli, arguments).exception)
        assert said.startswith("images is not in the data folder; a plan without it needs data.")
    whole = {"path": "images", "size": [16, 16], "channels": 1}
    path.write_text(yaml.safe_dump(settings | {"data": whole}))
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert "training images: not counted" in done.output


def test_settings_without_a_count_are_stored_as_before() -> None:
    """Hashes of finished runs are over their settings."""
    settings = {"name": "a", "data": {"path": "b"}, "operator": {"kind": "identity"},
                "noise_std": 0.1, "training": {"steps": 10}}  # fmt: skip
    assert "count" not in parse_config(settings).model_dump(mode="json")["data"]
    counted = parse_config(settings | {"data": {"path": "b", "count": 7}})
    assert parse_config(counted.model_dump(mode="json")) == counted


def test_a_plan_says_who_is_validated_with(tmp_path: Path) -> None:
    """With so few subjects the split by their names leaves nobody."""
    for subject in range(3):
        folder = tmp_path / "images" / f"s{subject}"
        folder.mkdir(parents=True)
        Image.fromarray(np.full((8, 8), 40 * subject, np.uint8)).save(folder / "a.png")
    settings = {
        "name": "a",
        "data": {"path": "images"},
        "operator": {"kind": "identity"},
        "noise_std": 0.1,
        "network": {"width": 8, "multipliers": [1], "blocks": 1, "attention": []},
        "training": {"steps": 1, "batch": 1},
    }
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump(settings))
    arguments = [
        "train",
        str(path),
        "--dry-run",
        "--data",
        str(tmp_path),
        "-o",
        str(tmp_path / "r"),
    ]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert re.search(
        "images: [23] of [23] subjects to train, (none|1 of 1 subjects) to validate", done.output
    )
    assert "parameters" in done.output
    assert not (tmp_path / "r").exists()
