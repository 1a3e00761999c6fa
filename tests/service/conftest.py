from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.cases import Client, serving, write_scan

from bcdm.benchmark.serving import Server


@pytest.fixture(scope="session")
def server(scanner: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One service for all tests that kill nothing."""
    work = tmp_path_factory.mktemp("service") / "work"
    with serving(scanner, work, "--device", "cpu") as one:
        yield one


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server.port)


@pytest.fixture(scope="session")
def scan(scanner: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scan(tmp_path_factory.mktemp("scans") / "scan.npz", scanner)
