"""A strip is a whole problem of its own."""

import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.errors import InputError
from bcdm.operators import FourierMask, LinearOperator, Sense
from bcdm.problems.strips import cut_strips

SIZE, LINES = (12, 16), 4


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.complex128, generator=generator)


def make_operator(pattern: str) -> Sense:
    flags = torch.from_numpy(np.random.default_rng(0).random((3, *SIZE)) < 0.4)
    if pattern == "columns":
        flags = flags[:, :1].expand(-1, *SIZE)
    if pattern == "rows":
        flags = flags[:, :, :1].expand(-1, *SIZE)
    return Sense(normal(3, 2, *SIZE, seed=1), flags[:, None], tolerance=1e-12, adaptive=False)


@pytest.mark.parametrize("pattern", ["columns", "rows"])
def test_what_is_solved_on_a_strip_is_what_is_solved_on_the_whole(pattern: str) -> None:
    whole, x = make_operator(pattern), normal(3, 1, *SIZE)
    counters = [5, 6, 7]
    cut, strip = cut_strips(x, whole, LINES, seed=0, counters=counters)
    assert cut.shape == ((3, 1, LINES, 16) if pattern == "columns" else (3, 1, 12, LINES))
    # The whole is cut at the same places.
    for act in (LinearOperator.gram, lambda operator, x: operator.solve(0.1, 3.0, x)):
        expected, _ = cut_strips(act(whole, x), whole, LINES, seed=0, counters=counters)
        torch.testing.assert_close(act(strip, cut), expected, rtol=0, atol=1e-9)


def test_strips_begin_anywhere_and_always_at_the_same_place() -> None:
    operator, x = make_operator("columns"), torch.arange(12.0)[:, None].expand(3, 1, 12, 16)
    first = []
    for k in range(60):
        cut, _ = cut_strips(x, operator, LINES, seed=0, counters=[k, k + 1, k])
        assert torch.equal(cut[0], cut[2])
        first.append(int(cut[0, 0, 0, 0]))
    assert set(first) == set(range(12 - LINES + 1))


def test_refuses() -> None:
    x = normal(3, 1, *SIZE)
    with pytest.raises(InputError, match="whole lines"):
        cut_strips(x, make_operator("points"), LINES, seed=0, counters=[0, 1, 2])
    with pytest.raises(InputError, match="does not fit"):
        cut_strips(x, make_operator("columns"), 13, seed=0, counters=[0, 1, 2])
    single = FourierMask(torch.ones(SIZE, dtype=torch.bool))
    with pytest.raises(InputError, match="receivers"):
        cut_strips(x, single, LINES, seed=0, counters=[0, 1, 2])
