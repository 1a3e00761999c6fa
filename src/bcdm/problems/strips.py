"""Parts of images that are whole inverse problems of their own."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from bcdm.errors import InputError
from bcdm.operators import LinearOperator, Sense

__all__ = ["cut_strips"]

# Counter of where a sample is cut, far from those of its noise and of its operator.
_STRIP_STEP = 1 << 59


def cut_strips(
    x: Tensor, operator: LinearOperator, lines: int, *, seed: int, counters: Sequence[int]
) -> tuple[Tensor, Sense]:
    r"""A strip of each image, and the operator that measures strips.

    Where whole columns of k-space are measured, $A^\top A$ couples pixels along rows only, with any
    coil maps: some rows with all their pixels are measured as if there were no others. Nothing is
    approximated. The same holds for whole rows with columns of the image.

    Args:
        x: Images (B, 1, H, W).
        operator: `Sense` whose masks are all of whole columns, or all of whole rows.
        lines: How many rows or columns of the image a strip has.
        seed: With the counters it says where strips begin.
        counters: One per image.
    """
    if not isinstance(operator, Sense):
        raise InputError("strips are cut for several coils: the family is of kind receivers")
    axis = _find_whole_axis(operator.mask)
    side = x.shape[axis]
    if lines > side:
        raise InputError(f"a strip of {lines} lines does not fit an image of {side}")
    starts = [_draw_start(seed, k, side - lines) for k in counters]
    maps = operator.maps if operator.maps.ndim == 4 else operator.maps[None]
    masks = operator.mask if operator.mask.ndim == 4 else operator.mask[None, None]
    maps, cut = (
        torch.stack([t.narrow(axis, s, lines) for t, s in zip(whole, starts, strict=True)])
        for whole in (maps.expand(len(x), -1, -1, -1), x)
    )
    return cut, replace(operator, maps=maps, mask=masks.narrow(axis, 0, lines))


def _find_whole_axis(mask: Tensor) -> int:
    """The axis along which every mask is constant: there the image may be cut."""
    for axis in (-2, -1):
        if bool((mask == mask.narrow(axis, 0, 1)).all()):
            return axis
    raise InputError("strips need masks of whole lines: patterns that are all columns, or all rows")


def _draw_start(seed: int, counter: int, last: int) -> int:
    stream = np.random.Philox(key=[seed, counter], counter=[0, 0, 0, _STRIP_STEP])
    return int(np.random.Generator(stream).integers(0, last + 1))
