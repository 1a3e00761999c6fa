from pathlib import Path

import numpy as np
import pytest
from tests.archive.cases import FAST, measure_rows, write_table

from bcdm.archive.job import Job


@pytest.fixture(scope="session")
def rows(scanner: Path) -> np.ndarray:
    return measure_rows(scanner, 10)


@pytest.fixture
def table(tmp_path: Path, rows: np.ndarray) -> Path:
    return write_table(tmp_path / "table.zarr", rows)


@pytest.fixture
def job(tmp_path: Path, table: Path, scanner: Path) -> Job:
    return Job(str(table), str(tmp_path / "out"), str(scanner), shard=4, **FAST)
