"""The one kind of record that every benchmark and evaluation writes."""

import json
import math
import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from bcdm.errors import InputError
from bcdm.files import write_text

__all__ = [
    "Column",
    "Record",
    "all_hold",
    "format_table",
    "keep_others",
    "make_page",
    "read_records",
    "write_records",
]

_LONGEST = 60  # characters of a setting on a terminal
_SAYS = "says"  # a sentence of what a number says
_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


@dataclass(frozen=True)
class Record:
    """One measured number.

    Args:
        name: What was measured.
        case: On what: any plain values. "says" is a sentence of what the number says.
        value: The number; None where there is none (a chain that diverged, a level not resolved).
        unit: Its unit; "" for a ratio.
        interval: A confidence interval, if there is one.
        required: A comparison the value must pass, such as "<= 1.05".
        seed: The seed of the run, if it has one.
        command: The command that gives the number again.

    >>> Record("ratio", {}, 1.01, required="<= 1.05").holds
    True
    """

    name: str
    case: dict[str, object]
    value: float | None
    unit: str = ""
    interval: tuple[float, float] | None = None
    required: str | None = None
    seed: int | None = None
    command: str = ""
    holds: bool | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        value = self.value
        if value is not None and not math.isfinite(value):
            object.__setattr__(self, "value", None)
        if self.required is None:
            return
        sign, _, bound = self.required.partition(" ")
        if sign not in _COMPARE:
            raise InputError(f"required starts with one of {list(_COMPARE)}, not {self.required!r}")
        held = value is not None and bool(_COMPARE[sign](value, float(bound)))
        object.__setattr__(self, "holds", held)


def all_hold(records: Iterable[Record]) -> bool:
    """Whether no required value is missed."""
    return all(record.holds is not False for record in records)


def write_records(path: Path, records: Sequence[Record]) -> None:
    """Writes a list of rows as JSON; the file is whole or not there."""
    rows = [asdict(record) for record in records]
    write_text(path, json.dumps(rows, indent=1, allow_nan=False) + "\n")


def read_records(path: Path) -> list[Record]:
    """What `write_records` wrote."""
    rows = json.loads(path.read_text())
    for row in rows:
        del row["holds"]
        row["interval"] = row["interval"] and tuple(row["interval"])
    return [Record(**row) for row in rows]


def keep_others(path: Path, records: Sequence[Record], *keys: str) -> list[Record]:
    """The records of a file, if there is one, whose case differs from all of these in some key."""
    if not path.exists():
        return []
    done = {tuple(record.case.get(key) for key in keys) for record in records}
    known = read_records(path)
    return [one for one in known if tuple(one.case.get(key) for key in keys) not in done]


class Column(NamedTuple):
    """A column of a page: heading, the record it shows, which estimate of several, digits."""

    heading: str
    name: str
    estimate: str | None = None
    digits: int = 2


def make_page(records: Sequence[Record], keys: Sequence[str], columns: Sequence[Column]) -> str:
    """Markdown: a table with a row for each value of the keys, and all that was required below.

    >>> rows = [Record("PSNR", {"calls": 5}, 30.0, "dB"), Record("gain", {}, 1.0, required="> 0")]
    >>> print(make_page(rows, ["calls"], [Column("PSNR (dB)", "PSNR", digits=1)]))
    | calls | PSNR (dB) |
    | --- | --- |
    | 5 | 30.0 |
    <BLANKLINE>
    - gain: 1 (> 0: holds)
    <BLANKLINE>
    """
    cells: dict[tuple[object, ...], dict[Column, str]] = {}
    for record in records:
        for column in columns:
            fits = record.name == column.name and all(key in record.case for key in keys)
            if fits and column.estimate in (None, record.case.get("estimate")):
                row = cells.setdefault(tuple(record.case[key] for key in keys), {})
                value = record.value
                row[column] = "" if value is None else f"{value:.{column.digits}f}"
    heads = [*keys, *(column.heading for column in columns)]
    lines = ["| " + " | ".join(heads) + " |", "| " + " | ".join("---" for _ in heads) + " |"]
    for place, row in cells.items():
        values = [*map(str, place), *(row.get(column, "") for column in columns)]
        lines.append("| " + " | ".join(values) + " |")
    lines.append("")
    for record in records:
        if record.required is not None:
            case = ", ".join(str(record.case[key]) for key in record.case if key != "operator")
            interval = (
                "" if record.interval is None else " [{:.4g}, {:.4g}]".format(*record.interval)
            )
            number = "none" if record.value is None else f"{record.value:.4g}"
            verdict = "holds" if record.holds else "MISSED"
            where = f" ({case})" if case else ""
            lines.append(
                f"- {record.name}{where}: {number}{interval} ({record.required}: {verdict})"
            )
    return "\n".join(lines) + "\n"


def format_table(records: Sequence[Record]) -> str:
    """The records as short lines for a terminal: what all share comes first, and once.

    >>> rows = [Record("PSNR", {"images": 4, "calls": k}, 30.0 + k, "dB") for k in (1, 20)]
    >>> print(format_table(rows))
    all of: images=4
    PSNR  31 dB  calls=1
    PSNR  50 dB  calls=20
    """
    shared = set(_list_case(records[0])) if len(records) > 1 else set[str]()
    for record in records:
        shared &= set(_list_case(record))
    wide = max((len(record.name) for record in records), default=0)
    top = [pair for pair in _list_case(records[0]) if pair in shared] if shared else []
    lines = [f"all of: {' '.join(top)}"] if top else []
    return "\n".join([*lines, *(_format(record, shared, wide) for record in records)])


def _list_case(record: Record) -> list[str]:
    """What a number is of, but for long texts, which are for the file of records."""
    pairs = [f"{key}={value}" for key, value in record.case.items() if key != _SAYS]
    return [pair for pair in pairs if len(pair) <= _LONGEST]


def _format(record: Record, shared: Collection[str], wide: int) -> str:
    case = " ".join(pair for pair in _list_case(record) if pair not in shared)
    number = "none" if record.value is None else f"{record.value:.4g} {record.unit}".rstrip()
    interval = f" [{record.interval[0]:.4g}, {record.interval[1]:.4g}]" if record.interval else ""
    verdict = {None: "", True: "holds", False: "MISSED"}[record.holds]
    required = f"  {record.required}: {verdict}" if record.required else ""
    line = f"{record.name:{wide}}  {number}{interval}{required}  {case}".rstrip()
    return f"{line}\n    {record.case[_SAYS]}" if _SAYS in record.case else line
