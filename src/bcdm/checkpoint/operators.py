"""Operators as files, and what tells one from another that cannot be stored."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bcdm import operators
from bcdm.checkpoint.kinds import CustomConfig, OperatorConfig
from bcdm.checkpoint.tensorfile import (
    UNUSABLE,
    read_tensors,
    shorten,
    stream_tensors,
    write_tensors,
)
from bcdm.errors import InputError, ModelError
from bcdm.operators import LinearOperator

__all__ = [
    "agree",
    "describe_operator",
    "is_storable",
    "load_operator",
    "save_operator",
    "stream_operator",
]

_FORMAT = "bcdm.operator/1"
_LARGEST, _MOST = 1 << 32, 1 << 26  # bytes of a file; pixels of an image
_PROJECTIONS = 8
# Far above float rounding and the tolerance of iterations, far below what operators differ by.
_CLOSE = 1e-3
_KINDS = {
    kind.__name__: kind
    for kind in (
        operators.BlockMean,
        operators.CircularBlur,
        operators.Dense,
        operators.Diagonal,
        operators.FourierMask,
        operators.Identity,
        operators.PixelMask,
        operators.Radon,
        operators.Sense,
    )
}


def is_storable(operator: LinearOperator) -> bool:
    """Whether an operator is tensors and plain values alone, of a kind that this version reads."""
    return type(operator).__name__ in _KINDS


def save_operator(operator: LinearOperator, path: str | Path) -> None:
    """Writes an operator to one safetensors file: its tensors, and its settings as metadata."""
    kind = type(operator).__name__
    if not is_storable(operator):
        raise InputError(
            f"{kind} is made of Python code and cannot be stored: store what builds it, or a Dense"
        )
    settings = json.dumps(operator.settings())
    header = {"format": _FORMAT, "operator": kind, "settings": settings}
    tensors = {name: t.contiguous() for name, t in operator.tensors().items()}
    write_tensors(Path(path), tensors, header)


def load_operator(path: str | Path) -> LinearOperator:
    """Reads an operator that `save_operator` wrote.

    Raises:
        ModelError: The file cannot be used, whatever is in it.
    """
    try:
        tensors, header = read_tensors(Path(path), _LARGEST)
    except ModelError as error:
        line = str(error).removeprefix(f"{path} ")
        raise ModelError(f"{path} is not a readable operator file: {line}") from None
    if header.get("format") != _FORMAT or header.get("operator") not in _KINDS:
        found = shorten(header.get("format", "no operator"))
        raise ModelError(f"{path} holds {found}: this version reads {_FORMAT}")
    kind = _KINDS[header["operator"]]
    try:
        fields: dict[str, Any] = json.loads(header["settings"])
        _check_sizes(fields)
        loaded: LinearOperator = kind(**fields | tensors)
    except UNUSABLE as error:
        raise ModelError(f"{path} holds no {kind.__name__}: {shorten(error)}") from None
    return loaded


def stream_operator(path: Path) -> tuple[str, dict[str, Any], dict[str, Iterator[bytes]]]:
    """Kind, settings and the tensors' bytes of a stored operator that may not fit into memory."""
    tensors, header = stream_tensors(path)
    try:
        return header["operator"], json.loads(header["settings"]), tensors
    except UNUSABLE as error:
        raise ModelError(f"{path} holds no operator: {shorten(error)}") from None


def _check_sizes(settings: dict[str, Any]) -> None:
    """Refuses sides that no image has, before memory is taken for them."""
    for name, value in settings.items():
        if not isinstance(value, list):
            continue
        sides = [side for side in value if type(side) is int and side > 0]
        if len(sides) < len(value) or math.prod(sides) > _MOST:
            raise ModelError(f"{name} {shorten(value)} is no size of images")


def describe_operator(
    operator: LinearOperator, shape: tuple[int, ...], dtype: torch.dtype = torch.float32
) -> CustomConfig:
    """What tells an operator for images of `shape` from others, give or take rounding.

    Fixed images of noise are measured. Their measurements' length alone cannot tell a flip from a
    shift, so each is also projected on a fixed direction, in units of its length: for operators
    that differ, these are independent normal numbers.

    Args:
        operator: What measures.
        shape: Of an image without batch.
        dtype: Of images; `DataConfig.dtype` is that of a model's.
    """
    seeded = torch.Generator().manual_seed(0)
    images = [torch.randn(1, *shape, dtype=dtype, generator=seeded) for _ in range(_PROJECTIONS)]
    try:
        # One by one: an operator may be for one image at a time.
        measured = [operator.forward(image) for image in images]
    except (RuntimeError, IndexError) as error:
        line = " ".join(str(error).split())[:200]
        raise InputError(f"the operator does not take images {tuple(shape)}: {line}") from None
    size = float(f"{float(measured[0].abs().square().sum().sqrt()):.4g}")
    return CustomConfig(
        kind="custom",
        name=type(operator).__name__,
        measured=tuple(measured[0].shape[1:]),
        size=size,
        projections=tuple(_project(y, seeded) for y in measured),
    )


def _project(y: Tensor, seeded: torch.Generator) -> float:
    """A measurement on the next random direction, in units of its length."""
    numbers = torch.view_as_real(y.resolve_conj()) if y.is_complex() else y
    numbers = numbers.detach().flatten().to("cpu", torch.float64)
    direction = torch.randn(len(numbers), generator=seeded, dtype=torch.float64)
    length = float(numbers.norm())
    return round(float(numbers @ direction) / length, 6) if length else 0.0


def agree(found: OperatorConfig, stored: OperatorConfig) -> bool:
    """Whether two settings are of the same operator; descriptions may differ by rounding."""
    if not (isinstance(found, CustomConfig) and isinstance(stored, CustomConfig)):
        return found == stored
    if (found.name, found.measured) != (stored.name, stored.measured):
        return False
    if not math.isclose(found.size, stored.size, rel_tol=_CLOSE):
        return False
    # Models of earlier versions hold the size alone.
    pairs = zip(found.projections, stored.projections, strict=False)
    whole = len(stored.projections) in (0, len(found.projections))
    return whole and all(abs(a - b) <= _CLOSE for a, b in pairs)
