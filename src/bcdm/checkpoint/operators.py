"""Operators as files, and what tells one from another that cannot be stored."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from bcdm import operators
from bcdm.checkpoint.settings import CustomConfig
from bcdm.checkpoint.tensorfile import write_tensors
from bcdm.errors import InputError
from bcdm.operators import LinearOperator

__all__ = ["describe_operator", "is_storable", "load_operator", "save_operator"]

_FORMAT = "bcdm.operator/1"
_KINDS = {
    kind.__name__: kind
    for kind in (
        operators.BlockMean,
        operators.CircularBlur,
        operators.Dense,
        operators.FourierMask,
        operators.Identity,
        operators.PixelMask,
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
    """Reads an operator that `save_operator` wrote."""
    try:
        with safe_open(str(path), "pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} is not a readable operator file: {error}") from None
    if header.get("format") != _FORMAT or header.get("operator") not in _KINDS:
        raise InputError(
            f"{path} holds {header.get('format', 'no operator')}: this version reads {_FORMAT}"
        )
    kind = _KINDS[header["operator"]]
    settings = json.loads(header["settings"])
    loaded: LinearOperator = kind(**tensors, **settings)
    return loaded


def describe_operator(operator: LinearOperator, shape: tuple[int, ...]) -> CustomConfig:
    """What tells an operator for images of `shape` from others, give or take rounding."""
    probe = torch.randn(1, *shape, generator=torch.Generator().manual_seed(0))
    try:
        measured = operator.forward(probe)
    except (RuntimeError, IndexError) as error:
        line = " ".join(str(error).split())[:200]
        raise InputError(f"the operator does not take images {tuple(shape)}: {line}") from None
    size = float(f"{float(measured.abs().square().sum().sqrt()):.4g}")
    name, sides = type(operator).__name__, tuple(measured.shape[1:])
    return CustomConfig(kind="custom", name=name, measured=sides, size=size)
