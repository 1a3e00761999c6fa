"""A study from a file of settings to records and learning curves, and what a restart keeps."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from bcdm.cli import cli


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    images = np.random.default_rng(0).integers(0, 255, (30, 16, 16), np.uint8)
    split = np.array(["train"] * 16 + ["val"] * 4 + ["test"] * 10)
    np.savez(tmp_path / "images.npz", images=images, split=split)
    family = {"kind": "family", "members": [{"kind": "holes"}, {"kind": "blocks", "factors": [2]}]}
    base = {
        "name": "tiny",
        "data": {"path": "images.npz", "channels": 1},
        "operator": family,
        "noise_std": [0.01, 0.1],
        "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "training": {"steps": 2, "batch": 4, "validation_images": 2},
    }
    study = {
        "base": "base.yaml",
        "minutes": 0.002,
        "variants": {
            "plain": {"seeds": [0, 1]},
            "dual": {"set": ["parameterisation.statistic=dual", "parameterisation.output=denoised",
                             "parameterisation.probes=true"]},
        },
        "evaluations": [{"name": "box", "options": {
            "operator": "{kind: centre_box, box: [4, 4]}", "noise_std": 0.05, "limit": 3,
            "samples": 3, "calls": 2}}],
    }  # fmt: skip
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(base))
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    return tmp_path


def test_variants_are_trained_and_evaluated_alike(folder: Path) -> None:
    arguments = ["study", str(folder / "study.yaml"), "--data", str(folder)]
    arguments += ["--out", str(folder / "out"), "--json", str(folder / "r.json")]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    rows = json.loads((folder / "r.json").read_text())
    found = {(row["case"]["variant"], row["case"]["training seed"]) for row in rows}
    assert found == {("plain", 0), ("plain", 1), ("dual", 0)}
    assert {row["case"]["evaluation"] for row in rows} == {"box"}
    assert (folder / "out/curves.png").stat().st_size > 1000
    # Nothing is done twice.
    before = (folder / "out/plain-0/model/model.safetensors").stat().st_mtime_ns
    again = CliRunner().invoke(cli, [*arguments, "--only", "plain"])
    assert again.exit_code == 0, again.output
    assert (folder / "out/plain-0/model/model.safetensors").stat().st_mtime_ns == before
    kept = json.loads((folder / "r.json").read_text())
    plain = [row for row in rows if row["case"]["variant"] == "plain"]
    assert [r["value"] for r in kept] == [r["value"] for r in plain]


def test_a_family_model_asks_for_an_operator(folder: Path) -> None:
    arguments = ["--data", str(folder), "--out", str(folder / "run")]
    done = CliRunner().invoke(cli, ["train", str(folder / "base.yaml"), *arguments])
    assert done.exit_code == 0, done.output
    card = (folder / "run/model/README.md").read_text()
    assert "kind holes" in card
    assert "kind blocks" in card
    done = CliRunner().invoke(
        cli, ["evaluate", str(folder / "run/model"), "--data", str(folder), "--noise-std", "0.1"]
    )
    assert "serves a family" in str(done.exception)


def test_results_of_other_settings_are_refused(folder: Path) -> None:
    arguments = ["study", str(folder / "study.yaml"), "--data", str(folder), "--only", "dual"]
    arguments += ["--out", str(folder / "out")]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    study = yaml.safe_load((folder / "study.yaml").read_text())
    study["evaluations"][0]["options"]["calls"] = 3
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    assert "other settings" in str(CliRunner().invoke(cli, arguments).exception)
    study["evaluations"][0]["options"]["call"] = 3
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    assert "is no study" in str(CliRunner().invoke(cli, arguments).exception)


def test_unknown_variants_and_settings_are_refused(folder: Path) -> None:
    arguments = ["study", str(folder / "study.yaml"), "--out", str(folder / "out")]
    done = CliRunner().invoke(cli, [*arguments, "--only", "none"])
    assert "no variant" in str(done.exception)
    (folder / "study.yaml").write_text("{base: x, minute: 3}")
    assert "is no study" in str(CliRunner().invoke(cli, arguments).exception)
