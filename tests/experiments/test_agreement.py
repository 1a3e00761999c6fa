"""Numbers of a rerun beside their records."""

import json
from pathlib import Path
from typing import Any

import pytest
from experiments.agreement import choose_case, compare, compare_noise, pick

from bcdm.assessment.records import Record
from bcdm.benchmark import noise
from bcdm.errors import InputError


def record(name: str, value: float, half: float, **case: Any) -> dict[str, Any]:
    whole = {"estimate": "samples", "samples": 20, "calls": 10} | case
    return {"name": name, "value": value, "interval": (value - half, value + half), "case": whole}


def test_a_distance_is_in_units_of_both_intervals() -> None:
    published = [record("PSNR", 30.0, 0.3), record("CRPS", 0.02, 0.001), record("SSIM", 0.9, 0.1)]
    now = [record("PSNR", 30.5, 0.4), record("CRPS", 0.024, 0.001), record("coverage", 0.9, 0.1)]
    pairs = {pair.name: pair.distance for pair in compare(published, now)}
    assert pairs == pytest.approx({"PSNR, samples": 1.0, "CRPS, samples": 4 / 2**0.5})


def test_numbers_of_samples_are_picked() -> None:
    ours = record("PSNR", 30.0, 0.3)
    others = [
        record("LPIPS", 0.1, 0.3),
        record("PSNR", 30.0, 0.3, calls=20),
        record("PSNR", 20.0, 0.3, estimate="Wiener", samples=None),
        ours | {"interval": None},
    ]
    assert pick([*others, ours], 10) == [ours]
    with pytest.raises(InputError, match="no such numbers"):
        pick(others, 10)


def test_a_case_of_a_family_is_that_of_its_model() -> None:
    path = Path(__file__).parents[2] / "experiments/families/mri64.results.json"
    chosen = choose_case(json.loads(path.read_text()), "points 8x")
    assert {(one["case"]["model"], one["case"]["noise_std"]) for one in chosen} == {
        ("ixi64-mri", 0.01)
    }
    assert {one["case"]["calls"] for one in chosen} == {20}
    with pytest.raises(InputError, match="no case"):
        choose_case(json.loads(path.read_text()), "points 99x")


def test_a_noise_level_is_held_beside_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the command of the record says, the rows of other levels left out."""
    path = Path(__file__).parents[2] / "experiments/noise/faces64.json"
    published = json.loads(path.read_text())
    asked: list[object] = []

    def run(model: str, **options: Any) -> list[Record]:
        asked.extend([model, options["limit"], options["levels"]])
        rows = [one for one in published if one["case"]["noise_std"] == 0.05]
        return [
            Record(one["name"], one["case"], one["value"], interval=tuple(one["interval"]))
            for one in rows
        ]

    monkeypatch.setattr(noise, "run", run)
    pairs = compare_noise(published, 0.05)
    assert asked == ["faces64", 60, (0.05,)]
    assert len(pairs) == 8
    assert {pair.distance for pair in pairs} == {0.0}
