"""Maps that somebody has: read from a file, and carried on where they were cut off."""

import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
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
        # Opened here: of a damaged file numpy leaves it open.
        with path.open("rb") as opened:
            if opened.read(2) != b"PK":
                whole: NDArray[Any] = np.load(path, "r", allow_pickle=False)
                return whole
            opened.seek(0)
            with np.load(opened, allow_pickle=False) as file:
                return _choose(path.name, file)
    except InputError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        raise InputError(
            f"{printable(path.name)} cannot be read as maps: give an .npy or .npz file"
        ) from None


def _choose(name: str, file: NpzFile) -> NDArray[Any]:
    """The maps among the arrays of a file."""
    named = [key for key in _NAMES if key in file.files]
    others = [key for key in file.files if file[key].dtype.kind == "c"]
    if not named and len(others) != 1:
        raise InputError(f"{printable(name)} holds {', '.join(file.files[:8])}: name one 'maps'")
    held: NDArray[Any] = file[named[0] if named else others[0]]
    return held
