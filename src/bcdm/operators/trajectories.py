"""MRI off the grid: operators of mri-nufft as ours. Nothing of theirs is imported."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from bcdm.errors import InputError
from bcdm.operators.checking import find_adjoint_error
from bcdm.operators.krylov import MatrixFree

__all__ = ["Trajectory", "from_mri_nufft"]

# Far above the rounding of a transform in single precision, far below what a weight does.
_CLOSE = 1e-3
_Map = Callable[[np.ndarray], np.ndarray]


class Trajectory(Protocol):
    """A non-Cartesian Fourier operator in the terms of mri-nufft."""

    shape: tuple[int, ...]
    n_coils: int
    n_samples: int

    def op(self, data: np.ndarray) -> np.ndarray:
        """Measures one image."""
        ...

    def adj_op(self, coeffs: np.ndarray) -> np.ndarray:
        """Maps one measurement back."""
        ...


def from_mri_nufft(operator: Trajectory, *, real: bool = False) -> MatrixFree:
    """An operator of mri-nufft for images (B, 1, H, W) and data (B, coils, samples).

    It is iterative, and runs on the processor whatever device images are on. It may be
    differentiated.

    Args:
        operator: Of one slice, with coil maps if it has several coils, without density
            compensation: whose weights make `adj_op` another map than the adjoint.
        real: Whether our images are real although measurements are complex.

    Raises:
        InputError: If it has several coils without maps, or `adj_op` is not the adjoint.
    """
    size, coils = tuple(operator.shape), operator.n_coils
    if len(size) != 2 or getattr(operator, "n_batchs", 1) != 1:
        raise InputError(f"the operator must be of one slice, not of {size}: one for each slice")
    if coils > 1 and getattr(operator, "smaps", None) is None:
        raise InputError(f"the operator has {coils} coils and no maps of them: give smaps")

    def forward(image: np.ndarray) -> np.ndarray:
        return operator.op(image.reshape(size)).reshape(coils, operator.n_samples)

    def adjoint(data: np.ndarray) -> np.ndarray:
        return operator.adj_op(data).reshape(1, *size)

    def measure(x: Tensor) -> Tensor:
        whole = torch.complex(x, torch.zeros_like(x)) if not x.is_complex() else x
        return _Action.apply(whole, forward, adjoint)  # type: ignore[no-untyped-call]

    def back(y: Tensor) -> Tensor:
        image: Tensor = _Action.apply(y, adjoint, forward)  # type: ignore[no-untyped-call]
        return image.real if real else image

    probe = torch.zeros(1, 1, *size, dtype=torch.float32 if real else torch.complex64)
    with torch.no_grad():
        if find_adjoint_error(measure, back, probe) > _CLOSE:
            raise InputError(
                "adj_op is not the adjoint of op: make the operator without density compensation"
            )
    return MatrixFree(measure, back, shape=(1, *size), real=real)


class _Action(torch.autograd.Function):
    """A map of arrays on a batch of complex tensors; its derivative is the other map."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, there: _Map, home: _Map) -> Tensor:
        ctx.there, ctx.home = there, home
        # Contiguous and single: what plans of transforms are made for.
        arrays = x.detach().cpu().to(torch.complex64).contiguous().numpy()
        found = np.stack([np.asarray(there(one)) for one in arrays])
        return torch.from_numpy(found).to(x.device, x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _Action.apply(grads[0], ctx.home, ctx.there), None, None  # type: ignore[no-untyped-call]
