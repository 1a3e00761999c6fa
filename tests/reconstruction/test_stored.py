from types import SimpleNamespace

import numpy as np
import pytest

from bcdm.reconstruction.stored import StoredPosteriors
from bcdm.reconstruction.units import Units


class Store:
    """Counts what is read of it."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __getitem__(self, number: int) -> np.ndarray:
        self.read.append(number)
        return np.full((5, 1, 4, 4), number, np.float32)


def test_samples_are_read_when_a_slice_is_looked_at() -> None:
    store = Store()
    fitted = SimpleNamespace(
        measure=lambda number: f"measurement {number}", units=Units(taken=True)
    )
    previews = np.stack([np.full((1, 4, 4), number, np.float32) for number in range(3)])
    slices = StoredPosteriors(None, fitted, store, previews)
    assert len(slices) == 3
    assert store.read == []
    last = slices[-1]
    assert store.read == [2]
    assert last.measurement == "measurement 2"
    assert last.samples.shape == (5, 1, 1, 4, 4)
    assert last.scale_taken
    assert float(last.mean.mean()) == float(last.preview.mean()) == 2
    assert [float(one.mean[0, 0, 0, 0]) for one in slices] == [0, 1, 2]
    assert [one.measurement for one in slices[1:]] == ["measurement 1", "measurement 2"]
    with pytest.raises(IndexError):
        slices[3]
