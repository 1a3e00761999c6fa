"""Operators that a user names: stored in a file, or by their settings."""

from pathlib import Path

from bcdm.checkpoint.building import build_operator
from bcdm.checkpoint.operators import load_operator
from bcdm.checkpoint.settings import parse_operator
from bcdm.operators import LinearOperator

__all__ = ["read_operator"]


def read_operator(text: str, size: tuple[int, int]) -> LinearOperator:
    """A stored operator, or one for images of `size` by its settings.

    >>> read_operator("{kind: block_mean, factor: [2, 2]}", (16, 16)).factor
    (2, 2)
    """
    if Path(text).suffix == ".safetensors":
        return load_operator(Path(text))
    return build_operator(parse_operator(text), size)
