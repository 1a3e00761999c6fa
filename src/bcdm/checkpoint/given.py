"""Operators that a user names: stored in a file, by their settings, or by an import path."""

from pathlib import Path

from bcdm.checkpoint.building import build_operator
from bcdm.checkpoint.operators import load_operator
from bcdm.checkpoint.settings import parse_operator
from bcdm.errors import InputError
from bcdm.imports import find_object, is_import_path
from bcdm.operators import LinearOperator

__all__ = ["read_operator"]


def read_operator(text: str, size: tuple[int, int], *, code: bool = False) -> LinearOperator:
    """A stored operator, or one for images of `size` by its settings or by who makes it.

    Args:
        text: A file, settings, or an import path "package.module:name" of what makes an operator
            for a size (rows, columns).
        size: Of the images.
        code: Whether an import path is taken: its module is run. Only for texts that the user of
            this machine typed.

    >>> read_operator("{kind: block_mean, factor: [2, 2]}", (16, 16)).factor
    (2, 2)
    """
    if Path(text).suffix == ".safetensors":
        return load_operator(Path(text))
    if code and is_import_path(text):
        made = find_object(text)(size)
        if not isinstance(made, LinearOperator):
            raise InputError(f"{text} gives {type(made).__name__}, which is no LinearOperator")
        return made
    return build_operator(parse_operator(text), size)
