"""Quality by the kind of mask, scaled down: every kind, both models, the linear estimate."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from bcdm.assessment.summary import OVER_CONTROL
from bcdm.benchmark.masks import find_family
from bcdm.checkpoint import load
from bcdm.commands import cli
from bcdm.errors import InputError
from bcdm.methods import CONTROL


def _quicken(exam: list[object]) -> list[str]:
    """The same without samples, and without a file."""
    words = [str(a) for a in exam if str(a) != "--json" and not str(a).endswith("r.json")]
    return [*words, "--sampled", "0"]


def test_a_tiny_comparison(tmp_path: Path) -> None:
    split = np.array(["train"] * 8 + ["val"] * 4 + ["test"] * 6)
    subject = np.array([f"s{k // 2}" for k in range(len(split))])
    images = np.random.default_rng(0).integers(120, 200, (len(split), 16, 16), np.uint8)
    np.savez(tmp_path / "images.npz", images=images, split=split, subject=subject)
    member = {"kind": "k_space", "acceleration": [2, 8], "patterns": ["lines", "random_columns"]}
    config = {
        "name": "tiny",
        "data": {"path": "images.npz", "channels": 1},
        "operator": {"kind": "family", "members": [member]},
        "noise_std": [0.01, 0.1],
        "network": {"width": 8, "multipliers": [1], "blocks": 1, "attention": []},
        "training": {"steps": 1, "batch": 4, "validation_images": 2},
    }
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(config))
    model = str(tmp_path / "run/model")
    train = ["train", tmp_path / "tiny.yaml", "--data", tmp_path, "--out", tmp_path / "run"]
    exam: list[object] = [
        "benchmark",
        "patterns",
        model,
        "--rival",
        model,
        "--data",
        tmp_path,
        "--limit",
        3,
    ]
    exam += ["--sampled", 2, "--samples", 2, "--calls", 1]
    exam += ["--work", tmp_path / "work", "--json", tmp_path / "r.json"]
    for arguments in (train, exam):
        done = CliRunner().invoke(cli, [str(a) for a in arguments])
        assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "r.json").read_text())
    kinds = {row["case"]["masks"] for row in rows}
    assert {"poisson 8x", "random_columns 20x", "random_columns 4x without a middle"} <= kinds
    for kind in kinds:
        own = [row for row in rows if row["case"]["masks"] == kind]
        assert {row["case"].get("model") for row in own} == {None, model, CONTROL}
        # The rival is the model itself: no margin, whatever the numbers are.
        margins = [row["value"] for row in own if row["name"] == "margin over the rival"]
        assert margins == [0, 0, 0]
        for judged in (model, CONTROL):
            measured = [row["case"] for row in own if row["name"] in ("PSNR", "CRPS")]
            counts = {k["estimate"]: k["images"] for k in measured if k["model"] == judged}
            assert counts == {"one-call mean": 3, "sample mean": 2, "samples": 2}
        crps = {row["case"]["model"]: row["value"] for row in own if row["name"] == "CRPS"}
        (over, _) = (row["value"] for row in own if row["name"] == OVER_CONTROL)
        assert over == pytest.approx(crps[model] / crps[CONTROL])
    quick = CliRunner().invoke(cli, _quicken(exam))
    assert quick.exit_code == 0, quick.output
    assert "one-call mean" in quick.output
    assert "sample mean" not in quick.output
    table = (tmp_path / "r.md").read_text()
    assert f"| poisson 8x | {CONTROL} |" in table


def test_a_model_of_coils_is_refused() -> None:
    with pytest.raises(InputError, match="brain-mri is for coils"):
        find_family(load("brain-mri"))
