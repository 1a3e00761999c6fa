"""A model of a family beside a rival and a specialist, tiny: paired margins, and nothing twice."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result

from bcdm.commands import cli
from bcdm.methods import CONTROL

OPERATOR = "{kind: centre_box, box: [4, 4]}"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("family")
    images = np.random.default_rng(0).integers(0, 255, (30, 16, 16), np.uint8)
    split = np.array(["train"] * 16 + ["val"] * 4 + ["test"] * 10)
    np.savez(tmp_path / "images.npz", images=images, split=split)
    base = {
        "name": "family",
        "data": {"path": "images.npz", "channels": 1},
        "operator": {"kind": "family", "members": [{"kind": "holes"}]},
        "noise_std": [0.01, 0.1],
        "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "training": {"steps": 2, "batch": 4, "validation_images": 2},
    }
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(base))
    changes = {
        "family": [],
        "rival": ["parameterisation={statistic: dual, output: denoised}"],
        "special": [f"operator={OPERATOR}", "noise_std=0.05"],
    }
    for name, sets in changes.items():
        options = [part for s in [*sets, f"name={name}"] for part in ("--set", s)]
        out = tmp_path / name
        done = run("train", tmp_path / "base.yaml", "--data", tmp_path, "--out", out, *options)
        assert done.exit_code == 0, done.output
    comparison = {
        "model": str(tmp_path / "family/model"),
        "rival": str(tmp_path / "rival/model"),
        "cases": {
            "box": {"operator": OPERATOR, "noise_std": [0.02, 0.05], "specialist_noise": 0.05,
                    "specialist": str(tmp_path / "special/model")},
        },
        "foreign": {
            "k-space": {"operator": "{kind: fourier_mask, acceleration: 4}", "noise_std": 0.05},
            "noise": {"operator": OPERATOR, "noise_std": 0.5},
        },
        "draws": 50,
        "options": {"limit": 3, "samples": 20, "calls": 2},
    }  # fmt: skip
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(comparison))
    return tmp_path


def test_every_case_is_paired(folder: Path) -> None:
    arguments = ("benchmark", "family", folder / "cases.yaml", "--data", folder,
                 "--work", folder / "work", "--json", folder / "r.json")  # fmt: skip
    done = run(*arguments)
    assert done.exit_code == 0 or "miss what is required" in str(done.exception), done.output
    rows = json.loads((folder / "r.json").read_text())
    names = [row["name"] for row in rows]
    assert names.count("margin over the rival, operators never drawn") == 2
    assert names.count("margin over the rival") == 4
    warned = [row["value"] for row in rows if row["name"] == "foreign problem warned about"]
    assert warned == [1, 1]
    (alarms,) = [row["value"] for row in rows if row["name"].startswith("false alarms")]
    assert alarms <= 0.1
    assert names.count("PSNR behind the specialist") == 1
    assert names.count("distance of 90 % coverage from .9") == 2
    assert None not in [row["value"] for row in rows if "coverage from" in row["name"]]
    assert len(list((folder / "work").glob("*.npz"))) == 7
    page = (folder / "r.md").read_text()
    assert page.splitlines()[0].startswith("| case | noise_std | model | CRPS | CRPS over the")
    assert page.count("| box |") == 7
    controls = [line for line in page.splitlines() if CONTROL in line]
    assert len(controls) == 2
    assert all(" | 1.00 | " in line for line in controls)
    assert "margin over the rival, operators never drawn" in page
    before = [path.stat().st_mtime_ns for path in sorted((folder / "work").glob("*.npz"))]
    run(*arguments)
    assert json.loads((folder / "r.json").read_text()) == rows
    after = [path.stat().st_mtime_ns for path in sorted((folder / "work").glob("*.npz"))]
    assert before == after


def test_levels_that_samples_do_not_resolve_are_not_required(folder: Path) -> None:
    settings = yaml.safe_load((folder / "cases.yaml").read_text())
    settings["options"]["samples"] = 3
    (folder / "few.yaml").write_text(yaml.safe_dump(settings))
    run("benchmark", "family", folder / "few.yaml", "--data", folder, "--work", folder / "few",
        "--json", folder / "few.json")  # fmt: skip
    rows = json.loads((folder / "few.json").read_text())
    assert "distance of 90 % coverage from .9" not in [row["name"] for row in rows]
