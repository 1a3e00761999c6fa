"""Which array of a file is meant, what its numbers are, and the order of its axes."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcdm.scans.complaints import refusal
from bcdm.scans.limits import check_name
from bcdm.scans.scan import Kind

__all__ = [
    "COMPLEX",
    "FLOAT",
    "arrange",
    "choose_key",
    "choose_kind",
    "kept_dtype",
    "name_axes",
    "shape_mask",
]

COMPLEX = np.dtype(np.complex64)
FLOAT = np.dtype(np.float32)

_KEYS = ("kspace", "images", "image", "y", "data")


def choose_key(path: Path, names: Iterable[str], key: str | None) -> str:
    """The array to read: the one asked for, or else the obvious one."""
    held = sorted(names)
    shown = ", ".join(held[:8]) or "nothing"
    if key is not None:
        check_name(path, key)
        if key not in held:
            raise refusal(path, f"holds no array {key!r}: choose one of {shown}")
        return key
    for name in _KEYS:
        if name in held:
            return name
    others = [name for name in held if name != "mask"]
    if len(others) != 1:
        raise refusal(path, f"holds {shown}: name the array to read (--key)")
    return others[0]


def choose_kind(path: Path, name: str, dtype: np.dtype[Any]) -> Kind:
    """K-space if the numbers are complex, images if they are real."""
    if dtype.kind == "c":
        if name in ("image", "images"):
            raise refusal(path, f"holds complex numbers as {name!r}: store the magnitude")
        return "k-space"
    if dtype.kind not in "buif" or dtype.itemsize > 8:
        raise refusal(path, f"holds {dtype} as {name!r}: store an array of numbers")
    if name == "kspace":
        raise refusal(path, f"holds {dtype} as {name!r}: store k-space as complex numbers")
    return "image"


def kept_dtype(kind: Kind) -> np.dtype[Any]:
    """The number type that a scan of this kind has."""
    return COMPLEX if kind == "k-space" else FLOAT


def arrange(path: Path, array: NDArray[Any], kind: Kind) -> NDArray[Any]:
    """Brings an array to (slices, coils or channels, rows, columns).

    K-space may be (rows, columns), (coils, rows, columns) or (slices, coils, rows, columns).
    Images may be (rows, columns), (slices, rows, columns), (rows, columns, 3) or have channels,
    1 or 3, on the second or last of four axes.
    """
    if array.ndim == 2:
        return array[None, None]
    if array.ndim == 3 and kind == "k-space":
        return array[None]
    if array.ndim == 3:
        # A stack of images only three columns wide is less likely than one in colour.
        return np.moveaxis(array, -1, 0)[None] if array.shape[-1] == 3 else array[:, None]
    if array.ndim == 4 and kind == "k-space":
        return array
    first, last = (array.ndim == 4 and array.shape[axis] in (1, 3) for axis in (1, -1))
    if first == last:
        raise refusal(
            path,
            f"holds {kind} of shape {array.shape}: store (slices, "
            f"{'coils' if kind == 'k-space' else '1 or 3 channels'}, rows, columns)",
        )
    return array if first else np.moveaxis(array, -1, 1)


def name_axes(shape: tuple[int, ...], kind: Kind) -> dict[str, str]:
    """A fact on how `arrange` reads axes that could be meant in two ways, or none.

    >>> name_axes((4, 64, 64), "k-space")["read as"]
    '4 coils of one slice; store 4 slices of one coil as (4, 1, 64, 64)'
    """
    if kind != "k-space" or len(shape) != 3 or shape[0] == 1:
        return {}
    count, rows, columns = shape
    other = f"store {count} slices of one coil as ({count}, 1, {rows}, {columns})"
    return {"read as": f"{count} coils of one slice; {other}"}


def shape_mask(path: Path, mask: NDArray[Any], size: tuple[int, int]) -> NDArray[np.bool_]:
    """A mask (rows, columns) from one of that shape, or from one number per column."""
    if mask.dtype.kind not in "buif":
        raise refusal(path, f"holds a mask of {mask.dtype}: store zeros and ones")
    stored = mask.shape
    while mask.ndim > 2 and mask.shape[0] == 1:
        mask = mask[0]
    if mask.ndim == 1 and len(mask) == size[1]:
        mask = np.broadcast_to(mask, size)
    if mask.shape != size:
        raise refusal(path, f"holds a mask of shape {stored}: store {size}, that of the data")
    known = mask != 0
    if not bool(known.any()):
        raise refusal(path, "holds a mask of zeros: mark what is known by ones")
    return known
