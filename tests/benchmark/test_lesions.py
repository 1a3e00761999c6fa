"""The exam of lesions: places, contrasts and intervals are what they say; a tiny run."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner

import bcdm
from bcdm.assessment.records import Record
from bcdm.benchmark.discs import choose_places, draw_disc, measure, weigh
from bcdm.benchmark.lesions import _list
from bcdm.checkpoint import Model, load
from bcdm.commands import cli
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.reconstruction import Posterior
from bcdm.report.facts import describe_posterior


def make_head(side: int = 64) -> torch.Tensor:
    axis = torch.arange(side) - side / 2
    return torch.where(torch.hypot(axis[:, None], axis) < 0.35 * side, 0.0, -1.0)


def test_discs_lie_inside_and_apart_and_have_their_area() -> None:
    head = make_head()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        places = choose_places(head, (1.5, 2.0, 3.0), rng, -0.7)
        found = [place for place in places if place is not None]
        assert len(found) == 3
        discs = [draw_disc(head.shape, place) for place in found]
        for place, disc in zip(found, discs, strict=True):
            assert not disc[head < -0.5].any()
            assert float(disc.sum()) == pytest.approx(np.pi * place.radius**2, rel=0.12)
            away = np.hypot(place.row - 32, place.column - 32)
            if abs(away - 0.6 * 0.35 * 64) > 2:
                assert place.outer == (away > 0.6 * 0.35 * 64)
        for one, other in itertools.permutations(discs, 2):
            # A disc is not compared with another one.
            assert not (weigh(one[None, None])[0, 0] * other).any()
    with pytest.raises(InputError, match="no place"):
        choose_places(torch.full((64, 64), -1.0), [2.0], np.random.default_rng(0), -0.7)


def test_a_disc_without_room_is_left_out() -> None:
    crowd = choose_places(make_head(32), [3.0] * 9, np.random.default_rng(0), -0.7)
    assert len(crowd) == 9
    assert None in crowd


def test_the_contrast_of_a_disc_on_grey_is_its_own() -> None:
    place = choose_places(make_head(), [3.0], np.random.default_rng(0), -0.7)[0]
    assert place is not None
    disc = draw_disc((64, 64), place)[None, None]
    image = 0.2 + 0.5 * (disc > 0).float()
    assert measure(image, weigh(disc)) == pytest.approx(0.5, abs=1e-5)
    assert measure(torch.ones(1, 1, 64, 64), weigh(disc)) == pytest.approx(0, abs=1e-5)


def test_records_tell_right_samples_from_wrong_ones() -> None:
    rng = np.random.default_rng(0)
    count = 400
    found = {
        "truth": -0.3 + 0.01 * rng.normal(size=count),
        "healthy": np.zeros(count),
        "contrast": np.full(count, -0.3),
        "light": np.array(["green"] * 100 + ["red"] * 300),
        "subject": np.array([f"{'val' if k < 100 else 'test'}: {k}" for k in range(count)]),
        "factor": np.full(count, 3.0),
    }

    def judge(centre: float) -> dict[str, float | None]:
        drawn = {"samples": centre + 0.01 * rng.normal(size=(19, count))}
        return {row.name: row.value for row in _list(found | drawn, {}, "discs", Record)}

    right, weak, wrong = judge(-0.3), judge(-0.1), judge(0.3)
    assert right["direction right"] == weak["direction right"] == 1
    assert wrong["direction right"] == 0
    assert right["coverage of 80 % intervals"] == pytest.approx(0.8, abs=0.08)
    assert weak["coverage of 80 % intervals"] == 0
    assert right["coverage of widened 80 % intervals"] == 1
    # The truth is the least or the greatest of 20 in a tenth of all cases.
    assert right["outside of the range of samples"] == pytest.approx(0.1, abs=0.06)
    assert weak["outside of the range of samples"] == 1
    assert right["error of the contrast over its spread"] == pytest.approx(1, abs=0.15)
    assert weak["part of the contrast in the mean"] == pytest.approx(1 / 3, abs=0.05)
    assert right["green cards"] == 0.25
    healthy = found | {"contrast": np.zeros(count), "factor": np.full(count, np.nan)}
    healthy["samples"] = 0.01 * rng.normal(size=(7, count))
    names = {row.name for row in _list(healthy, {}, "healthy places", Record)}
    assert not names & {"direction right", "part of the contrast in the mean"}
    assert not any("intervals" in name for name in names)


def test_widened_intervals_are_not_judged_by_those_they_were_fitted_on() -> None:
    found = {
        "truth": np.array([0.0, 5.0]),
        "healthy": np.zeros(2),
        "contrast": np.zeros(2),
        "samples": np.repeat(np.linspace(-1, 1, 9)[:, None], 2, 1),
        "light": np.array(["green"] * 2),
        "subject": np.array(["test: a", "val: b"]),
        "factor": np.ones(2),
    }
    rows = {row.name: row.value for row in _list(found, {}, "healthy places", Record)}
    assert rows["coverage of 80 % intervals"] == 0.5
    assert rows["coverage of widened 80 % intervals"] == 1


def _reconstruct(model: Model) -> Posterior:
    blank = Measurement.simulate(torch.zeros(1, *model.shape), model.operator, 0.02, seed=0)
    return bcdm.reconstruct(model, blank, samples=2, calls=1, progress=False)


def test_a_tiny_exam(tmp_path: Path) -> None:
    split = np.array(["train"] * 8 + ["val"] * 4 + ["test"] * 6)
    subject = np.array([f"s{k // 2}" for k in range(len(split))])
    images = np.random.default_rng(0).integers(120, 200, (len(split), 32, 32), np.uint8)
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
    np.savez(tmp_path / "others.npz", images=images[:1], subject=np.array(["x"]))
    exam += ["--samples", 9, "--calls", 2, "--others", tmp_path / "others.npz"]
    exam += ["--radius", 1.5, "--contrast", 0.3, "--mask", "points 4x", "--mask", "columns 4x"]
    exam += ["--work", tmp_path / "work", "--json", tmp_path / "r.json", "--card"]
    for arguments in (train, exam):
        done = CliRunner().invoke(cli, [str(a) for a in arguments])
        assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "r.json").read_text())
    assert {row["case"]["subjects"] for row in rows} == {6}
    groups = {row["case"]["regions"] for row in rows}
    assert {"all discs", "healthy places", "discs, columns 4x", "discs, radius 1.5"} <= groups
    assert {"discs, subjects of val", "discs, subjects of others"} <= groups
    numbers = {row["case"]["regions"]: row["value"] for row in rows if "number" in row["name"]}
    assert numbers["discs, points 4x"] + numbers["discs, columns 4x"] == numbers["all discs"] >= 12
    assert len(list((tmp_path / "work").iterdir())) == 2
    said = f"Of {numbers['all discs']:.0f} small discs put into images of 6 new subjects"
    assert said in (tmp_path / "run/model/README.md").read_text()
    told = dict(describe_posterior(_reconstruct(load(tmp_path / "run/model"))))
    assert said in told["small lesions"]
    wrong = CliRunner().invoke(cli, [str(a) for a in [*exam, "--mask", "spirals"]])
    assert "'spirals' is no mask" in str(wrong.exception)
