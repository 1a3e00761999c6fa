"""Operators whose factors are functions: a decomposition that somebody else has worked out."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.fft import irfft2, rfft2

from bcdm.errors import InputError
from bcdm.operators.base import LinearOperator, Spectral, check_trailing

__all__ = ["Factored", "Outer"]

Action = Callable[[Tensor], Tensor]

# Of the largest eigenvalue: below it rounding has the say, and f is taken as linear down to 0.
_FLOOR = 1e-6


@dataclass(frozen=True, eq=False)
class Factored(LinearOperator):
    r"""A singular value decomposition $A = U S V^\top$ whose orthonormal factors are functions.

    Args:
        left: $U$ on batches of coefficients.
        left_adjoint: $U^\top$ on batches of data.
        right: $V$ on batches of coefficients.
        right_adjoint: $V^\top$ on batches of images. It need not keep all of an image: what it
            misses is not measured.
        singular: $S$, laid out as coefficients are, (B or 1, ...); real or complex.
        shape: Image shape without the batch.

    >>> import torch
    >>> same = lambda x: x
    >>> halves = Factored(same, same, same, same, torch.tensor([[0.5, 0.0]]), (2,))
    >>> halves.gram_function(lambda e: 1 / (1 + 4 * e), torch.tensor([[4.0, 4.0]]))
    tensor([[2., 4.]])
    """

    left: Action
    left_adjoint: Action
    right: Action
    right_adjoint: Action
    singular: Tensor
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        if self.singular.ndim < 2:
            raise InputError("the singular values of Factored have a batch axis, (B or 1, ...)")

    def forward(self, x: Tensor) -> Tensor:
        r"""$U S V^\top x$."""
        check_trailing("Factored", x, self.shape)
        return self.left(self.singular * self.right_adjoint(x))

    def adjoint(self, y: Tensor) -> Tensor:
        r"""$V \bar S U^\top y$."""
        return self.right(self.singular.conj() * self.left_adjoint(y))

    def gram_function(self, f: Spectral, x: Tensor) -> Tensor:
        r"""$f(0) x + V (f(|S|^2) - f(0)) V^\top x$, right for a thin $V$, too."""
        check_trailing("Factored", x, self.shape)
        parts = self.right_adjoint(x)
        values = self.singular.abs().square().expand(-1, *parts.shape[1:])
        axes = [1] * (x.ndim - 2)
        at_zero = f(values.new_zeros(1, 1, *axes))
        inside = f(values.reshape(len(values), -1, *axes)) - at_zero
        gain = inside.reshape(-1, *parts.shape[1:])
        return at_zero * x + self.right(gain * parts)

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """The shape given at construction."""
        return self.shape

    def batched(self) -> dict[str, Tensor]:
        """The singular values, if there are some for each sample."""
        return {"singular": self.singular}


@dataclass(frozen=True, eq=False)
class Outer(LinearOperator):
    r"""Functions of $A^\top A$ by those of $A A^\top$, where these are cheap.

    $f(A^\top A) = f(0) I + A^\top g(A A^\top) A$ with $g(e) = (f(e) - f(0)) / e$. Sampling after a
    periodic filter is of this kind, and so are rows of an orthonormal matrix.

    Args:
        measure: $A$ on batches.
        back: $A^\top$ on batches.
        eigenvalues: Of $A A^\top$: one number (1,) where it is a multiple of the identity; one for
            each frequency of the data, (1, C, rows, columns) as torch.fft.rfft2 has them; or one
            for each of `vectors`, (m,).
        shape: Image shape without the batch.
        vectors: Eigenvectors of $A A^\top$ as columns (m, m), for few data that no filter fits.
    """

    measure: Action
    back: Action
    eigenvalues: Tensor
    shape: tuple[int, ...]
    vectors: Tensor | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))

    def forward(self, x: Tensor) -> Tensor:
        """Calls `measure`."""
        check_trailing("Outer", x, self.shape)
        return self.measure(x)

    def adjoint(self, y: Tensor) -> Tensor:
        """Calls `back`."""
        return self.back(y)

    def gram_function(self, f: Spectral, x: Tensor) -> Tensor:
        r"""$f(0) x + A^\top g(A A^\top) A x$."""
        values = self.eigenvalues.clamp_min(_FLOOR * self.eigenvalues.max())
        data = self.forward(x)
        axes = [1] * (x.ndim - 2)
        at_zero = f(values.new_zeros(1, 1, *axes))
        slope = (f(values.reshape(1, -1, *axes)) - at_zero) / values.reshape(1, -1, *axes)
        if self.vectors is not None:
            parts = slope.flatten(1) * (data.flatten(1) @ self.vectors)
            weighted = (parts @ self.vectors.mT).reshape(data.shape)
        elif values.ndim == 1:
            weighted = slope.reshape(-1, *[1] * (data.ndim - 1)) * data
        else:
            spectrum = rfft2(data, norm="ortho")
            gain = slope.reshape(-1, *values.shape[1:])
            weighted = irfft2(spectrum * gain, s=data.shape[-2:], norm="ortho")
        return at_zero * x + self.back(weighted)

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """The shape given at construction."""
        return self.shape

    def batched(self) -> dict[str, Tensor]:
        """None: all samples share it."""
        return {}
