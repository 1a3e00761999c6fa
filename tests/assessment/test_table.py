"""What `bcdm evaluate` prints: a page of a terminal, with all numbers that there are."""

from pathlib import Path

import pytest

from bcdm.assessment.records import Record, read_records
from bcdm.assessment.table import format_beside
from bcdm.methods import CONTROL

RECORDS = Path(__file__).parents[2] / "experiments"


@pytest.mark.parametrize("name", ["mri/small", "mri/ixi64", "faces/inpaint64"])
def test_an_evaluation_is_a_page_of_a_terminal(name: str) -> None:
    records = read_records(RECORDS / f"{name}.results.json")
    lines = format_beside(records).splitlines()
    assert len(lines) <= 35
    assert max(map(len, lines)) <= 100
    assert "none" not in "\n".join(lines)
    for record in records:
        rows = [line.split("  ") for line in lines if line.startswith(record.name)]
        if record.value is None:
            assert not any(row[0].startswith(record.name) for row in rows)
            assert record.name in lines[-1]
        else:
            words = {word for row in rows for word in " ".join(row).split()}
            assert f"{record.value:.4g}" in words, record


def test_what_is_required_is_shown_where_it_is_not_resolved() -> None:
    rows = [Record("CRPS", {}, 0.1), Record("distance", {}, None, required="<= 0.05")]
    assert format_beside(rows).splitlines()[-1].split() == ["distance", "<=", "0.05:", "MISSED"]


def test_verdicts_are_short_and_of_the_model() -> None:
    case = {"says": "off by more than its band (0.2): truths lie farther"}
    control = {"says": "within its band: no outliers", "method": CONTROL}
    shown = format_beside([Record("TARP", case, 0.7), Record("TARP", control, 0.1)])
    assert shown.splitlines()[-1].split("  ")[-1] == "off by more than its band"
    assert "within" not in shown
