"""Operators of other libraries as ours. Nothing of theirs is imported: what they do is enough."""

from typing import Any, Protocol

import torch
from torch import Tensor

from bcdm.errors import InputError, ShapeError
from bcdm.operators.base import LinearOperator
from bcdm.operators.fourier import FourierMask
from bcdm.operators.krylov import MatrixFree
from bcdm.operators.pixel import PixelMask

__all__ = ["Physics", "from_physics"]

_CLOSE = 1e-4


class Physics(Protocol):
    """A linear physics in deepinv's terms."""

    def A(self, x: Tensor, **kwargs: Any) -> Tensor:  # noqa: N802
        """Measures."""
        ...

    def A_adjoint(self, y: Tensor, **kwargs: Any) -> Tensor:  # noqa: N802
        """Maps back."""
        ...


def from_physics(
    physics: Physics, y: Tensor, shape: tuple[int, ...]
) -> tuple[Tensor, LinearOperator]:
    """Data and operator of a deepinv physics for images of one shape, in our terms.

    Where the physics keeps some pixels, or some frequencies (single-coil MRI), and a random image
    confirms it, the operator has a closed form; otherwise it is iterative, from `A` and `A_adjoint`
    alone. MRI there has images of two channels, real and imaginary part: images here of one channel
    are the real part.

    Args:
        physics: Linear, the same for all measurements unless it has a closed form.
        y: What it measured, (B, ...).
        shape: Of our images, (C, H, W).
    """
    theirs = tuple(physics.A_adjoint(y[:1]).shape[1:])
    real = shape[0] == 1 and theirs == (2, *shape[1:])
    if theirs != tuple(shape) and not real:
        raise ShapeError(f"the physics has images of {theirs}, the model of {tuple(shape)}")
    probe = torch.randn(len(y), *shape, generator=torch.Generator().manual_seed(0))
    probe = probe.to(y.device, y.dtype if y.is_floating_point() else torch.float32)

    def measure(x: Tensor) -> Tensor:
        return physics.A(torch.cat([x, torch.zeros_like(x)], 1) if real else x)

    def back(data: Tensor) -> Tensor:
        return physics.A_adjoint(data)[:, :1] if real else physics.A_adjoint(data)

    _check_adjoint(measure(probe), probe, y, back)
    mask = getattr(physics, "mask", None)
    if isinstance(mask, Tensor):
        for data, operator in _guess(mask, y, real):
            if _agrees(operator, probe, measure(probe), real):
                return data, operator
    return y, MatrixFree(measure, back, shape=tuple(shape))


def _guess(mask: Tensor, y: Tensor, real: bool) -> list[tuple[Tensor, LinearOperator]]:
    """What a mask may mean: k-space of two channels, or pixels."""
    if not real:
        return [(y, PixelMask(mask != 0))] if bool(((mask == 0) | (mask == 1)).all()) else []
    kept = mask[..., :1, :, :] if mask.ndim >= 3 else mask
    kept = kept.reshape(-1, 1, *kept.shape[-2:]) if kept.ndim != 2 else kept
    k_space = torch.complex(y[:, :1].contiguous(), y[:, 1:].contiguous())
    return [(k_space, FourierMask(kept != 0, real=True, centered=c)) for c in (True, False)]


def _agrees(operator: LinearOperator, x: Tensor, expected: Tensor, real: bool) -> bool:
    try:
        found = operator.forward(x)
    except (InputError, RuntimeError):
        return False
    if real:
        found = torch.cat([found.real, found.imag], 1)
    if found.shape != expected.shape:
        return False
    return float((found - expected).norm()) <= _CLOSE * float(expected.norm())


def _check_adjoint(measured: Tensor, x: Tensor, y: Tensor, back: Any) -> None:
    """Refuses what is not linear, or whose adjoint is none."""
    if measured.shape != y.shape:
        raise ShapeError(f"the physics measures {tuple(measured.shape)}, y is {tuple(y.shape)}")
    other = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y)
    one, two = (measured * other).sum(), (x * back(other)).sum()
    if float((one - two).abs()) > 1e-2 * float(measured.norm() * other.norm()):
        raise InputError("A_adjoint is not the adjoint of A: give a linear physics")
