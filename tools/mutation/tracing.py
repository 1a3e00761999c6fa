"""Which lines of which files every test reaches, and what it costs."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import pytest

__all__ = ["Tracing"]

# Calls of one function in one test that are looked at: later ones hardly reach other lines.
ENOUGH = 30


@dataclass(eq=False)
class Tracing:
    """A plugin of pytest.

    Attributes:
        files: Whose lines count.
        found: From a test to its CPU seconds and the lines that it reached.
        idle: From a test that did not pass to how it ended.
    """

    files: frozenset[str]
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    idle: dict[str, str] = field(default_factory=dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Around a test with its fixtures."""
        reached: set[tuple[str, int]] = set()

        calls: Counter[CodeType] = Counter()

        def on_call(frame: FrameType, event: str, _: object) -> Any:
            code = frame.f_code
            if code.co_filename not in self.files:
                return None
            calls[code] += 1
            return on_line if calls[code] <= ENOUGH else None

        def on_line(frame: FrameType, event: str, _: object) -> Any:
            reached.add((frame.f_code.co_filename, frame.f_lineno))
            return on_line

        began = time.process_time()
        threading.settrace(on_call)
        sys.settrace(on_call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            seconds = time.process_time() - began
            if item.nodeid not in self.idle:
                self.found[item.nodeid] = {"seconds": seconds, "lines": sorted(reached)}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tests that are skipped, or fail without any mutant, guard nothing."""
        if not report.passed:
            self.idle[report.nodeid] = report.outcome
