"""Records of the repository, and the tables of pages that tell of them."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def read_table(page: Path, start: str) -> dict[str, list[str]]:
    """The rows of a table below the line that begins with `start`, by their first cell."""
    lines = page.read_text().splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith(start))
    head = next(k for k in range(first, len(lines)) if lines[k].startswith("|"))
    rows = {}
    for line in lines[head + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip().strip("*") for cell in line.strip("|").split("|"))
        assert name not in rows, f"{page.name}: two rows {name!r}"
        rows[name] = cells
    return rows


def read_records(path: str) -> list[dict[str, Any]]:
    return json.loads((ROOT / path).read_text())


def read_words(name: str) -> str:
    """The text of a page on one line."""
    return " ".join((ROOT / name).read_text().split())


def find_value(path: str, name: str, **case: object) -> float:
    """The value of the only row of a record with this name and these entries in its case."""
    (found,) = (
        record["value"]
        for record in read_records(path)
        if record["name"] == name and case.items() <= record["case"].items()
    )
    return float(found)


def drop_zero(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")
