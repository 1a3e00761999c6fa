"""The exam of lesions: places, contrasts and intervals are what they say; a tiny run."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner

from bcdm.assessment.records import Record
from bcdm.benchmark.lesions import _contrast, _list, _weigh, find_interval, place_disc
from bcdm.commands import cli
from bcdm.errors import InputError


def make_head(side: int = 64) -> torch.Tensor:
    axis = torch.arange(side) - side / 2
    return torch.where(torch.hypot(axis[:, None], axis) < 0.35 * side, 0.0, -1.0)


def test_discs_lie_inside_and_have_their_area() -> None:
    head = make_head()
    for radius in (1.5, 3.0):
        for seed in range(20):
            disc = place_disc(head, radius, np.random.default_rng(seed), -0.7)
            assert not disc[head < -0.5].any()
            assert float(disc.sum()) == pytest.approx(np.pi * radius**2, rel=0.12)
    with pytest.raises(InputError, match="no place"):
        place_disc(torch.full((64, 64), -1.0), 2.0, np.random.default_rng(0), -0.7)


def test_the_contrast_of_a_disc_on_grey_is_its_own() -> None:
    disc = place_disc(make_head(), 3.0, np.random.default_rng(0), -0.7)[None, None]
    image = 0.2 + 0.5 * (disc > 0).float()
    assert _contrast(image, _weigh(disc)) == pytest.approx(0.5, abs=1e-5)
    flat = _contrast(torch.ones(1, 1, 64, 64), _weigh(disc))
    assert flat == pytest.approx(0, abs=1e-5)


def test_intervals_cover_what_they_promise() -> None:
    values = np.random.default_rng(0).normal(size=(20, 40000))
    for level in (0.8, 0.9):
        low, high = find_interval(values[:19], level)
        covered = ((low <= values[19]) & (values[19] <= high)).mean()
        # Four standard errors of 40,000 cases.
        assert abs(covered - level) < 4 * (level * (1 - level) / 40000) ** 0.5
    with pytest.raises(InputError, match="draw more"):
        find_interval(values[:9], 0.9)


def test_records_tell_right_samples_from_wrong_ones() -> None:
    rng = np.random.default_rng(0)
    truth, healthy = -0.3 + 0.01 * rng.normal(size=400), np.zeros(400)
    light = np.array(["green"] * 100 + ["red"] * 300)

    def judge(centre: float) -> dict[str, float | None]:
        samples = centre + 0.01 * rng.normal(size=(19, 400))
        found = {"truth": truth, "healthy": healthy, "samples": samples, "light": light}
        return {row.name: row.value for row in _list(found, -0.3, {}, Record)}

    right, weak, wrong = judge(-0.3), judge(-0.1), judge(0.3)
    assert right["direction right"] == weak["direction right"] == 1
    assert wrong["direction right"] == 0
    assert right["coverage of 80 % intervals"] == pytest.approx(0.8, abs=0.08)
    assert weak["coverage of 90 % intervals"] == 0
    # The truth is the least or the greatest of 20 in a tenth of all cases.
    assert right["outside of the range of samples"] == pytest.approx(0.1, abs=0.06)
    assert weak["outside of the range of samples"] == 1
    assert right["error of the contrast over its spread"] == pytest.approx(1, abs=0.15)
    assert weak["part of the contrast in the mean"] == pytest.approx(1 / 3, abs=0.05)
    assert right["green cards"] == 0.25


def test_a_tiny_exam(tmp_path: Path) -> None:
    split = np.array(["train"] * 8 + ["val"] * 4 + ["test"] * 6)
    subject = np.array([f"s{k // 2}" for k in range(len(split))])
    images = np.random.default_rng(0).integers(120, 200, (len(split), 16, 16), np.uint8)
    np.savez(tmp_path / "images.npz", images=images, split=split, subject=subject)
    config = {
        "name": "tiny",
        "data": {"path": "images.npz", "channels": 1},
        "operator": {"kind": "fourier_mask", "acceleration": 2, "centre": 0.2},
        "noise_std": 0.02,
        "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "training": {"steps": 1, "batch": 4, "validation_images": 2},
    }
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(config))
    train = ["train", tmp_path / "tiny.yaml", "--data", tmp_path, "--out", tmp_path / "run"]
    exam = ["benchmark", "lesions", tmp_path / "run/model", "--data", tmp_path]
    exam += ["--limit", 2, "--samples", 9, "--calls", 2]
    exam += ["--radius", 1.5, "--contrast", 0.3, "--contrast", 0]
    exam += ["--work", tmp_path / "work", "--json", tmp_path / "r.json"]
    for arguments in (train, exam):
        done = CliRunner().invoke(cli, [str(a) for a in arguments])
        assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "r.json").read_text())
    cells = {(row["case"]["mask"], row["case"]["contrast"]) for row in rows}
    assert len(cells) == 4
    assert all(row["case"]["images"] == 2 for row in rows)
    assert sum(row["name"] == "direction right" for row in rows) == 2
    assert len(list((tmp_path / "work").iterdir())) == 4
