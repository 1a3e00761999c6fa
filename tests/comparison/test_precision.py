"""The precision of a study: what is left to the machine is found out before anything is kept."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result

from bcdm import machine
from bcdm.commands import cli


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 255, (24, 16, 16), np.uint8)
    split = np.array(["train"] * 16 + ["val"] * 4 + ["test"] * 4)
    np.savez(tmp_path / "images.npz", images=pixels, split=split)
    base = {
        "name": "tiny",
        "data": {"path": "images.npz", "channels": 1},
        "operator": {"kind": "block_mean", "factor": [2, 2]},
        "noise_std": 0.05,
        "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "training": {"steps": 2, "batch": 4, "warmup": 1, "validation_images": 2},
    }
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(base))
    return tmp_path


def run(folder: Path, **more: object) -> Result:
    methods = {"ours": {"kind": "network", "network": "ours", "calls": 2}}
    study = {"base": "base.yaml", "minutes": 0.002, "networks": {"ours": []}, "methods": methods}
    study |= {"ours": "ours", "figure": ["ours"], "samples": 4, "images": 3, "few_images": 3}
    (folder / "study.yaml").write_text(yaml.safe_dump(study | more))
    arguments = ["study", str(folder / "study.yaml"), "--data", str(folder), "--device", "cpu"]
    arguments += ["--out", str(folder / "out"), "--work", str(folder / "work")]
    return CliRunner().invoke(cli, arguments)


def test_records_and_outcomes_are_of_the_precision_that_was_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look() -> tuple[object, int]:
        rows = json.loads((folder / "out/results.json").read_text())
        (said,) = {row["case"].get("precision") for row in rows if row["case"].get("calls")}
        return said, len(list((folder / "work/outcomes").iterdir()))

    monkeypatch.setattr(machine, "_read_processor", lambda: ("a processor", frozenset()))
    done = run(folder)
    assert "miss what is required" in str(done.exception), done.output
    taken, kept = look()
    assert taken == "float32"
    # To state what was taken asks for the same.
    run(folder, precision="float32")
    assert look() == ("float32", kept)
    monkeypatch.setattr(machine, "_read_processor", lambda: ("another", frozenset({"amx_bf16"})))
    run(folder, precision="auto")
    assert look() == ("bfloat16", 2 * kept)


def test_other_words_are_refused(folder: Path) -> None:
    done = run(folder, precision="float16")
    assert "precision" in str(done.exception)
    assert "'auto', 'float32' or 'bfloat16'" in str(done.exception)
