"""Stored operators come back the same, and nothing else is accepted."""

import pytest
import torch

from bcdm.checkpoint import load_operator, save_operator
from bcdm.errors import InputError
from bcdm.operators import (
    BlockMean,
    CircularBlur,
    Dense,
    FourierMask,
    Identity,
    LinearOperator,
    MatrixFree,
    PixelMask,
)

MASK = torch.arange(16).reshape(4, 4) % 3 == 0


@pytest.mark.parametrize(
    "operator",
    [
        Identity(),
        PixelMask(MASK),
        BlockMean((2, 4), "mean"),
        FourierMask(MASK, real=True, centered=False),
        CircularBlur(torch.tensor([[0.2, 0.5, 0.3]]), (4, 4)),
        Dense(torch.arange(32.0).reshape(2, 16), (1, 4, 4)),
    ],
    ids=lambda operator: type(operator).__name__,
)
def test_round_trip(operator: LinearOperator, tmp_path) -> None:
    save_operator(operator, tmp_path / "operator.safetensors")
    loaded = load_operator(tmp_path / "operator.safetensors")
    assert type(loaded) is type(operator)
    assert loaded.settings() == operator.settings()
    x = torch.randn(2, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(loaded.forward(x), operator.forward(x))
    assert torch.equal(loaded.solve(1.0, 2.0, x), operator.solve(1.0, 2.0, x))


def test_operators_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        PixelMask(MASK).mask = ~MASK  # type: ignore[misc]


def test_refusals(tmp_path) -> None:
    with pytest.raises(InputError, match="cannot be stored"):
        save_operator(MatrixFree(lambda x: x, shape=(2,)), tmp_path / "a")
    (tmp_path / "b").write_bytes(b"not safetensors")
    with pytest.raises(InputError, match="not a readable"):
        load_operator(tmp_path / "b")
    with pytest.raises(InputError, match="not a readable"):
        load_operator(tmp_path / "absent")
