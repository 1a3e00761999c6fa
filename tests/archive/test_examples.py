"""The examples for array jobs, with a command in the place of bcdm that notes how it is called."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from bcdm.archive.shards import choose_part
from bcdm.commands.entry import cli

EXAMPLES = Path(__file__).parents[2] / "examples" / "archive"


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bcdm").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/noted\n')
    (tmp_path / "bcdm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "noted"


def find_part(noted: Path) -> str:
    """The part that was asked for, by options that the command has."""
    called = noted.read_text().splitlines()
    assert called[:2] == ["archive", "run"]
    known = CliRunner().invoke(cli, ["archive", "run", "--help"]).output
    assert all(word in known for word in called if word.startswith("--"))
    return called[called.index("--part") + 1]


def test_slurm(noted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = EXAMPLES / "slurm.sh"
    last = int(re.search(r"--array=0-(\d+)", script.read_text())[1])
    shards: list[int] = []
    for index in (0, 1, last):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", str(index))
        subprocess.run([script, "in put", "out", "model"], check=True)
        assert "in put" in noted.read_text().splitlines()
        part = find_part(noted)
        assert part == f"{index}/{last + 1}"
        shards += choose_part(part, 2 * (last + 1))
    assert len(set(shards)) == 6


def test_kubernetes(noted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = yaml.safe_load((EXAMPLES / "kubernetes.yaml").read_text())["spec"]
    (container,) = job["template"]["spec"]["containers"]
    for one in container["env"]:
        monkeypatch.setenv(one["name"], one["value"])
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "7")
    assert job["completionMode"] == "Indexed"
    subprocess.run([*container["command"], *container["args"]], check=True)
    assert find_part(noted) == f"7/{job['completions']}"
    # What no other pod could do better ends the job: see the exit codes of bcdm --help.
    stop = job["podFailurePolicy"]["rules"][0]
    assert (stop["action"], stop["onExitCodes"]["values"]) == ("FailJob", [2])
