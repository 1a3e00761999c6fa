r"""Maps of coils from the middle of k-space (ESPIRiT, Uecker et al. 2014).

Every patch of k-space of all coils is a linear map of one patch of the image's k-space, so that
patches fill few of the directions that they could. With $P$ the projection onto those, $P$ as a
convolution is a matrix of the coils at every pixel, and the maps there are its eigenvector of
eigenvalue 1.

Written here and not taken from sigpy because sigpy calibrates on a square alone: where a mask has
few lines in the middle, that is a small part of what was sampled (docs/decisions/0027).
"""

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor
from torch.fft import fftshift, ifft2, ifftshift

from bcdm.coils.calibration import crop_centre, find_centre
from bcdm.coils.phase import align_phase
from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.problems.coils import normalise_maps

__all__ = ["estimate_maps"]

_GRID = 48  # pixels a side on which maps are computed: kernels know no finer detail
_LEAST = 4  # samples along each axis of the middle of k-space
_WIDEST = 6  # kernel, in samples
_LONGEST = 64  # samples of the middle along an axis that are used
_CHUNK = 32  # kernels at a time


def estimate_maps(
    kspace: NDArray[np.complexfloating],
    mask: NDArray[np.bool_],
    *,
    threshold: float = 0.02,
    kernel: int | None = None,
) -> NDArray[np.complex64]:
    """Maps of the coils, complex64 (coils, rows, columns), of unit root sum of squares everywhere.

    Also where nothing is: the model was trained with maps that see every pixel, and air that no
    coil sees would have no noise. Phases are relative to what all coils see together, so that they
    are smooth. Data whose noise is white gives better maps: see `whiten_coils`.

    Args:
        kspace: Of one slice, complex (coils, rows, columns), centred.
        mask: What was sampled, (rows, columns).
        threshold: Singular values of the patches that count as signal, relative to the first.
        kernel: Side of the patches in samples; left out, up to 6 as the middle of k-space allows.

    Raises:
        InputError: Where the middle of k-space has gaps.
    """
    if kspace.ndim != 3 or not np.iscomplexobj(kspace):
        raise DtypeError(f"k-space is complex (coils, rows, columns), got {kspace.shape}")
    if mask.shape != kspace.shape[1:]:
        raise ShapeError(f"mask {mask.shape} does not fit k-space {kspace.shape}")
    size = (kspace.shape[1], kspace.shape[2])
    if len(kspace) == 1:
        return np.ones((1, *size), np.complex64)
    centre = find_centre(mask)
    if min(centre) < min(_LEAST, *size):
        raise InputError(
            f"the middle of k-space has gaps ({centre[0]} x {centre[1]} samples without one, "
            f"{_LEAST} x {_LEAST} are needed): give the coils' maps"
        )
    centre = (min(centre[0], _LONGEST), min(centre[1], _LONGEST))
    middle = crop_centre(kspace, centre).astype(np.complex64)
    grid = (min(size[0], _GRID), min(size[1], _GRID))
    side = kernel or _choose_kernel(min(centre))
    kernels = _find_kernels(middle, min(side, *grid, *centre), threshold)
    maps = align_phase(_find_eigenvectors(kernels, grid), middle)
    found: NDArray[np.complex64] = normalise_maps(_enlarge(maps, size)).numpy()
    return found


def _choose_kernel(narrow: int) -> int:
    """Wide enough for the maps' detail, narrow enough for many patches in the middle."""
    return min(_WIDEST, max(3, round(0.4 * narrow)))


def _find_kernels(middle: NDArray[np.complex64], side: int, threshold: float) -> Tensor:
    """Directions that patches fill, complex64 (kernels, coils, side, side)."""
    coils = len(middle)
    patches = sliding_window_view(middle, (side, side), (-2, -1)).transpose(1, 2, 0, 3, 4)
    matrix = torch.from_numpy(patches.reshape(-1, coils * side * side).astype(np.complex128))
    # Singular values and right vectors from the smaller matrix: patches outnumber directions.
    squares, vectors = torch.linalg.eigh(matrix.mH @ matrix)
    taken = squares > threshold**2 * squares[-1]
    return vectors[:, taken].mH.reshape(-1, coils, side, side).to(torch.complex64)


def _find_eigenvectors(kernels: Tensor, grid: tuple[int, int]) -> Tensor:
    """The eigenvector of the largest eigenvalue at every pixel, complex64 (coils, *grid)."""
    coils, side = kernels.shape[1:3]
    total = torch.zeros(*grid, coils, coils, dtype=kernels.dtype)
    top, left = (extent // 2 - side // 2 for extent in grid)
    for part in kernels.split(_CHUNK):
        laid = part.new_zeros(len(part), coils, *grid)
        laid[..., top : top + side, left : left + side] = part
        seen = fftshift(ifft2(ifftshift(laid, (-2, -1)), norm="ortho"), (-2, -1))
        pixels = seen.permute(2, 3, 1, 0)
        total += pixels @ pixels.mH
    return torch.linalg.eigh(total).eigenvectors[..., -1].permute(2, 0, 1)


def _enlarge(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """The same field of view with more pixels, its middle where it was."""
    small = maps.shape[-2:]
    if tuple(small) == size:
        return maps
    parts = torch.view_as_real(maps.contiguous()).permute(3, 0, 1, 2)
    for axis, (old, new) in enumerate(zip(small, size, strict=True)):
        parts = _resample(parts, axis + 2, old, new)
    return torch.complex(parts[0], parts[1])


def _resample(parts: Tensor, axis: int, old: int, new: int) -> Tensor:
    """Cubic interpolation along one axis of a field that is periodic."""
    if old == new:
        return parts
    at = (torch.arange(new, dtype=torch.float64) - new // 2) * old / new + old // 2
    below = at.floor()
    part = (at - below).to(parts.dtype)
    weights = _cubic(part)
    shape = [-1 if k == axis else 1 for k in range(parts.ndim)]
    first = below.long()
    taken = [parts.index_select(axis, (first + shift) % old) for shift in (-1, 0, 1, 2)]
    return torch.stack(
        [one * weight.reshape(shape) for one, weight in zip(taken, weights, strict=True)]
    ).sum(0)


def _cubic(part: Tensor) -> list[Tensor]:
    """Weights of the four neighbours (Catmull and Rom)."""
    square, cube = part**2, part**3
    return [
        (-cube + 2 * square - part) / 2,
        (3 * cube - 5 * square + 2) / 2,
        (-3 * cube + 4 * square + part) / 2,
        (cube - square) / 2,
    ]
