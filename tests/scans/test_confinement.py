"""What a process does where its system lacks a limit.

Other systems are imitated by taking away what they lack; nothing here ran on them.
"""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bcdm.scans.confinement import explain_end, is_out_of_time, limit_memory, limit_work


def test_windows_has_neither_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.delattr(signal, "setitimer")
    assert not limit_memory(1 << 30)
    assert not limit_work(1.0)


def test_windows_names_no_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SIGPROF", "SIGKILL"):
        monkeypatch.delattr(signal, name)
    assert not is_out_of_time(-27)
    assert "crashes" in str(explain_end(Path("a"), 0xC0000005))
    assert "installation" in str(explain_end(Path("a"), 1))


def test_macos_refuses_to_limit_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    asked, space = [], resource.RLIMIT_AS

    def refuse(kind: int, limits: tuple[int, int]) -> None:
        asked.append(kind)
        if kind == space:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert not limit_memory(1 << 30)
    assert asked == [resource.RLIMIT_CORE, space]
    monkeypatch.delattr(resource, "RLIMIT_AS")
    assert not limit_memory(1 << 30)


LIMITED = """
import signal
from bcdm.scans.confinement import limit_memory, limit_work
signal.signal(signal.SIGPROF, signal.SIG_IGN)
{}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory")
@pytest.mark.parametrize(
    ("deed", "code"),
    [
        ("assert limit_memory(1 << 30)\nbytearray(1 << 31)", 1),
        ("assert limit_work(0.1)\nwhile True: pass", -signal.SIGPROF),
        ("assert limit_work(0.1)\nlimit_work(0)\nsum(range(10**7))", 0),
    ],
)
def test_linux_has_both(deed: str, code: int) -> None:
    done: Any = subprocess.run([sys.executable, "-c", LIMITED.format(deed)], capture_output=True)
    assert done.returncode == code, done.stderr
    assert (b"MemoryError" in done.stderr) == (code == 1)
