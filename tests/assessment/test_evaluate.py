"""Evaluation from a model folder and an image file to records, figure and card."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner

from bcdm.assessment.statistics import bootstrap
from bcdm.commands import cli
from bcdm.methods import CONTROL


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (30, 16, 16), np.uint8)
    split = np.array(["train"] * 16 + ["val"] * 4 + ["test"] * 10)
    subject = np.array([f"s{i // 2}" for i in range(30)])
    np.savez(tmp_path / "images.npz", images=images, split=split, subject=subject)
    settings = {
        "name": "tiny",
        "data": {"path": "images.npz", "channels": 1},
        "operator": {"kind": "centre_box", "box": [4, 4]},
        "noise_std": 0.05,
        "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "training": {"steps": 2, "batch": 4, "validation_images": 2},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(settings))
    arguments = ["train", str(tmp_path / "run.yaml"), "--data", str(tmp_path)]
    plan = CliRunner().invoke(cli, [*arguments, "--out", str(tmp_path / "plan"), "--dry-run"])
    assert plan.exit_code == 0, plan.output
    assert "M parameters" in plan.output
    assert not (tmp_path / "plan").exists()
    done = CliRunner().invoke(cli, [*arguments, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    return tmp_path


def test_evaluate_writes_everything(run_folder: Path) -> None:
    model, out = run_folder / "run/model", run_folder / "r.json"
    done = CliRunner().invoke(cli, [
        "evaluate", str(model), "--data", str(run_folder), "--limit", "5", "--samples", "20",
        "--calls", "3", "--batch", "4", "--json", str(out), "--card",
        "--figure", str(run_folder / "f.png"),
    ])  # fmt: skip
    assert done.exit_code == 0, done.output
    rows = json.loads(out.read_text())
    assert [row["name"] for row in rows[:3]] == ["CRPS", "CRPS", "CRPS over the control's"]
    crps, over = [row["value"] for row in rows[:2]], rows[2]
    assert over["value"] == pytest.approx(crps[0] / crps[1])
    assert over["interval"][0] <= over["value"] <= over["interval"][1]
    control = [row for row in rows if row["case"].get("method") == CONTROL]
    for row in control:
        before = rows[rows.index(row) - 1]
        assert (before["name"], before["case"].get("estimate")) == (
            row["name"],
            row["case"].get("estimate"),
        )
    beside = {row["name"] for row in control}
    told = {row["name"] for row in rows if row["name"].startswith(("coverage", "chi", "TARP"))}
    assert told <= beside
    says = [row["case"]["says"] for row in rows if "says" in row["case"]]
    assert len(says) == 6
    # A line a number has the head of what is said; records and card have the whole.
    shown = done.stdout.splitlines()
    own = [row for row in rows if "says" in row["case"] and "method" not in row["case"]]
    assert len(own) == 3
    for row in own:
        (line,) = [line for line in shown if line.startswith(row["name"])]
        head = line.split("  ")[-1]
        assert len(head) > 20
        assert row["case"]["says"].startswith(head)
    assert max(map(len, shown)) <= 100
    assert not any(" none " in line for line in shown)
    mine = [row for row in rows if "method" not in row["case"]]
    named = {(row["name"], row["case"].get("estimate")): row for row in mine}
    for estimate in ("zero-filled", "Wiener", "one-call mean", "sample mean", "single sample"):
        row = named["PSNR", estimate]
        assert row["case"]["data range"] == 2.0
        assert row["case"]["images"] == 5
        assert row["case"].get("calls") == {"one-call mean": 1, "zero-filled": None,
                                            "Wiener": None}.get(estimate, 3)  # fmt: skip
        assert row["interval"][0] <= row["value"] <= row["interval"][1]
        assert ("SSIM", estimate) in named
    assert 0 <= named["coverage 90%", "hidden pixels"]["value"] <= 1
    assert 0 <= named["coverage 90%", "pixels of the object"]["value"] <= 1
    # 20 samples cannot resolve 95 %.
    unresolved = named["coverage 95%", "all pixels"]
    assert unresolved["value"] is None
    assert "cannot resolve" in unresolved["case"]["note"]
    gain = named["PSNR gain over zero-filled", "one-call mean"]
    assert (gain["case"]["calls"], gain["case"]["samples"]) == (1, 0)
    both = [named["PSNR", name]["value"] for name in ("one-call mean", "zero-filled")]
    assert gain["value"] == pytest.approx(both[0] - both[1], abs=1e-4)
    truth = named["chi-square per degree of freedom", "truth"]["value"]
    assert truth == pytest.approx(1, abs=0.2)
    assert ("CRPS", "samples") in named
    assert (run_folder / "f.png").read_bytes()[:4] == b"\x89PNG"
    card = (model / "README.md").read_text()
    assert "| PSNR, one-call mean |" in card
    assert f"| coverage 90%, all pixels, {CONTROL} |" in card
    assert says[0] in card


def test_requirements_can_fail(run_folder: Path) -> None:
    done = CliRunner().invoke(cli, [
        "evaluate", str(run_folder / "run/model"), "--data", str(run_folder), "--limit", "2",
        "--calls", "2", "--strict",
    ])  # fmt: skip
    assert done.exit_code == 1
    assert "MISSED" in done.output


def test_training_images_are_refused(run_folder: Path) -> None:
    done = CliRunner().invoke(cli, [
        "evaluate", str(run_folder / "run/model"), "--data", str(run_folder), "--split", "train",
    ])  # fmt: skip
    assert "mean nothing" in str(done.exception)


def test_bootstrap_resamples_subjects() -> None:
    """Ten copies of each subject's number carry no more information than one."""
    values = torch.randn(20, generator=torch.Generator().manual_seed(0)).double()
    low, high = bootstrap(values)
    copied = bootstrap(values.repeat_interleave(10), groups=[str(i // 10) for i in range(200)])
    assert copied == pytest.approx((low, high), abs=0.05)
    assert high - low == pytest.approx(2 * 1.96 * float(values.std()) / 20**0.5, rel=0.25)
    assert bootstrap([1.0, float("inf")]) is None
    assert bootstrap([1.0, 2.0], [1.0, float("nan")]) is None
    over = torch.arange(1.0, 7.0)
    assert bootstrap(2 * over, over, groups=list("abcdef")) == pytest.approx((2.0, 2.0))
    assert bootstrap(2 * over, over) == pytest.approx((2.0, 2.0))
    # Of one subject resampling would say that its number is certain.
    assert bootstrap(over, groups=["a"] * 6) is None
    assert bootstrap(over[:4]) is None


def test_calls_are_compared(run_folder: Path) -> None:
    out = run_folder / "calls.json"
    done = CliRunner().invoke(cli, [
        "benchmark", "calls", str(run_folder / "run/model"), "--data", str(run_folder), "--limit",
        "2", "--samples", "19", "--calls", "2,20,21", "--json", str(out),
    ])  # fmt: skip
    rows = json.loads(out.read_text())
    found = {row["case"].get("calls") for row in rows if row["name"] == "CRPS"}
    assert found == {0, 2, 20, 21}  # 0: the control
    changes = [row for row in rows if row["name"] == "change from many calls"]
    assert len(changes) == 2
    # An untrained network may miss the requirement; the exit code says so.
    assert (done.exit_code == 0) == all(row["holds"] for row in changes)
    (cost,) = (row for row in rows if row["name"].startswith("time of the paper's recipe"))
    assert cost["value"] > 50
