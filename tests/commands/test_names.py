"""File names of any kind: bytes that are not UTF-8, and escapes that would steer a terminal."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

NAMES = {b"scan-\xff.npz": "scan-\\xff.npz", b"scan-\x1b[2J\n.npz": "scan-\\x1b[2J\\n.npz"}


def run(*arguments: object, encoding: str = "utf-8") -> tuple[int, str]:
    """The exit code, and all that reached the terminal; it is checked to be harmless."""
    words = [os.fsencode(a) if isinstance(a, Path) else str(a).encode() for a in arguments]
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"bcdm", *words],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": encoding},
        check=False,
    )
    shown = (done.stdout + done.stderr).decode(encoding)
    assert "Traceback" not in shown
    assert "\x1b" not in shown
    return done.returncode, shown


@pytest.fixture(params=NAMES, ids=["not UTF-8", "escapes"])
def scan(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / os.fsdecode(request.param)
    with path.open("wb") as file:
        image = np.random.default_rng(0).random((1, 1, 16, 16), np.float32)
        np.savez(file, image=image)
    return path


def test_a_name_of_any_kind_is_inspected(scan: Path) -> None:
    code, shown = run("inspect", scan)
    assert code == 0, shown
    assert NAMES[os.fsencode(scan.name)] in shown


def test_a_name_of_any_kind_is_reconstructed_and_verified(
    scan: Path, masked: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    given = ("--operator", "{kind: centre_box, box: [4, 4]}", "--noise-std", "0.05", "--force")
    code, shown = run(
        "reconstruct", scan, "--model", masked, "-o", out, "--samples", 9, "--calls", 1, *given
    )
    assert code == 0, shown
    assert "report.html" in shown
    assert NAMES[os.fsencode(scan.name)] in shown
    code, shown = run("verify", out / "run.json", "--model", masked)
    assert code == 0, shown


def test_a_folder_that_is_not_utf8_is_refused_at_once(scan: Path, tmp_path: Path) -> None:
    out = tmp_path / os.fsdecode(b"out-\xfe")
    code, shown = run("reconstruct", scan, "--model", "ixi64-mri", "-o", out)
    assert code == 2
    assert "out-\\xfe is not UTF-8" in shown
    assert not out.exists()


def test_a_name_that_is_not_there_is_one_line(scan: Path, tmp_path: Path) -> None:
    absent = scan.rename(scan.with_suffix(".moved")).with_suffix(".gone\x1b[2J")
    code, shown = run("inspect", absent)
    assert code == 2
    assert len(shown.splitlines()) == 1, shown
    code, shown = run("verify", absent)
    assert code == 2
    assert "does not exist" in shown


def test_a_terminal_of_few_characters_shows_codes(tmp_path: Path) -> None:
    np.savez(tmp_path / "a–b.npz", image=np.ones((16, 16), np.float32))
    code, shown = run("inspect", tmp_path / "a–b.npz", encoding="latin-1")
    assert code == 0, shown
    assert shown.startswith(r"a\u2013b.npz: ")
