"""The page about trust cards: one table over the records of all models.

python -m experiments.cards         # in a checkout: writes the table anew
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bcdm.errors import InputError
from bcdm.files import write_text

__all__ = ["fill_page", "make_table"]

START, END = "<!-- cards -->\n", "\n<!-- end of cards -->"
COUNTED = ("false alarms", "noticed")

Rows = Sequence[Mapping[str, Any]]


def fill_page(folder: Path) -> Path:
    """Writes the table into the README.md of a folder of records, one JSON file a model."""
    page = folder / "README.md"
    text = page.read_text()
    if text.count(START) != 1 or text.count(END) != 1:
        raise InputError(f"{page} has no place for the table: put {START.strip()} around it")
    records = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    before, _, rest = text.partition(START)
    write_text(page, before + START + make_table(records) + END + rest.partition(END)[2])
    return page


def make_table(records: Mapping[str, Rows]) -> str:
    """A row a case, a column a model."""
    lines: dict[str, dict[str, str]] = {}
    for model, rows in records.items():
        for name, cell in _list_cells(rows):
            lines.setdefault(name, {})[model] = cell
    head = ["", *records]
    body = [[name, *(cells.get(model, "") for model in records)] for name, cells in lines.items()]
    table = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def _list_cells(rows: Rows) -> list[tuple[str, str]]:
    cells = []
    for row in rows:
        case = row["case"]
        if row["name"] in COUNTED:
            low, high = row["interval"]
            text = f"{row['value']:.0%} [{100 * low:.0f}, {100 * high:.0f}] of {case['images']}"
            red = round(case["red"] * case["images"])
            text += f", {red} red" if red else ""
            cells.append((f"{row['name']}: {case['wrong']}", _mark(row, text)))
        elif row["name"] == "coverage" and case["conformal"] == "after":
            low, high = row["interval"]
            name = f"{case['level']:.0%} intervals hold, {case.get('pixels', 'all')} pixels"
            cells.append((name, f"{row['value']:.1%} [{100 * low:.1f}, {100 * high:.1f}]"))
    return cells


def _mark(row: Mapping[str, Any], text: str) -> str:
    """Bold where a requirement is missed."""
    return f"**{text}**" if row["holds"] is False else text


if __name__ == "__main__":
    fill_page(Path(__file__).parent / "trust")
