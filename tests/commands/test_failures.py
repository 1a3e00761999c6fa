"""What is at fault, in one line and an exit code."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from bcdm.commands.failures import describe_failure
from bcdm.errors import InputError, MachineError, ModelError, ShapeError


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (InputError("no such slice"), "error: no such slice", 2),
        (ShapeError("too small"), "error: too small", 2),
        (ModelError("its weights are nan"), "error of the model: its weights are nan", 2),
        (MachineError("too little memory"), "error of the machine: too little memory", 3),
        (MemoryError(), "error of the machine: memory does not last", 3),
        (FileNotFoundError(errno.ENOENT, "Not there", "a"), "error: [Errno 2] Not there: 'a'", 2),
        (OSError(errno.ENOSPC, "Full"), f"error of the machine: [Errno {errno.ENOSPC}] Full", 3),
        (
            ModuleNotFoundError("gone", name="matplotlib.pyplot"),
            "error: this needs the package matplotlib, which is not installed: "
            "pip install 'bcdm[figures]'",
            2,
        ),
    ],
)
def test_every_failure_has_its_line_and_code(error, line: str, code: int) -> None:
    assert describe_failure(error) == (line, code)


def test_of_several_inputs_the_one_at_fault_is_named() -> None:
    assert describe_failure(InputError("empty"), "a.npz") == ("error: a.npz: empty", 2)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bcdm", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_model_at_fault_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    done = run("evaluate", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error of the model: ")
    assert len(done.stderr.splitlines()) == 1


def test_help_names_the_exit_codes() -> None:
    shown = " ".join(run("--help").stdout.split())
    for words in ("0 done", "1 a check failed", "2 the command", "3 the machine", "130 interr"):
        assert words in shown


LOG = """
import logging, sys, warnings
from bcdm.commands.echo import listen
listen()
logging.getLogger("bcdm.reconstruction.items").warning("a\\x1b[2J failed", exc_info=ValueError())
warnings.warn("odd\\nname")
"""


def test_what_the_library_logs_or_warns_of_is_one_line_each() -> None:
    done = subprocess.run([sys.executable, "-c", LOG], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [r"a\x1b[2J failed", r"warning: odd\nname"]
