"""The one kind of record that every benchmark and evaluation writes."""

import json
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bcdm.errors import InputError

__all__ = ["Record", "all_hold", "format_table", "write_records"]

_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


@dataclass(frozen=True)
class Record:
    """One measured number.

    Args:
        name: What was measured.
        case: On what: any plain values.
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
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [asdict(record) for record in records]
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n")
    partial.replace(path)


def format_table(records: Sequence[Record]) -> str:
    """The records as lines of text for a terminal."""
    return "\n".join(_format(record) for record in records)


def _format(record: Record) -> str:
    case = " ".join(f"{key}={value}" for key, value in record.case.items())
    number = "none" if record.value is None else f"{record.value:.4g}"
    interval = f" [{record.interval[0]:.4g}, {record.interval[1]:.4g}]" if record.interval else ""
    verdict = {None: "", True: "holds", False: "MISSED"}[record.holds]
    required = f"  {record.required}: {verdict}" if record.required else ""
    return f"{record.name:24} {case:56} {number} {record.unit}{interval}{required}"
