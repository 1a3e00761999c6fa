"""The middle of k-space that was sampled without gaps: what maps are estimated from."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcdm.errors import ShapeError

__all__ = ["crop_centre", "find_centre"]


def find_centre(mask: NDArray[np.bool_]) -> tuple[int, int]:
    """Rows and columns of the box about the origin that was sampled without gaps.

    Of all such boxes that of the largest shorter side, then of the largest longer one: kernels have
    to fit into it. Nothing is (0, 0).

    Args:
        mask: What was sampled, (rows, columns), the origin at (rows // 2, columns // 2).

    >>> mask = np.zeros((8, 8), bool)
    >>> mask[:, 3:6] = True
    >>> find_centre(mask)
    (8, 3)
    """
    if mask.ndim != 2:
        raise ShapeError(f"a mask has axes (rows, columns), got {mask.shape}")
    best = (0, 0)
    for rows in range(1, mask.shape[0] + 1):
        box = np.asarray(crop_centre(mask, (rows, mask.shape[1])).all(0))
        columns = _find_run(box)
        found = (rows, columns)
        if columns and (min(found), max(found)) > (min(best), max(best)):
            best = found
    return best


def crop_centre(array: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """The box of `size` about the origin of the last two axes; its origin is in its middle, too."""
    starts = [whole // 2 - side // 2 for whole, side in zip(array.shape[-2:], size, strict=True)]
    rows, columns = (slice(at, at + side) for at, side in zip(starts, size, strict=True))
    return array[..., rows, columns]


def _find_run(line: NDArray[np.bool_]) -> int:
    """The longest box about the middle of a line that holds no gap."""
    whole = len(line)
    for side in range(whole, 0, -1):
        start = whole // 2 - side // 2
        if line[start : start + side].all():
            return side
    return 0
