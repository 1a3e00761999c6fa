"""Intervals by ranks hold what they promise, for few samples too."""

import pytest
import torch

from bcdm.errors import InputError
from bcdm.evaluation.ranks import find_interval, resolves


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_intervals_hold_what_they_promise(level: float) -> None:
    values = torch.randn(20, 40000, generator=torch.Generator().manual_seed(0))
    low, high = find_interval(values[:19], level)
    held = float(((low <= values[19]) & (values[19] <= high)).double().mean())
    # Four standard errors of 40,000 cases.
    assert abs(held - level) < 4 * (level * (1 - level) / 40000) ** 0.5


def test_few_samples_resolve_little() -> None:
    assert resolves(9, 0.8)
    assert not resolves(8, 0.8)
    assert not resolves(9, 0.0)
    with pytest.raises(InputError, match="9 samples resolve intervals up to 80%, not 90%"):
        find_interval(torch.zeros(9), 0.9)
