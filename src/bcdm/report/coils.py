"""What complex images and their coils show beside a magnitude: phases and maps."""

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from bcdm.operators import LinearOperator, Sense
from bcdm.reconstruction.features import crop_middle
from bcdm.reconstruction.posterior import Posterior
from bcdm.report.content import Array, Aside

__all__ = ["make_asides", "tile"]

_SIDE = 64  # pixels of a coil's map in the picture of all, at most
_SHOWN = 32


def make_asides(posterior: Posterior, size: Sequence[int]) -> tuple[Aside, ...]:
    """The phase of the mean's middle, and the maps of the coils; nothing for real images."""
    if not posterior.samples.is_complex():
        return ()
    phase = _to_array(crop_middle(posterior.mean, size)[0, 0].angle())
    note = "Of the mean, relative to what all coils see together; in air it is anything."
    return (Aside("Phase", note, phase, "phase"), *_show_coils(posterior.measurement.operator))


def _show_coils(operator: LinearOperator) -> tuple[Aside, ...]:
    if not isinstance(operator, Sense) or operator.maps.shape[-3] == 1:
        return ()
    maps = operator.maps.reshape(-1, *operator.maps.shape[-3:])[0]
    count = len(maps)
    step = max(1, math.ceil(max(maps.shape[-2:]) / _SIDE))
    some = maps[:_SHOWN, ::step, ::step]
    told = f"{count} coils" if count <= _SHOWN else f"the first {_SHOWN} of {count} coils"
    note = f"What each of {told} sees, after their noise was made independent."
    return (
        Aside("Coil maps", note, tile(_to_array(some.abs()))),
        Aside("Phase of the coil maps", note, tile(_to_array(some.angle())), "phase"),
    )


def tile(pictures: Array) -> Array:
    """Pictures (n, h, w) beside and below each other; places that are left are zero."""
    count, rows, columns = pictures.shape
    across = math.ceil(math.sqrt(count))
    down = math.ceil(count / across)
    filled = np.zeros((down * across, rows, columns), pictures.dtype)
    filled[:count] = pictures
    laid = filled.reshape(down, across, rows, columns).transpose(0, 2, 1, 3)
    return np.asarray(laid.reshape(down * rows, across * columns))


def _to_array(part: Tensor) -> Array:
    array: Array = part.cpu().float().numpy()
    return array
