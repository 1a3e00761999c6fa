"""Maps of coils by a body coil, which sees everything alike: coil image over body image."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.fft import fftshift, ifft2, ifftshift

from bcdm.coils.calibration import find_centre
from bcdm.coils.phase import align_phase
from bcdm.coils.smoothing import fill_smoothly
from bcdm.errors import InputError, ShapeError
from bcdm.problems.coils import normalise_maps

__all__ = ["estimate_by_body"]

_AXES = (-2, -1)
_LEAST = 4  # samples along each axis of the middle of k-space
_SMOOTH = 0.02  # of the field of view: standard deviation of the finest smoothing


def estimate_by_body(
    kspace: NDArray[np.complexfloating],
    body: NDArray[np.complexfloating],
    mask: NDArray[np.bool_] | None = None,
    *,
    smooth: float = _SMOOTH,
) -> NDArray[np.complex64]:
    """Maps of the coils, complex64 (coils, rows, columns), of unit root sum of squares everywhere.

    At each pixel the factor from the body coil's image to the coil's that fits its neighbours best,
    by least squares: bright ones count most. Where neighbours are dark, further ones are asked.

    Args:
        kspace: Of one slice, complex (coils, rows, columns), centred.
        body: The same slice by the body coil, (channels or none, rows, columns); of several
            channels the strongest mixture is taken.
        mask: What was sampled of the coils, (rows, columns); all if left out. Where there are gaps,
            only the middle without any is used, of the coils and of the body coil.
        smooth: How far neighbours are, as a fraction of the field of view.
    """
    if body.ndim not in (2, 3) or body.shape[-2:] != kspace.shape[-2:] or kspace.ndim != 3:
        raise ShapeError(
            f"the body coil's k-space {body.shape} does not fit that of the coils {kspace.shape}"
        )
    if mask is not None and not mask.all():
        window = _find_window(mask)
        kspace, body = kspace * window, body * window
    reference = _mix(body.reshape(-1, *body.shape[-2:]))
    images = _transform(torch.from_numpy(kspace.astype(np.complex64)))
    power = reference.abs().square()[None]
    # What is brighter than the noise is settled by near neighbours, the rest by further ones.
    ratio = fill_smoothly(images * reference.conj(), power, smooth, 10 * float(power.median()))
    found: NDArray[np.complex64] = normalise_maps(align_phase(ratio, kspace)).numpy()
    return found


def _find_window(mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """One in the middle of k-space that was sampled without gaps, falling towards its ends."""
    centre = find_centre(mask)
    if min(centre) < _LEAST:
        raise InputError(
            f"the middle of k-space has gaps ({centre[0]} x {centre[1]} samples without one): give "
            "the coils' maps"
        )
    lines = []
    for whole, side in zip(mask.shape, centre, strict=True):
        line, start = np.zeros(whole), whole // 2 - side // 2
        # An axis that was sampled wholly needs no end.
        line[start : start + side] = 1 if side == whole else np.hanning(side + 2)[1:-1]
        lines.append(line)
    return np.multiply.outer(*lines).astype(np.float32)


def _mix(body: NDArray[np.complexfloating]) -> Tensor:
    """One image of all channels, (H, W)."""
    channels = torch.from_numpy(body.astype(np.complex64))
    flat = channels.flatten(1)
    strongest = torch.linalg.eigh(flat @ flat.mH).eigenvectors[:, -1]
    return torch.einsum("c,chw->hw", strongest.conj(), _transform(channels))


def _transform(kspace: Tensor) -> Tensor:
    return fftshift(ifft2(ifftshift(kspace, _AXES), norm="ortho"), _AXES)
