"""The page on training compute says what the record says."""

import json
from statistics import mean

import pytest
from tests.records import ROOT, read_records, read_table, read_words

PAGE = ROOT / "experiments/compute/README.md"
TASKS = {"MRI": "MRI 4x, 32x32", "Inpainting": "inpainting 12x12 of 32x32"}
FOLDERS = {"MRI": "mri", "Inpainting": "inpaint"}
NAMES = ("BCDM", "BCDM of a family", "dual input with Wiener", "MMPS")


@pytest.mark.parametrize("task", TASKS)
def test_tables_are_those_of_the_record(task: str) -> None:
    found: dict[tuple[str, float, int], list[float]] = {}
    passes: dict[tuple[str, float, int], int] = {}
    for row in read_records("experiments/compute/results.json"):
        case = row["case"]
        if case["task"] == TASKS[task]:
            key = (case["method"], case["minutes"], case["calls"])
            found.setdefault(key, []).append(row["value"])
            passes[key] = case["passes a sample"]
    trained = read_table(PAGE, f"{task}, CRPS x 1000 of 20 calls")
    assert list(trained) == ["0.5", "2", "8"] + ["32"] * (task == "Inpainting")
    for minutes, cells in trained.items():
        values = [found.get((name, float(minutes), 20)) for name in NAMES]
        assert list(cells) == [f"{mean(one):.1f}" if one else "" for one in values]
        assert all(values) or minutes == "32"
    longest = {f"{task} after eight minutes, by calls": (8.0, ("BCDM", NAMES[2], "MMPS"))}
    if task == "Inpainting":
        longest["Inpainting after 32 minutes, by calls"] = (32.0, ("BCDM", "MMPS"))
    for title, (after, names) in longest.items():
        called = read_table(PAGE, title)
        assert list(called) == ["5", "10", "20"]
        for calls, (*cells, own) in called.items():
            assert cells == [f"{found[name, after, int(calls)][0]:.1f}" for name in names]
            assert own == str(passes["MMPS", after, int(calls)])


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


def test_rivals_as_they_might_be_better_are_as_recorded() -> None:
    found: dict[tuple[str, float, int], list[float]] = {}
    for row in read_records("experiments/compute/results.json"):
        case = row["case"]
        if case["task"] == TASKS["MRI"]:
            key = (case["method"], case["minutes"], case["calls"])
            found.setdefault(key, []).append(row["value"])
    names = ("BCDM", "dual input with a residual", "MMPS with our levels")
    table = read_table(PAGE, "Rivals on MRI as they might be better")
    for minutes, cells in table.items():
        values = [found.get((name, float(minutes), 20)) for name in names]
        assert cells == [f"{mean(one):.1f}" if one else "" for one in values]
    ours, dual, guided = (mean(found[name, 8.0, 20]) for name in names)
    ahead = [
        100 * (1 - mean(found["BCDM", minutes, 20]) / mean(found[names[1], minutes, 20]))
        for minutes in (8.0, 2.0)
    ]
    text = " ".join(PAGE.read_text().split())
    assert f"Ours is {ahead[0]:.0f} to {ahead[1]:.0f} % ahead of it here" in text
    lead = 100 * (1 - ours / guided)
    assert f"and {lead:.0f} % ahead of MMPS, whose samples take nine times the passes" in text
    gain = 100 * (1 - guided / mean(found["MMPS", 8.0, 20]))
    told = f"off its CRPS (at 32 x 32 {gain:.0f} %)"
    assert told in read_words("docs/results.md")
    image = [mean(found["dual input with Wiener", minutes, 20]) for minutes in (2.0, 8.0)]
    assert f"predicting the image, it had {image[0]:.1f} and {image[1]:.1f}." in text
    few = 100 * (mean(found["BCDM", 8.0, 5]) / guided - 1)
    words = read_words("docs/results.md")
    assert f"the lead is {lead:.0f} % where the prior of MMPS is trained with our law" in words
    assert f"and {100 * (1 - ours / dual):.0f} % over a dual input that predicts a resid" in words
    assert f"Five calls of ours are {few:.0f} % behind 20 of MMPS at its best on MRI" in words
    faces = {
        (row["case"]["method"], row["case"]["minutes"], row["case"]["calls"]): row["value"]
        for row in read_records("experiments/compute/results.json")
        if row["case"]["task"] == TASKS["Inpainting"]
    }
    for minutes in (8, 32):
        assert faces["BCDM", minutes, 5] < faces["MMPS", minutes, 20]  # "ahead for inpainting"
    told = f"after eight its CRPS is {guided:.1f}, ours {ours:.1f} with a ninth of the passes."
    assert told in read_words("README.md")


def test_three_iterations_are_best_of_up_to_five() -> None:
    (case,) = (
        row["case"]
        for row in read_records("experiments/compute/mri-best/results.json")
        if row["name"] == "CRPS, samples" and row["case"]["method"].startswith("MMPS")
    )
    assert (case["iterations a call"], case["tuned over"]) == (3, 4)
    text = " ".join(PAGE.read_text().split())
    assert "Of 1, 2, 3 and 5 iterations a call validation images choose 3." in text
