"""The log: one line of JSON for each event, without names of files, texts or numbers of scans."""

import json
import logging
import sys
import time
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, TextIO

__all__ = ["Journal", "Plain", "find_place"]

Plain = str | int | float | bool | None


class Journal:
    """Writes events.

    Args:
        stream: Where to; standard error when left out.
    """

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr

    def note(self, event: str, facts: Mapping[str, Plain] | None = None) -> None:
        """Notes an event. Facts are counts, times, states and ids: nothing that a client wrote."""
        line = {"time": round(time.time(), 3), "event": event, **(facts or {})}
        # A disk that is full, or a reader that is gone, stops the log and nothing else.
        with suppress(OSError, ValueError):
            # In one piece: the server notes events from several threads.
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()

    def listen(self) -> None:
        """From now on, errors that the server logs and warnings are noted, too, without texts."""
        handler = _Handler(self)
        for name in ("uvicorn.error", "asyncio", "bcdm"):
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [handler], False
            logger.setLevel(logging.WARNING)
        warnings.showwarning = self._note_warning

    def _note_warning(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        facts = {"kind": category.__name__, "place": f"{Path(filename).name}:{lineno}"}
        self.note("warning", facts)


class _Handler(logging.Handler):
    """An error by its kind and place: its text may quote what somebody sent."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.WARNING)
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        facts: dict[str, Plain] = {"from": record.name, "level": record.levelname}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            facts |= {"kind": type(error).__name__, "place": find_place(error)}
        self._journal.note("warning", facts)


def find_place(error: BaseException) -> str:
    """Where an error was raised: the file and line, nothing else."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
