"""Operators and models as files: plain settings and tensors, never pickle."""

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from bcdm import operators
from bcdm.errors import InputError
from bcdm.operators import LinearOperator

__all__ = ["load_operator", "save_operator"]

_FORMAT = "bcdm.operator/1"
_OPERATORS = {
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


def save_operator(operator: LinearOperator, path: str | Path) -> None:
    """Writes an operator to one safetensors file: its tensors, and its settings as metadata."""
    kind = type(operator).__name__
    if kind not in _OPERATORS:
        raise InputError(
            f"{kind} is made of Python code and cannot be stored: store what builds it, or a Dense"
        )
    header = {"format": _FORMAT, "operator": kind, "settings": json.dumps(operator.settings())}
    tensors = {name: t.contiguous() for name, t in operator.tensors().items()}
    save_file(tensors, str(path), header)


def load_operator(path: str | Path) -> LinearOperator:
    """Reads an operator that `save_operator` wrote."""
    try:
        with safe_open(str(path), "pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} is not a readable operator file: {error}") from None
    if header.get("format") != _FORMAT or header.get("operator") not in _OPERATORS:
        raise InputError(
            f"{path} holds {header.get('format', 'no operator')}: this version reads {_FORMAT}"
        )
    kind = _OPERATORS[header["operator"]]
    settings = json.loads(header["settings"])
    loaded: LinearOperator = kind(**tensors, **settings)
    return loaded
