"""The page on training compute says what the record says."""

import json
from statistics import mean

import pytest
from tests.records import ROOT, read_records, read_table, read_words

PAGE = ROOT / "experiments/compute/README.md"
TASKS = {"MRI": "MRI 4x, 32x32", "Inpainting": "inpainting 12x12 of 32x32"}
BUDGETS = {
    "MRI": ("mri-branches", "branched-ours"),
    "Inpainting": ("inpaint", "ours"),
}
LEVELS, RESIDUAL = "MMPS with our levels", "dual input with a residual"
NAMES = {
    "MRI": ("BCDM", RESIDUAL, LEVELS),
    "Inpainting": ("BCDM", "BCDM of a family", "dual input with Wiener", "MMPS"),
}
Key = tuple[str, float, int]


def read_task(task: str) -> tuple[dict[Key, list[float]], dict[Key, int]]:
    """CRPS of every seed, and passes, by method, minutes and calls."""
    found: dict[Key, list[float]] = {}
    passes: dict[Key, int] = {}
    for row in read_records("experiments/compute/results.json"):
        case = row["case"]
        if case["task"] == TASKS[task]:
            key = (case["method"], case["minutes"], case["calls"])
            found.setdefault(key, []).append(row["value"])
            passes[key] = case["passes a sample"]
    return found, passes


@pytest.mark.parametrize("task", TASKS)
def test_tables_are_those_of_the_record(task: str) -> None:
    found, _ = read_task(task)
    trained = read_table(PAGE, f"{task}, CRPS x 1000 of 20 calls")
    assert list(trained) == ["0.5", "2", "8", "32"]
    for minutes, cells in trained.items():
        values = [found.get((name, float(minutes), 20)) for name in NAMES[task]]
        assert list(cells) == [f"{mean(one):.1f}" if one else "" for one in values]
        assert all(values) or minutes == "32"


@pytest.mark.parametrize(
    ("task", "minutes", "names"),
    [
        ("MRI", 32, ("BCDM", LEVELS)),
        ("Inpainting", 8, ("BCDM", "dual input with Wiener", "MMPS")),
        ("Inpainting", 32, ("BCDM", "MMPS")),
    ],
)
def test_calls_are_those_of_the_record(task: str, minutes: int, names: tuple[str, ...]) -> None:
    found, passes = read_task(task)
    after = {8: "eight", 32: "32"}[minutes]
    called = read_table(PAGE, f"{task} after {after} minutes, by calls")
    assert list(called) == ["5", "10", "20"]
    for calls, (*cells, own) in called.items():
        assert cells == [f"{found[name, minutes, int(calls)][0]:.1f}" for name in names]
        assert own == str(passes[names[-1], minutes, int(calls)])


@pytest.mark.parametrize("task", TASKS)
def test_steps_and_seeds_are_those_of_the_record(task: str) -> None:
    text = " ".join(PAGE.read_text().split())
    folder, name = BUDGETS[task]
    budgets = json.loads((PAGE.parent / folder / "budgets.json").read_text())
    *first, last = [budgets[f"{name}-{length}"]["steps"] for length in ("half", "two", "eight")]
    assert f"{task}: {', '.join(map(str, first))} and {last} steps" in text
    found, _ = read_task(task)
    spread = read_table(PAGE, f"{task}, the least and the largest of three seeds")
    assert len(spread) == (6 if task == "MRI" else 2)
    for row, cells in spread.items():
        method, minutes = row.rsplit(", ", 1)
        values = found[method, float(minutes.removesuffix(" min")), 20]
        assert len(values) == 3
        assert cells == [f"{min(values):.1f}", f"{max(values):.1f}"]


def test_ours_and_the_residual_by_calls_are_those_of_the_record() -> None:
    found, _ = read_task("MRI")
    called = read_table(PAGE, "MRI after eight minutes, by calls")
    for calls, cells in called.items():
        values = [found[name, 8.0, int(calls)][0] for name in ("BCDM", RESIDUAL)]
        assert cells == [f"{value:.1f}" for value in values]
    few, rival = found["BCDM", 32.0, 5][0], found[LEVELS, 32.0, 10][0]
    assert few < rival
    told = f"five calls a sample ({few:.1f}) is ahead of MMPS with ten ({rival:.1f},"
    assert told in " ".join(PAGE.read_text().split())


def test_a_family_beside_ours_is_as_recorded() -> None:
    """By a cosine, as are the records of the first study."""
    crps = {
        row["case"]["method"]: f"{1000 * row['value']:.1f}"
        for row in read_records("experiments/compute/mri/results.json")
        if row["name"] == "CRPS, samples"
    }
    table = read_table(PAGE, "One network for a family of masks")
    assert len(table) == 3
    for minutes, cells in table.items():
        methods = ("BCDM", "BCDM of a family")
        assert cells == [crps[f"{name}, {minutes} min"] for name in methods]
    first = [crps[f"BCDM, {minutes} min"] for minutes in table]
    told = f"unclipped, ours had {first[0]}, {first[1]} and {first[2]}, below."
    assert told in " ".join(PAGE.read_text().split())


def test_iterations_of_mmps_on_mri_are_as_tuned() -> None:
    tuned = {
        row["case"]["method"].removeprefix(f"{LEVELS}, "): row["case"]["iterations a call"]
        for row in read_records("experiments/compute/mri-branches/results.json")
        if row["name"] == "CRPS, samples" and row["case"]["method"].startswith(LEVELS)
    }
    *first, last = (tuned[f"{minutes} min"] for minutes in ("0.5", "2", "8", "32"))
    told = f"({', '.join(map(str, first))} and {last} after .5, 2, 8 and 32 minutes, seed 0;"
    assert told in " ".join(PAGE.read_text().split())


def test_who_is_ahead_on_mri_is_as_recorded() -> None:
    """The lead of ours over training, which MMPS takes in the end."""
    found, passes = read_task("MRI")
    leads = [
        100 * (1 - mean(found["BCDM", minutes, 20]) / mean(found[LEVELS, minutes, 20]))
        for minutes in (0.5, 2.0, 8.0, 32.0)
    ]
    assert sorted(leads, reverse=True) == leads
    behind = 100 * (mean(found["BCDM", 32.0, 20]) / mean(found[LEVELS, 32.0, 20]) - 1)
    *first, third = (f"{lead:.0f}" for lead in leads[:3])
    told = f"by {', '.join(first)} and {third} % after .5, 2 and 8 minutes"
    words = read_words("docs/results.md")
    assert told in words
    assert passes[LEVELS, 32.0, 20] == 9 * 20
    behind_ours = [
        100 * (1 - mean(found["BCDM", minutes, 20]) / mean(found[RESIDUAL, minutes, 20]))
        for minutes in (0.5, 2.0, 8.0)
    ]
    assert f"is {min(behind_ours):.0f} to {max(behind_ours):.0f} % behind ours on MRI" in words
    assert f"MMPS is ahead by {behind:.0f} % after 32, with nine times the passes" in words
    page = " ".join(PAGE.read_text().split())
    assert f"On MRI it is {told.removeprefix('by ')}; after 32 MMPS is" in page
    assert f"MMPS is ahead by {behind:.0f} %, with nine times the passes a sample." in page
    readme = read_words("README.md")
    assert f"on MRI ours leads MMPS by {first[1]} % after two minutes; after 32 MMPS" in readme
    assert f"MMPS leads by {behind:.0f} %, with nine times the passes." in readme
