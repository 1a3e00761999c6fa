"""Measurements of different operators in one batch, where their operators are of one kind."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bcdm.measurement import Measurement
from bcdm.operators import (
    BlockMean,
    CircularBlur,
    FourierMask,
    Identity,
    LinearOperator,
    PixelMask,
    Sense,
)

__all__ = ["Same", "find_kind", "join_measurements"]

# Those that may hold tensors (B, 1 or C, H, W), and in which fields. Dense may hold a matrix for
# each measurement, but would decompose them anew in each batch.
_BATCHED: dict[type[LinearOperator], tuple[str, ...]] = {
    CircularBlur: ("kernel",),
    FourierMask: ("mask",),
    PixelMask: ("mask",),
    Sense: ("maps", "mask"),
}
# Those that are their settings and nothing else.
_PLAIN = (BlockMean, Identity)


class Same:
    """Equal to itself alone, as the object it holds."""

    def __init__(self, content: object) -> None:
        self.content = content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.content is self.content

    def __hash__(self) -> int:
        return id(self.content)


def find_kind(measurement: Measurement) -> Hashable:
    """What two single measurements must have in common to be joined."""
    y, operator = measurement.y, measurement.operator
    data, kind = (tuple(y.shape[1:]), y.dtype, y.device), type(operator)
    if kind not in _PLAIN and (kind not in _BATCHED or y.ndim != 4):
        return (*data, Same(operator))
    tensors = [_spread(getattr(operator, name)) for name in _BATCHED.get(kind, ())]
    shapes = tuple((tuple(t.shape[1:]), t.dtype, t.device) for t in tensors)
    return (*data, kind, repr(sorted(operator.settings().items())), shapes)


def join_measurements(parts: Sequence[Measurement]) -> Measurement:
    """A batch of single measurements that are all of one kind."""
    y = torch.cat([part.y for part in parts])
    std = torch.cat([part.std for part in parts])
    return Measurement(y, _join_operators([part.operator for part in parts]), std)


def _join_operators(operators: Sequence[LinearOperator]) -> LinearOperator:
    first = operators[0]
    if type(first) in _PLAIN or all(one is first for one in operators):
        return first
    changes: dict[str, Any] = {
        name: torch.cat([_spread(getattr(one, name)) for one in operators])
        for name in _BATCHED[type(first)]
    }
    return replace(first, **changes)


def _spread(tensor: Tensor) -> Tensor:
    """(B, C, H, W), with 1 for what it does not have."""
    return tensor.reshape(*[1] * (4 - tensor.ndim), *tensor.shape)
