"""A volume in the layout of fastMRI, and what a process holds in memory."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from experiments.scans.volume import find_memory, write_volume

from bcdm.scans import read_scan


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Heads of a held-out patient in the layout of OpenMS."""
    rows, columns = np.mgrid[:48, :48] - 24
    heads = [200.0 * (np.hypot(rows - k, 1.2 * columns) < 17) for k in range(2)]
    (tmp_path / "brain_openms_raw").mkdir()
    np.savez(
        tmp_path / "brain_openms_raw/openms_raw_axial256.npz",
        images=np.stack(heads).astype(np.uint8),
        subject=np.array(["patient19"] * 2),
    )
    return tmp_path


def test_slices_take_turns_and_keep_their_pixels(data: Path) -> None:
    write_volume(data / "volume.h5", data, 3, 64)
    scan = read_scan(data / "volume.h5")
    assert scan.format == "fastMRI HDF5"
    assert scan.data.shape == (3, 8, 64, 64)
    np.testing.assert_array_equal(scan.data[0], scan.data[2])
    assert scan.facts["acceleration"] == pytest.approx(4, rel=0.05)
    assert scan.facts["spacing in mm"][:2] == [1, 1]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads what Linux tells")
def test_memory_is_that_of_a_process_and_of_those_it_started() -> None:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        assert find_memory(child.pid) > 0
        assert find_memory(os.getpid()) < 2 * most
        assert find_memory(os.getpid()) >= find_memory(child.pid)
    finally:
        child.communicate(b"\n")
