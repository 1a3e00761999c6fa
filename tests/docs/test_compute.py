"""The page on training compute says what the record says."""

import json
from statistics import mean

import pytest
from experiments.compute.figure import STUDIES, TITLES, make_tables, read, tell
from experiments.pages import fill_page
from tests.records import ROOT, read_records, read_words

from bcdm.methods import CONTROL

PAGE = "experiments/compute/README.md"
RIVAL, DUAL = "MMPS", "dual input"
BUDGETS = (0.5, 2.0, 8.0, 32.0)
LENGTHS = ("half", "two", "eight", "long")
Key = tuple[str, float, int]


def read_task(task: str) -> dict[Key, float]:
    """Mean CRPS x 1000 of the seeds, by method, minutes and calls."""
    found: dict[Key, list[float]] = {}
    for row in read(task):
        found.setdefault((row.method, row.minutes, row.calls), []).append(row.value)
    return {key: mean(values) for key, values in found.items()}


def list_leads(task: str) -> list[float]:
    """By how many per cent ours is below MMPS, at every budget."""
    found = read_task(task)
    return [100 * (1 - found["BCDM", each, 20] / found[RIVAL, each, 20]) for each in BUDGETS]


def test_the_page_and_the_record_are_what_the_command_writes() -> None:
    page = ROOT / PAGE
    assert page.read_text() == fill_page(page, {task: make_tables(task) for task in STUDIES})
    kept = [
        (row["case"], row["value"], row["seed"])
        for row in read_records("experiments/compute/results.json")
    ]
    assert kept == [(row.case, pytest.approx(row.value), row.seed) for row in tell()]


@pytest.mark.parametrize("task", STUDIES)
def test_everybody_has_as_many_steps(task: str) -> None:
    budgets = json.loads((ROOT / f"experiments/compute/{STUDIES[task]}/budgets.json").read_text())
    steps = {length: set() for length in LENGTHS}
    for name, given in budgets.items():
        steps[name.split("-")[2]].add(given["steps"])
    *first, last = (one for (one,) in steps.values())
    told = f"{', '.join(map(str, first))} and {last} steps"
    place = {"mri": f"on MRI ({told})", "inpaint": f"for inpainting ({told})"}[task]
    assert place in read_words(PAGE)


@pytest.mark.parametrize("task", STUDIES)
def test_the_control_is_that_of_the_study(task: str) -> None:
    (control,) = (
        row["value"]
        for row in read_records(f"experiments/compute/{STUDIES[task]}/results.json")
        if row["name"] == "CRPS, samples" and row["case"]["method"] == CONTROL
    )
    title = {"mri": "## MRI", "inpaint": "## Inpainting"}[task]
    told = f"{title} A network of zeros, the control, has {1000 * control:.1f}."
    assert told in read_words(PAGE)
    assert TITLES[task] in {
        row["case"]["task"] for row in read_records("experiments/compute/results.json")
    }


@pytest.mark.parametrize("task", STUDIES)
def test_iterations_of_mmps_are_as_tuned(task: str) -> None:
    studied = "MMPS with our levels"
    tuned = {
        row["case"]["method"]: row["case"]["iterations a call"]
        for row in read_records(f"experiments/compute/{STUDIES[task]}/results.json")
        if row["name"] == "CRPS, samples" and row["case"]["method"].startswith(studied)
    }
    *first, last = (tuned[f"{studied}, {minutes:g} min"] for minutes in BUDGETS)
    told = f"Iterations of MMPS are {', '.join(map(str, first))} and {last} after .5, 2, 8 and 32"
    assert told in read_words(PAGE)


def test_who_is_ahead_on_mri_is_as_recorded() -> None:
    """The lead of ours over training, which MMPS takes in the end."""
    *leads, last = list_leads("mri")
    assert sorted(leads, reverse=True) == leads
    assert leads[-1] > 0 > last
    found = read_task("mri")
    behind = f"{100 * (found['BCDM', 32.0, 20] / found[RIVAL, 32.0, 20] - 1):.0f}"
    *first, third = (f"{lead:.0f}" for lead in leads)
    told = f"{', '.join(first)} and {third} % after .5, 2 and 8 minutes"
    for page in ("docs/results.md", PAGE):
        assert told in read_words(page)
        assert f"MMPS is ahead by {behind} %" in read_words(page)
    assert count_share("mri") == 9
    assert f"after 32 MMPS is ahead by {behind} %, with nine times the passes" in read_words(PAGE)
    few, rival = found["BCDM", 32.0, 5], found[RIVAL, 32.0, 10]
    assert few < rival
    assert f"five calls a sample ({few:.1f}) is ahead of MMPS with ten ({rival:.1f}," in read_words(
        PAGE
    )
    readme = read_words("README.md")
    assert f"on MRI ours leads MMPS by {first[1]} % after two minutes; after 32 MMPS" in readme
    assert f"MMPS leads by {behind} %, with nine times the passes." in readme


def test_who_is_ahead_for_inpainting_is_as_recorded() -> None:
    """The lead of ours, which shrinks."""
    leads = list_leads("inpaint")
    assert leads[0] > leads[2] > leads[3] > 0
    *first, last = (f"{lead:.0f}" for lead in leads)
    told = f"{', '.join(first)} and {last} % after .5, 2, 8 and 32 minutes"
    for page in ("docs/results.md", PAGE):
        assert told in read_words(page)
    assert count_share("inpaint") == 9
    assert "with a ninth of the passes at the end" in read_words(PAGE)
    found = read_task("inpaint")
    few, rival = found["BCDM", 32.0, 5], found[RIVAL, 32.0, 20]
    assert few < rival
    assert f"Five calls of ours ({few:.1f}) are ahead of 20 of MMPS ({rival:.1f}, 180 passes)" in (
        read_words(PAGE)
    )
    assert f"Inpainting ours leads: {first[0]} % first, {last} % after 32." in read_words(
        "README.md"
    )


def count_share(task: str) -> float:
    """How often the passes of ours MMPS takes after the longest training."""
    passes = {
        row.method: row.passes for row in read(task) if (row.minutes, row.calls) == (32.0, 20)
    }
    return passes[RIVAL] / passes["BCDM"]


def test_how_far_behind_a_dual_input_is_is_as_recorded() -> None:
    spread = {}
    for task in STUDIES:
        found = read_task(task)
        behind = [100 * (1 - found["BCDM", m, 20] / found[DUAL, m, 20]) for m in BUDGETS[:3]]
        spread[task] = f"{min(behind):.0f} to {max(behind):.0f} %"
    told = f"{spread['mri']} behind ours on MRI and"
    assert told in read_words("docs/results.md")
    assert f"{told} {spread['inpaint']} for inpainting" in read_words("docs/results.md")
    assert f"{told} only {spread['inpaint']} for inpainting" in read_words(PAGE)
