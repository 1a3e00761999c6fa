"""The one kind of record that every benchmark and evaluation writes."""

import json
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
        value: The number.
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
    value: float
    unit: str = ""
    interval: tuple[float, float] | None = None
    required: str | None = None
    seed: int | None = None
    command: str = ""
    holds: bool | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.required is None:
            return
        sign, _, bound = self.required.partition(" ")
        if sign not in _COMPARE:
            raise InputError(f"required starts with one of {list(_COMPARE)}, not {self.required!r}")
        object.__setattr__(self, "holds", bool(_COMPARE[sign](self.value, float(bound))))


def all_hold(records: Iterable[Record]) -> bool:
    """Whether no required value is missed."""
    return all(record.holds is not False for record in records)


def write_records(path: Path, records: Sequence[Record]) -> None:
    """Writes a list of rows as JSON; the file is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [asdict(record) for record in records]
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(rows, indent=1) + "\n")
    partial.replace(path)


def format_table(records: Sequence[Record]) -> str:
    """The records as lines of text for a terminal."""
    lines = []
    for record in records:
        case = " ".join(f"{key}={value}" for key, value in record.case.items())
        interval = (
            f" [{record.interval[0]:.4g}, {record.interval[1]:.4g}]" if record.interval else ""
        )
        verdict = {None: "", True: "holds", False: "MISSED"}[record.holds]
        required = f"  {record.required}: {verdict}" if record.required else ""
        lines.append(
            f"{record.name:24} {case:56} {record.value:.4g} {record.unit}{interval}{required}"
        )
    return "\n".join(lines)
