"""Without Ray installed: the same archive, the same bits, and a line that says what is missing."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.archive.cases import find_hashes, open_job

from bcdm.archive.job import Job


@pytest.fixture
def run_blocked(tmp_path: Path, job: Job):
    """Runs `bcdm archive run` where importing Ray fails, in its workers, too."""
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    lines = 'raise ModuleNotFoundError("No module named \'ray\'", name="ray")\n'
    (blocked / "ray.py").write_text(lines)
    paths = [str(blocked), *sys.path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def run(*options: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-P", "-m", "bcdm", "archive", "run", job.source, job.out]
        command += ["--model", job.model, "--samples", str(job.samples), "--calls", str(job.calls)]
        command += ["--batch", str(job.batch), "--shard", str(job.shard), "--force", *options]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


def test_the_same_bits(run_blocked, job: Job, tmp_path: Path) -> None:
    refused = run_blocked("--ray", "local")
    assert refused.returncode == 2
    assert "pip install 'bcdm[ray]'" in refused.stderr
    done = run_blocked("--workers", "1")
    assert done.returncode == 0, done.stderr
    here = replace(job, out=str(tmp_path / "here"))
    unit = open_job(here)
    for shard in range(unit.head.shards):
        unit.run(shard)
    assert find_hashes(job) == find_hashes(here)
