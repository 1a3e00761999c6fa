"""The page on training compute says what the record says."""

import json
from statistics import mean

import pytest
from tests.records import ROOT, read_records, read_table

PAGE = ROOT / "experiments/compute/README.md"
TASKS = {"MRI": "MRI 4x, 32x32", "Inpainting": "inpainting 12x12 of 32x32"}
FOLDERS = {"MRI": "mri", "Inpainting": "inpaint"}
NAMES = ("BCDM", "BCDM of a family", "dual input with Wiener", "MMPS")


@pytest.mark.parametrize("task", TASKS)
def test_tables_are_those_of_the_record(task: str) -> None:
    found: dict[tuple[str, float, int], list[float]] = {}
    passes: dict[tuple[str, int], int] = {}
    for row in read_records("experiments/compute/results.json"):
        case = row["case"]
        if case["task"] == TASKS[task]:
            key = (case["method"], case["minutes"], case["calls"])
            found.setdefault(key, []).append(row["value"])
            if case["minutes"] == 8:
                passes[case["method"], case["calls"]] = case["passes a sample"]
    trained = read_table(PAGE, f"{task}, CRPS x 1000 of 20 calls")
    assert list(trained) == ["0.5", "2", "8"]
    for minutes, cells in trained.items():
        told = [f"{mean(found[name, float(minutes), 20]):.1f}" for name in NAMES]
        assert list(cells) == told
    called = read_table(PAGE, f"{task} after eight minutes, by calls")
    assert list(called) == ["5", "10", "20"]
    for calls, (*cells, own) in called.items():
        names = ("BCDM", "dual input with Wiener", "MMPS")
        assert cells == [f"{found[name, 8.0, int(calls)][0]:.1f}" for name in names]
        assert own == str(passes["MMPS", int(calls)])


@pytest.mark.parametrize("task", TASKS)
def test_steps_and_seeds_are_those_of_the_record(task: str) -> None:
    text = " ".join(PAGE.read_text().split())
    budgets = json.loads((PAGE.parent / FOLDERS[task] / "budgets.json").read_text())
    steps = [budgets[f"ours-{name}"]["steps"] for name in ("half", "two", "eight")]
    assert f"{task}: {steps[0]}, {steps[1]} and {steps[2]} steps of ours" in text
    spread = read_table(PAGE, f"{task}, the least and the largest of three seeds")
    assert len(spread) == 2
    for name, cells in spread.items():
        method, minutes = name.rsplit(", ", 1)
        values = [
            row["value"]
            for row in read_records("experiments/compute/results.json")
            if row["case"]["task"] == TASKS[task]
            and (row["case"]["method"], row["case"]["minutes"], row["case"]["calls"])
            == (method, float(minutes.removesuffix(" min")), 20)
        ]
        assert len(values) == 3
        assert cells == [f"{min(values):.1f}", f"{max(values):.1f}"]


def test_iterations_of_mmps_on_mri_are_as_tuned() -> None:
    tuned = {
        row["case"]["method"].removeprefix("MMPS, "): row["case"]["iterations a call"]
        for row in read_records("experiments/compute/mri-rivals/results.json")
        if row["name"] == "CRPS, samples" and row["case"]["method"].startswith("MMPS")
    }
    assert tuned == {
        "0.5 min": 2, "2 min": 3, "8 min": 3, "8 min, 5 calls": 1, "8 min, 10 calls": 3
    }  # fmt: skip
    told = (
        "on MRI three are best after two and eight minutes, two after half a minute and one with "
        "five calls a sample"
    )
    assert told in " ".join(PAGE.read_text().split())
