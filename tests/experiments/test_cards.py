"""The page about trust cards holds what the records say."""

import json
from pathlib import Path

import pytest
from experiments.cards import fill_page, make_table

from bcdm.errors import InputError


def make_row(name: str, value: float, holds: bool | None, **case: object) -> dict[str, object]:
    interval = [value - 0.1, value + 0.1]
    return {"name": name, "case": case, "value": value, "interval": interval, "holds": holds}


ROWS = [
    make_row("false alarms", 0.2, False, wrong="nothing", images=10, red=0.0),
    make_row("noticed", 0.8, True, wrong="noise", images=20, red=0.5),
    make_row("coverage", 0.5, None, level=0.8, conformal="before", images=3),
    make_row("coverage", 0.75, None, level=0.8, conformal="after", images=3, pixels="object"),
    make_row("KS p-value of ranks", 0.5, True, of="x"),
]


def test_a_row_a_case_and_a_column_a_model() -> None:
    table = make_table({"one": ROWS, "two": ROWS[1:2]}).splitlines()
    assert table[0] == "|  | one | two |"
    assert table[2:] == [
        "| false alarms: nothing | **20% [10, 30] of 10** |  |",
        "| noticed: noise | 80% [70, 90] of 20, 10 red | 80% [70, 90] of 20, 10 red |",
        "| 80% intervals hold, object pixels | 75.0% [65.0, 85.0] |  |",
    ]


def test_the_page_is_filled_between_its_marks(tmp_path: Path) -> None:
    (tmp_path / "tiny.json").write_text(json.dumps(ROWS))
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- cards -->\nstale\n<!-- end of cards -->\nafter\n")
    assert fill_page(tmp_path) == page
    text = page.read_text()
    assert text.startswith("before\n<!-- cards -->\n|  | tiny |\n")
    assert text.endswith("\n<!-- end of cards -->\nafter\n")
    assert "stale" not in text
    page.write_text("nothing")
    with pytest.raises(InputError, match="no place for the table"):
        fill_page(tmp_path)
