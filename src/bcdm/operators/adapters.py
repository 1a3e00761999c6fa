"""Operators of other libraries as ours. Nothing of theirs is imported: what they do is enough."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.fft import rfft2

from bcdm.errors import InputError, ShapeError
from bcdm.operators.base import LinearOperator
from bcdm.operators.checking import find_adjoint_error
from bcdm.operators.factored import Factored, Outer
from bcdm.operators.fourier import CircularBlur, FourierMask
from bcdm.operators.krylov import MatrixFree
from bcdm.operators.pixel import PixelMask

__all__ = ["FEW", "Physics", "from_deepinv"]

_CLOSE = 1e-4
_ADJOINT = 1e-2  # where measurements are simulated in float32 by approximate projectors
FEW = 1024
_FACTORS = ("U", "U_adjoint", "V", "V_adjoint")


class Physics(Protocol):
    """A linear physics in deepinv's terms."""

    def A(self, x: Tensor, **kwargs: Any) -> Tensor:  # noqa: N802
        """Measures."""
        ...

    def A_adjoint(self, y: Tensor, **kwargs: Any) -> Tensor:  # noqa: N802
        """Maps back."""
        ...


@dataclass(frozen=True)
class _Action:
    """What a physics does to images of ours.

    Attributes:
        measure: Images to data.
        back: The adjoint.
        probe: Random images, one for each measurement.
        real: Whether the physics splits images into real and imaginary part, and ours are real.
    """

    measure: Callable[[Tensor], Tensor]
    back: Callable[[Tensor], Tensor]
    probe: Tensor
    real: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an image."""
        return tuple(self.probe.shape[1:])


def from_deepinv(
    physics: Physics, y: Tensor, shape: tuple[int, ...], *, few: int = FEW
) -> tuple[Tensor, LinearOperator]:
    """Data and operator of a deepinv physics for images of one shape, in our terms.

    The operator has a closed form where random images confirm that the physics keeps pixels or
    frequencies (single-coil MRI), is a periodic filter, has the singular value decomposition that
    it states (`U`, `V`, `mask`), has an A A^T that is a periodic filter (downsampling) or a
    multiple of the identity (rows of an orthonormal transform), or measures few numbers, so that
    A A^T can be decomposed. Otherwise it is iterative, from `A`
    and `A_adjoint` alone. MRI there has images of two channels, real and imaginary part: images
    here of one channel are the real part.

    Args:
        physics: Linear, the same for all measurements unless it has a closed form.
        y: What it measured, (B, ...).
        shape: Of our images, (C, H, W).
        few: Numbers of a measurement up to which A A^T is written out.
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

    action = _Action(measure, back, probe, real)
    with torch.no_grad():
        _check_adjoint(action, y)
        for data, operator in _guess(physics, action, y, few):
            if _agrees(operator, action):
                return data, operator
    return y, MatrixFree(measure, back, shape=tuple(shape))


def _guess(
    physics: Physics, action: _Action, y: Tensor, few: int
) -> Iterator[tuple[Tensor, LinearOperator]]:
    """What a physics may be, simple forms first."""
    mask = getattr(physics, "mask", None)
    if isinstance(mask, Tensor) and action.real:
        yield from _guess_frequencies(mask, y)
    if action.real:
        return
    if isinstance(mask, Tensor) and bool(((mask == 0) | (mask == 1)).all()):
        yield y, PixelMask(mask != 0)
    if y.shape[1:] == action.probe.shape[1:]:
        yield y, _find_blur(action)
    if isinstance(mask, Tensor) and all(hasattr(physics, name) for name in _FACTORS):
        singular = mask if mask.ndim >= 2 else mask.reshape(1, -1)
        theirs: Any = physics
        factors = theirs.U, theirs.U_adjoint, theirs.V, theirs.V_adjoint
        yield y, Factored(*factors, singular, action.shape)
    yield from ((y, one) for one in _guess_outer(action, y))
    if y[0].numel() <= few and y.is_floating_point():
        yield y, _write_out(action, y)


def _guess_frequencies(mask: Tensor, y: Tensor) -> Iterator[tuple[Tensor, LinearOperator]]:
    """K-space of two channels, its origin in the middle or in the corner."""
    kept = mask[..., :1, :, :] if mask.ndim >= 3 else mask
    kept = kept.reshape(-1, 1, *kept.shape[-2:]) if kept.ndim != 2 else kept
    if y.ndim != 4 or y.shape[1] != 2:
        return
    k_space = torch.complex(y[:, :1].contiguous(), y[:, 1:].contiguous())
    for centered in (True, False):
        yield k_space, FourierMask(kept != 0, real=True, centered=centered)


def _find_blur(action: _Action) -> CircularBlur:
    """The periodic filter that does to a point what the physics does to it."""
    rows, columns = action.shape[-2:]
    point = torch.zeros_like(action.probe)
    point[..., rows // 2, columns // 2] = 1
    kernel = action.measure(point)
    if bool((kernel == kernel[:1]).all()):
        kernel = kernel[:1]
    return CircularBlur(kernel, (rows, columns))


def _guess_outer(action: _Action, y: Tensor) -> Iterator[Outer]:
    r"""$A A^\top$ as a multiple of the identity, or as a periodic filter of the data."""
    point = torch.zeros_like(y)
    point.flatten(1)[:, 0] = 1
    size = action.measure(action.back(point)).flatten(1)[:1, 0]
    yield Outer(action.measure, action.back, size, action.shape)
    if y.ndim != 4:
        return
    point = torch.zeros_like(y)
    point[..., 0, 0] = 1
    response = action.measure(action.back(point))[:1]
    eigenvalues = rfft2(response.double()).real.clamp_min(0).to(response.dtype)
    if float(eigenvalues.max()) > 0:
        yield Outer(action.measure, action.back, eigenvalues, action.shape)


def _write_out(action: _Action, y: Tensor) -> Outer:
    r"""$A A^\top$ as a matrix, decomposed: of few data that is soon done."""
    count = y[0].numel()
    units = torch.eye(count, dtype=y.dtype, device=y.device).reshape(count, *y.shape[1:])
    power = action.measure(action.back(units)).flatten(1).double()
    eigenvalues, vectors = torch.linalg.eigh((power + power.mT) / 2)
    found = eigenvalues.clamp_min(0).to(y.dtype), action.shape, vectors.to(y.dtype)
    return Outer(action.measure, action.back, *found)


def _agrees(operator: LinearOperator, action: _Action) -> bool:
    r"""Whether an operator measures as the physics does, and $(A^\top A)^2$ is theirs."""
    x = action.probe
    expected = action.measure(x)
    once = action.back(expected)
    twice = action.back(action.measure(once))
    try:
        found = operator.forward(x)
        again = operator.gram_function(lambda e: e**2, x)
    except (InputError, RuntimeError, IndexError, TypeError):
        return False
    if action.real:
        found = torch.cat([found.real, found.imag], 1)
    return all(
        one.shape == other.shape and float((one - other).norm()) <= _CLOSE * float(other.norm())
        for one, other in ((found, expected), (again, twice))
    )


def _check_adjoint(action: _Action, y: Tensor) -> None:
    """Refuses what is not linear, or whose adjoint is none."""
    measured = action.measure(action.probe)
    if measured.shape != y.shape:
        raise ShapeError(f"the physics measures {tuple(measured.shape)}, y is {tuple(y.shape)}")
    if find_adjoint_error(action.measure, action.back, action.probe) > _ADJOINT:
        raise InputError("A_adjoint is not the adjoint of A: give a linear physics")
