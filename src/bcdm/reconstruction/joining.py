"""Measurements of different operators in one batch, where their operators are of one kind."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bcdm.measurement import Measurement
from bcdm.operators import BlockMean, CircularBlur, FourierMask, Identity, LinearOperator, PixelMask

__all__ = ["find_kind", "join_measurements"]

# Those that may hold a tensor (B, 1 or C, H, W), and in which field. Dense may hold a matrix for
# each measurement, but would decompose them anew in each batch.
_BATCHED: dict[type[LinearOperator], str] = {
    CircularBlur: "kernel",
    FourierMask: "mask",
    PixelMask: "mask",
}
# Those that are their settings and nothing else.
_PLAIN = (BlockMean, Identity)


def find_kind(measurement: Measurement) -> Hashable:
    """What two measurements must have in common to be joined."""
    y, operator = measurement.y, measurement.operator
    data = (tuple(y.shape[1:]), y.dtype, y.device)
    kind, field = type(operator), _BATCHED.get(type(operator))
    if kind not in _PLAIN and (field is None or y.ndim != 4):
        return (*data, _Same(operator))
    settings = repr(sorted(operator.settings().items()))
    if field is None:
        return (*data, kind, settings)
    tensor = _spread(getattr(operator, field))
    return (*data, kind, settings, tuple(tensor.shape[1:]), tensor.dtype, tensor.device)


def join_measurements(parts: Sequence[Measurement]) -> Measurement:
    """A batch of single measurements that are all of one kind."""
    first = parts[0]
    if all(part is first for part in parts):
        return first.repeat(len(parts))
    y = torch.cat([part.y for part in parts])
    std = torch.cat([part.std for part in parts])
    return Measurement(y, _join_operators(parts), std)


def _join_operators(parts: Sequence[Measurement]) -> LinearOperator:
    operator = parts[0].operator
    if type(operator) in _PLAIN or all(part.operator is operator for part in parts):
        return operator
    field = _BATCHED[type(operator)]
    tensors = [_spread(getattr(part.operator, field)) for part in parts]
    changes: dict[str, Any] = {field: torch.cat(tensors)}
    return replace(operator, **changes)


def _spread(tensor: Tensor) -> Tensor:
    """(B, C, H, W), with 1 for what it does not have."""
    return tensor.reshape(*[1] * (4 - tensor.ndim), *tensor.shape)


class _Same:
    """Equal to itself alone, as the operator it holds."""

    def __init__(self, operator: LinearOperator) -> None:
        self.operator = operator

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.operator is self.operator

    def __hash__(self) -> int:
        return id(self.operator)
