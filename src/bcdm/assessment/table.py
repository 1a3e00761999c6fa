"""An evaluation as a table for a terminal: a line a number, the control's beside the model's."""

import textwrap
from collections.abc import Sequence

from bcdm.assessment.records import Record
from bcdm.methods import CONTROL

__all__ = ["format_beside"]

_WIDE = 100  # characters of a line
_LEFT_OUT = ("estimate", "note")  # of the first line: it is about all


def format_beside(records: Sequence[Record]) -> str:
    """What was evaluated, a line a number, and which numbers too few samples leave open.

    Records have all of it: intervals of the control, what each number is of, whole sentences.

    >>> case = {"model": "a", "samples": 4}
    >>> rows = [
    ...     Record("CRPS", case, 0.1, interval=(0.09, 0.11)),
    ...     Record("CRPS", case | {"method": CONTROL}, 0.3),
    ...     Record("coverage 90%", case, None),
    ... ]
    >>> print(format_beside(rows))
    model=a samples=4
          model  control  95 % of the model's
    CRPS    0.1      0.3  [0.09, 0.11]
    too few samples for: coverage 90%
    """
    pairs = [f"{key}={value}" for key, value in records[0].case.items() if key not in _LEFT_OUT]
    own = {_name(one): one for one in records if one.case.get("method") != CONTROL}
    others = {_name(one): one for one in records if one.case.get("method") == CONTROL}
    shown = [name for name, one in own.items() if one.value is not None or one.required]
    rows = [
        (name, _write(own[name].value), _write(value), _remark(own[name]))
        for name in shown
        for value in [others[name].value if name in others else None]
    ]
    heads = ("", "model", "control", "95 % of the model's")
    name, mine, theirs = (max(len(row[k]) for row in [heads, *rows]) for k in range(3))
    lines = [
        f"{a:{name}}  {b:>{mine}}  {c:>{theirs}}  {d}".rstrip() for a, b, c, d in [heads, *rows]
    ]
    open_ones = dict.fromkeys(one.name for label, one in own.items() if label not in shown)
    told = textwrap.wrap(f"too few samples for: {', '.join(open_ones)}", _WIDE) if open_ones else []
    return "\n".join([*textwrap.wrap(" ".join(pairs), _WIDE), *lines, *told])


def _name(record: Record) -> str:
    unit = f" ({record.unit})" if record.unit else ""
    estimate = record.case.get("estimate")
    return f"{record.name}{unit}" + (f", {estimate}" if estimate else "")


def _write(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _remark(record: Record) -> str:
    """The interval, what is required, and the head of the sentence of what the number says."""
    parts = []
    if record.interval is not None:
        parts.append("[{:.4g}, {:.4g}]".format(*record.interval))
    if record.required is not None:
        parts.append(f"{record.required}: {'holds' if record.holds else 'MISSED'}")
    if "says" in record.case:
        parts.append(str(record.case["says"]).partition(":")[0].partition(" (")[0])
    return "  ".join(parts)
