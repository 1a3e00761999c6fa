"""What commands print: progress to stderr, answers to stdout, records as a table."""

import logging
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bcdm.text import printable

if TYPE_CHECKING:
    from bcdm.assessment.records import Column, Record

__all__ = ["answer", "finish", "listen", "name_command", "say"]


def say(line: str) -> None:
    """Prints a line about the work itself, to stderr.

    Whatever a file or its name holds, it is one line, and steers no terminal.
    """
    click.echo(printable(line), err=True)


def answer(line: str) -> None:
    """Prints a line of what was asked for, to stdout, as safe as `say`."""
    click.echo(printable(line))


class _Listener(logging.Handler):
    """Says what the library logs; without tracebacks, which are for those who read logs."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def listen() -> None:
    """From now on, what the library logs or warns of is said, each in one line."""
    logger = logging.getLogger("bcdm")
    if not logger.handlers:
        logger.addHandler(_Listener(logging.WARNING))
    warnings.showwarning = _show_warning


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    say(f"warning: {message}")


def name_command() -> str:
    """The command that runs, as a user would type it."""
    return shlex.join(["bcdm", *sys.argv[1:]])


def finish(
    records: "Sequence[Record]",
    path: Path | None,
    keys: Sequence[str] = (),
    columns: "Sequence[Column]" = (),
    form: "Callable[[Sequence[Record]], str] | None" = None,
) -> None:
    """Shows records, and writes them; with columns a page of them, too, beside the file.

    What is shown is a line a record, unless there is another `form`.
    Ends the process with exit code 1 where a record misses what is required of it.
    """
    from bcdm.assessment.records import all_hold, format_table, make_page, write_records

    for row in (form or format_table)(records).splitlines():
        answer(row)
    if path is not None:
        write_records(path, records)
        say(f"wrote {path}")
        if columns:
            page = path.with_suffix(".md")
            page.write_text(make_page(records, keys, columns))
            say(f"wrote {page}")
    if not all_hold(records):
        missed = sum(record.holds is False for record in records)
        raise SystemExit(f"{missed} of {len(records)} rows miss what is required")
