"""Maps of coils by a body coil, which sees everything alike: coil image over body image."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.fft import fft2, fftshift, ifft2, ifftshift

from bcdm.coils.phase import align_phase
from bcdm.errors import ShapeError
from bcdm.problems.coils import normalise_maps

__all__ = ["estimate_by_body"]

_AXES = (-2, -1)
_SMOOTH = 0.02  # of the field of view: standard deviation of the finest smoothing
_STEPS = 6  # each twice as smooth as the one before: for places far from any signal


def estimate_by_body(
    kspace: NDArray[np.complexfloating],
    body: NDArray[np.complexfloating],
    *,
    smooth: float = _SMOOTH,
) -> NDArray[np.complex64]:
    """Maps of the coils, complex64 (coils, rows, columns), of unit root sum of squares everywhere.

    At each pixel the factor from the body coil's image to the coil's that fits its neighbours best,
    by least squares: bright ones count most. Where neighbours are dark, further ones are asked.

    Args:
        kspace: Of one slice, complex (coils, rows, columns), centred and fully sampled.
        body: The same slice by the body coil, (channels or none, rows, columns); of several
            channels the strongest mixture is taken.
        smooth: How far neighbours are, as a fraction of the field of view.
    """
    if body.ndim not in (2, 3) or body.shape[-2:] != kspace.shape[-2:] or kspace.ndim != 3:
        raise ShapeError(
            f"the body coil's k-space {body.shape} does not fit that of the coils {kspace.shape}"
        )
    reference = _mix(body.reshape(-1, *body.shape[-2:]))
    images = _transform(torch.from_numpy(kspace.astype(np.complex64)))
    products = images * reference.conj()
    power = reference.abs().square()[None].to(products.dtype)
    above = torch.zeros_like(products)
    weight = torch.zeros_like(power.real)
    noise = float(power.real.median())
    for step in range(_STEPS):
        width = smooth * 2**step
        top, bottom = _blur(products, width), _blur(power, width).real
        # What is brighter than the noise is settled by near neighbours, the rest by further ones.
        sure = (1 - weight) * (bottom / (bottom + 10 * noise) if step < _STEPS - 1 else 1.0)
        above = above + sure * top / bottom.clamp_min(1e-12 * float(power.real.max()))
        weight = weight + sure
    found: NDArray[np.complex64] = normalise_maps(align_phase(above, kspace)).numpy()
    return found


def _mix(body: NDArray[np.complexfloating]) -> Tensor:
    """One image of all channels, (H, W)."""
    channels = torch.from_numpy(body.astype(np.complex64))
    flat = channels.flatten(1)
    strongest = torch.linalg.eigh(flat @ flat.mH).eigenvectors[:, -1]
    return torch.einsum("c,chw->hw", strongest.conj(), _transform(channels))


def _transform(kspace: Tensor) -> Tensor:
    return fftshift(ifft2(ifftshift(kspace, _AXES), norm="ortho"), _AXES)


def _blur(images: Tensor, width: float) -> Tensor:
    """A Gaussian of a standard deviation `width` of the field of view."""
    rows, columns = (torch.fft.fftfreq(side, 1 / side) for side in images.shape[-2:])
    decay = torch.exp(-2 * (torch.pi * width) ** 2 * (rows[:, None] ** 2 + columns**2))
    return ifft2(fft2(images) * decay)
