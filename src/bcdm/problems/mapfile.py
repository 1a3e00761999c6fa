"""Coil maps that were measured, from a file: what training warps into those of other coils."""

import zipfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bcdm.errors import InputError

__all__ = ["read_measured"]


@lru_cache(maxsize=4)
def read_measured(path: Path) -> tuple[Tensor, ...]:
    """Sets of maps, complex64 (coils, H, W) each; a file is read once a process.

    Args:
        path: An .npz or .npy file. Every complex array of three axes in it is a set; others, such
            as the image that the maps belong to, are left alone.
    """
    try:
        with path.open("rb") as stream:
            stored = np.load(stream, allow_pickle=False)
            held = [stored] if isinstance(stored, np.ndarray) else [stored[k] for k in stored]
    except OSError as error:
        raise InputError(f"cannot read coil maps {path}: {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} holds no coil maps ({error}): give .npz or .npy") from None
    sets = [a for a in held if a.dtype.kind == "c" and a.ndim == 3 and a.size]
    if not sets:
        raise InputError(f"{path} holds no coil maps: store complex arrays (coils, rows, columns)")
    if not all(bool(np.isfinite(maps).all()) for maps in sets):
        raise InputError(f"{path} holds coil maps that are not finite: estimate them anew")
    return tuple(torch.from_numpy(maps.astype(np.complex64)) for maps in sets)
