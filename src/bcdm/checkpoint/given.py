"""Operators that a user names: stored in a file, by their settings, or by an import path."""

from pathlib import Path

import torch

from bcdm.checkpoint.building import build_operator
from bcdm.checkpoint.model import Model
from bcdm.checkpoint.operators import load_operator
from bcdm.checkpoint.settings import parse_operator
from bcdm.errors import InputError
from bcdm.imports import find_object, is_import_path
from bcdm.operators import FourierMask, LinearOperator, PixelMask
from bcdm.scans import read_mask

__all__ = ["read_operator", "read_operator_for"]

# What settings and families of either kind are called; an operator from a file by its class.
_K_SPACE = {"k_space", "fourier_mask", "FourierMask"}
_PIXELS = {"holes", "centre_box", "PixelMask"}
_EXAMPLE = "{kind: block_mean, factor: [2, 2]}"


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
        if not Path(text).is_file():
            raise InputError(f"there is no file {text}")
        return load_operator(Path(text))
    if ":" not in text:  # which all settings have
        if not Path(text).is_file():
            raise InputError(f"there is no file {text}, and it is no settings such as {_EXAMPLE}")
        raise InputError(
            f"{text} is no stored operator (.safetensors by bcdm.checkpoint.save_operator): if it "
            "is a mask, give it by --mask"
        )
    if is_import_path(text):
        if not code:
            raise InputError(
                f"{text} is Python code, which is not run here: store the operator by "
                "bcdm.checkpoint.save_operator, or reconstruct in Python by bcdm.reconstruct"
            )
        made = find_object(text)(size)
        if not isinstance(made, LinearOperator):
            raise InputError(f"{text} gives {type(made).__name__}, which is no LinearOperator")
        return made
    return build_operator(parse_operator(text), size)


def read_operator_for(text: str, model: Model) -> LinearOperator:
    """An operator for a model's images, as `read_operator`, or a file with a mask.

    A mask (a picture, .npy, .npz or NIfTI, anything but zero) is one of k-space or of pixels as
    what the model was trained for.
    """
    size = (model.shape[-2], model.shape[-1])
    if not Path(text).is_file() or Path(text).suffix == ".safetensors":
        return read_operator(text, size)
    own = model.config.operator
    kinds: set[str] = {one.kind for one in own.members} if own.kind == "family" else {own.kind}
    if own.kind == "custom":
        kinds.add(own.name)
    if bool(kinds & _K_SPACE) == bool(kinds & _PIXELS):
        raise InputError(
            f"{model.name} does not say whether the mask {text} is of k-space or of pixels: store "
            "the operator by bcdm.checkpoint.save_operator, and name that file"
        )
    mask = torch.from_numpy(read_mask(text, size))
    return FourierMask(mask, real=True) if kinds & _K_SPACE else PixelMask(mask)
