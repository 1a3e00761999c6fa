import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from bcdm import spool
from bcdm.errors import MachineError
from bcdm.files import write_arrays
from bcdm.spool import each, make_array, release, stack


def test_small_arrays_stay_in_memory_and_large_ones_lie_on_disk() -> None:
    small, large = make_array((3, 4), np.float32), make_array((9, 1 << 20), np.float32)
    assert not isinstance(small, np.memmap)
    assert isinstance(large, np.memmap)
    assert not small.any()
    assert not large.any()


def test_parts_are_what_was_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "SMALL", 0)
    numbers = np.random.default_rng(0).normal(size=(5, 3, 4)) + 1j
    held = stack(iter(numbers), 5)
    assert isinstance(held, np.memmap)
    np.testing.assert_array_equal(held, numbers)
    release(held)
    np.testing.assert_array_equal(held, numbers)
    parts = list(each(held))
    np.testing.assert_array_equal(parts, numbers)
    # Parts are copies: they stay when the whole is changed.
    held[:] = 0
    np.testing.assert_array_equal(parts, numbers)


def count_resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts pages as Linux does")
def test_of_an_array_on_disk_a_part_is_in_memory() -> None:
    """A tensor that shares it, too, gives its pages back."""
    part, count = np.ones(1 << 20, np.float64), 16
    before = count_resident()
    held = stack((part for _ in range(count)), count)
    tensor = torch.from_numpy(held)
    assert sum(float(one.sum()) for one in each(held)) == held.size
    assert count_resident() - before < held.nbytes / 4
    assert float(tensor.sum()) == held.size
    assert count_resident() - before > held.nbytes / 2
    del held
    release(tensor.numpy())
    assert count_resident() - before < tensor.nbytes / 4
    assert float(tensor[3, 5]) == 1


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spool, "SMALL", 0)
    monkeypatch.setattr(spool, "_reserve", fail)
    with pytest.raises(MachineError, match=r"no room for .* set TMPDIR to another disk"):
        make_array((4, 4), np.float32)


def test_files_of_arrays_on_disk_have_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = np.arange(60, dtype=np.complex64).reshape(5, 3, 4)
    write_arrays(tmp_path / "one.npz", {"y": numbers, "level": 0.8})
    monkeypatch.setattr(spool, "SMALL", 0)
    write_arrays(tmp_path / "other.npz", {"y": stack(iter(numbers), 5), "level": 0.8})
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()
