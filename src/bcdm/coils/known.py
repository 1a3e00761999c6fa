"""Maps that somebody has: read from a file, and carried on where they were cut off."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bcdm.coils.smoothing import fill_smoothly
from bcdm.errors import InputError
from bcdm.spool import each, stack
from bcdm.text import printable

__all__ = ["extend_maps", "read_maps"]

_NAMES = ("maps", "sens", "sens_maps", "sensitivities", "smaps", "csm")
_CUT = 1e-3  # of the strongest place: below it maps were cut off


def read_maps(path: Path, shape: tuple[int, int, int, int]) -> NDArray[np.complex64]:
    """Maps of the coils from an .npy or .npz file, complex64 (slices or 1, coils, rows, columns).

    Args:
        path: Of the file. An .npz holds them as its only complex array, or as one of the usual
            names.
        shape: Slices, coils, rows and columns of the k-space that they are for.
    """
    found = _load(path)
    if found.ndim == 3:
        found = found[None]
    fits = found.ndim == 4 and found.shape[1:] == shape[1:] and len(found) in (1, shape[0])
    if not fits or not np.iscomplexobj(found):
        raise InputError(
            f"{printable(path.name)} holds maps {found.dtype} {found.shape}: the scan needs "
            f"complex ones of (coils, rows, columns) {shape[1:]}, one for all slices or for each"
        )
    # The largest magnitude tells both: nan and infinity survive a maximum.
    largest = float(np.max([np.abs(one).max() for one in each(found)]))
    if not 0 < largest < math.inf:
        raise InputError(f"{printable(path.name)} holds no maps: values are not finite, or all 0")
    return stack((one.astype(np.complex64) for one in each(found)), len(found))


def extend_maps(maps: NDArray[np.complexfloating]) -> NDArray[np.complex64]:
    """Maps (coils, rows, columns) without places that no coil sees: neighbours fill them.

    Many programs cut maps off in air. A pixel that no coil sees is one that was not measured, which
    is not what air is.
    """
    total = np.sqrt((np.abs(maps) ** 2).sum(0))
    seen = torch.from_numpy(total > _CUT * total.max())
    whole = torch.from_numpy(maps.astype(np.complex64))
    if bool(seen.all()):
        return whole.numpy()
    filled = fill_smoothly(whole * seen, seen[None].to(torch.float32), 0.01)
    found: NDArray[np.complex64] = torch.where(seen, whole, filled).numpy()
    return found


def _load(path: Path) -> NDArray[Any]:
    try:
        loaded = np.load(path, "r", allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded as file:
            named = [name for name in _NAMES if name in file.files]
            others = [name for name in file.files if file[name].dtype.kind == "c"]
            name = named[0] if named else others[0] if len(others) == 1 else None
            if name is None:
                raise InputError(
                    f"{printable(path.name)} holds {', '.join(file.files[:8])}: name one 'maps'"
                )
            held: NDArray[Any] = file[name]
            return held
    except InputError:
        raise
    except (OSError, ValueError, EOFError):
        raise InputError(
            f"{printable(path.name)} cannot be read as maps: give an .npy or .npz file"
        ) from None
