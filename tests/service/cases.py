"""A small service of its own processes, and a client."""

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from tests.archive.cases import measure_rows

from bcdm.benchmark import serving as benchmark
from bcdm.benchmark.serving import Server

TOKENS = {
    "owner": "owner-token-0123456789",
    "clinic": "clinic-token-0123456789",
    "viewer": "viewer-token-0123456789",
}
LINES = "\n".join(
    f"{name} {scopes} {TOKENS[name]}"
    for name, scopes in (("owner", "admin"), ("clinic", "submit,read"), ("viewer", "read"))
)
FAST = {"samples": 9, "calls": 2, "batch": 16, "noise_std": 2.5, "force": "true"}


def write_scan(path: Path, model: Path, number: int = 0) -> Path:
    """K-space of one slice, as `bcdm reconstruct` takes it."""
    y = measure_rows(model, number + 1)[number]
    np.savez(path, kspace=y[None])
    return path


class Client(benchmark.Client):
    """Submits jobs that take no time, and must be taken."""

    def __init__(self, port: int, token: str | None = TOKENS["clinic"]) -> None:
        super().__init__(port, token)

    def submit(self, scan: Path, **asked: Any) -> str:
        """Submits a file; gives the id."""
        status, _, content = self.try_submit(scan, FAST | asked)
        assert status == 202, content
        return json.loads(content)["id"]


def serving(model: Path, work: Path, *options: str) -> AbstractContextManager[Server]:
    return benchmark.serving(model, work, LINES, *options)
