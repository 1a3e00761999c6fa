"""Which lines of which files every test reaches, and what it costs."""

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import pytest

__all__ = ["Tracing"]


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

        def on_call(frame: FrameType, event: str, _: object) -> Any:
            return on_line if frame.f_code.co_filename in self.files else None

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
