"""The trust card measured, tiny: every defect is judged once, and nothing twice."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner, Result

from bcdm.benchmark.defects import list_cases
from bcdm.checkpoint import load
from bcdm.checkpoint.calibration import Calibration, store_calibration
from bcdm.checkpoint.usual import Usual
from bcdm.commands import cli


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments])


def draw_smooth(count: int) -> np.ndarray:
    coarse = torch.rand(count, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    images = torch.nn.functional.interpolate(coarse, size=16, mode="bicubic")[:, 0]
    return (255 * images.clamp(0, 1)).byte().numpy()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("trust")
    split = np.array(["train"] * 16 + ["val"] * 60 + ["test"] * 12)
    subject = np.array([f"s{k // 2}" for k in range(len(split))])
    np.savez(root / "images.npz", images=draw_smooth(len(split)), split=split, subject=subject)
    faces = np.random.default_rng(0).integers(0, 255, (6, 16, 16, 3), np.uint8)
    (root / "faces_public_domain").mkdir()
    np.savez(root / "faces_public_domain/faces64.npz", images=faces, split=np.array(["test"] * 6))
    config = {
        "name": "tiny",
        "data": {"path": "images.npz", "channels": 1},
        "operator": {"kind": "fourier_mask", "acceleration": 2, "centre": 0.2},
        "noise_std": 0.05,
        "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "parameterisation": {"prior_std": 0.3, "known_std": 3.0, "model_std": 0.03},
        "training": {"steps": 2, "batch": 4, "validation_images": 2},
    }
    (root / "tiny.yaml").write_text(yaml.safe_dump(config))
    done = run("train", root / "tiny.yaml", "--data", root, "--out", root / "run")
    assert done.exit_code == 0, done.output
    done = run("calibrate", root / "run/model", "--data", root, "--samples", 11, "--calls", 2,
               "--intervals", 10)  # fmt: skip
    assert done.exit_code == 0, done.output
    return root


def test_every_defect_is_judged(folder: Path) -> None:
    arguments = ("benchmark", "trust", folder / "run/model", "--data", folder, "--limit", 4,
                 "--intervals", 3, "--calls", 2, "--work", folder / "work",
                 "--json", folder / "r.json")  # fmt: skip
    done = run(*arguments)
    assert done.exit_code == 0 or "miss what is required" in str(done.exception), done.output
    rows = json.loads((folder / "r.json").read_text())
    rates = {row["case"]["wrong"]: row["value"] for row in rows if "wrong" in row["case"]}
    assert len([row for row in rows if row["name"] == "false alarms"]) == 2
    assert rates["noise is twice what is stated"] == rates["faces"] == 1
    # No image of another contrast is there, so none are counted together.
    assert "another contrast, all sets together" not in rates
    exact = next(row for row in rows if row["case"].get("of") == "samples of an exact posterior")
    assert exact["holds"]
    names = [row["name"] for row in rows]
    assert names.count("coverage") == 2 * names.count("distance of coverage from its level") == 8
    inside = [row for row in rows if row["case"].get("pixels") == "object"]
    assert [row["name"] for row in inside].count("coverage") == 4
    parts = sorted((folder / "work").glob("*.npz"))
    before = [path.stat().st_mtime_ns for path in parts]
    run(*arguments)
    assert json.loads((folder / "r.json").read_text()) == rows
    assert [path.stat().st_mtime_ns for path in parts] == before


def test_scales_that_are_taken_are_compared_with_such(folder: Path) -> None:
    """By stored scores: only what right measurements of that kind are is changed."""
    model = load(folder / "run/model")
    taken = {case.name for case in list_cases(model, folder, 4, 0) if case.scale_taken}
    assert taken == {"nothing, scale taken from the data", "faces"}
    calibration = Calibration.of(model)
    assert calibration is not None
    assert calibration.taken is not None
    wide = Usual({"residual": [-90.0, 0.0, 90.0]})
    tight = Usual({"residual": [-99.0, -98.0, -97.0]})
    found = []
    for usual in (wide, tight):
        store_calibration(folder / "run/model", replace(calibration, usual=wide, taken=usual))
        run("benchmark", "trust", folder / "run/model", "--data", folder, "--limit", 4,
            "--intervals", 3, "--calls", 2, "--work", folder / "other",
            "--json", folder / "other.json")  # fmt: skip
        rows = json.loads((folder / "other.json").read_text())
        found.append({row["case"]["wrong"]: row["value"] for row in rows if "wrong" in row["case"]})
    store_calibration(folder / "run/model", calibration)
    changed = {name for name, rate in found[0].items() if rate != found[1][name]}
    # The untrained network's own misfit is red in some of either.
    assert changed == taken
    assert [found[1][name] for name in taken] == [1, 1]


def test_a_defect_is_what_it_says(folder: Path) -> None:
    """What is told of the measurement is right but for one thing."""
    model = load(folder / "run/model")
    made = {}
    for case in list_cases(model, folder, 4, 0):
        batches = case.make()
        assert [k for rows, _ in batches for k in rows] == list(range(len(case.subjects)))
        made[case.name] = batches[0][1]
    right = made["noise is twice what is stated"]
    mask = right.data_mask
    assert mask is not None
    for name, measured in made.items():
        assert bool((measured.y[:, :, ~mask] == 0).all()), name
        assert measured.operator is model.operator
    clean = model.operator.forward(
        2 * torch.from_numpy(draw_smooth(88)[76:]).float()[[0, 4, 7, 11], None] / 255 - 1
    )
    away = (right.y - clean)[:, :, mask].abs().square().mean() / 2
    assert float(away) ** 0.5 == pytest.approx(0.1, rel=0.1)
    spikes = made["a spike in k-space: stripes of 5.0% of the range"]
    off = (spikes.y - clean).abs() > 0.5
    assert off.flatten(1).sum(1).tolist() == [1, 1, 1, 1]
    # Stripes of 5 % of a range of 2, spread over 16 x 16 pixels by a unitary transform.
    size = (spikes.y - clean).abs()[off]
    assert size.numpy() == pytest.approx(0.05 * 2 * 16, abs=0.3)


def test_widths_of_regions_are_fitted_alone(folder: Path, tmp_path: Path) -> None:
    """All else stays as it is, and what was said of it."""
    model = Path(shutil.copytree(folder / "run/model", tmp_path / "model"))
    before = Calibration.of(load(model))
    again = ("calibrate", model, "--only-regions", "--data", folder, "--samples", 9, "--calls", 2)
    done = run(*again, "--intervals", 8)
    assert done.exit_code == 0, done.output
    after = Calibration.of(load(model))
    assert before is not None
    assert after is not None
    assert after.regions != before.regions
    old, new = (
        {k: v for k, v in one.to_plain().items() if k not in ("regions", "on")}
        for one in (before, after)
    )
    assert old == new
    said = "; contrasts of regions on 8 validation images, seed 0"
    assert after.on == before.on + said
    # Once more does not pile up words.
    assert run(*again, "--intervals", 8).exit_code == 0
    last = Calibration.of(load(model))
    assert last is not None
    assert last.to_plain() == after.to_plain()
    both = run(*again, "--only-fallback")
    assert "one at a time" in str(both.exception)
    assert "one at a time" in str(run(*again, "--only-family").exception)
    assert "leave out --keep" in str(run(*again, "--keep-looks").exception)
    assert "give more --intervals" in str(run(*again, "--intervals", 1).exception)
    never = run("calibrate", model, "--only-fallback", "--data", folder, "--samples", 9)
    assert "Nor is it a prior" in str(never.exception)
