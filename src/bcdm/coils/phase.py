"""The phase that coils have in common: maps are known up to it, so it is chosen to be smooth."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["align_phase"]


def align_phase(maps: Tensor, middle: NDArray[np.complexfloating]) -> Tensor:
    """Turns the maps so that a virtual coil, the strongest mixture of all, has no phase.

    The first coil alone would not do: where it sees nothing, its phase is anything.

    Args:
        maps: Complex (coils, H, W).
        middle: The middle of k-space, (coils, rows, columns): what shows how strong coils are.
    """
    flat = torch.from_numpy(middle.reshape(len(middle), -1).astype(np.complex128))
    strongest = torch.linalg.eigh(flat @ flat.mH).eigenvectors[:, -1]
    # An eigenvector has any phase: that of the strongest coil is taken as none.
    loudest = int(strongest.abs().argmax())
    strongest = strongest * (strongest[loudest].conj() / strongest[loudest].abs())
    seen = torch.einsum("c,chw->hw", strongest.conj().to(maps.dtype), maps)
    return maps * torch.exp(-1j * seen.angle())
