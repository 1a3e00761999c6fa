"""Operators given as a matrix."""

from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.operators.base import LinearOperator, Spectral, check_trailing
from bcdm.tensors import check_tensors

__all__ = ["Dense", "to_matrix"]


@dataclass(frozen=True, eq=False)
class Dense(LinearOperator):
    r"""A matrix $A$ acting on flattened images, decomposed once: $A = U S V^H$.

    Args:
        matrix: (m, n), or (B, m, n) for one matrix per sample.
        shape: Image shape without the batch; its product is n. Vectors (n,) when left out.

    >>> Dense(torch.tensor([[1.0, 0.0]])).forward(torch.tensor([[3.0, 4.0]]))
    tensor([[3.]])
    """

    matrix: Tensor
    shape: tuple[int, ...] | None = None
    _right: Tensor = field(init=False, repr=False)
    _eigenvalues: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_tensors(matrix=self.matrix)
        if self.matrix.ndim not in (2, 3):
            raise InputError(f"Dense takes a matrix (m, n), got {tuple(self.matrix.shape)}")
        shape = tuple(self.shape) if self.shape is not None else (self.matrix.shape[-1],)
        if prod(shape) != self.matrix.shape[-1]:
            raise ShapeError(
                f"images of shape {shape} have {prod(shape)} pixels but the matrix has "
                f"{self.matrix.shape[-1]} columns"
            )
        object.__setattr__(self, "shape", shape)
        _, singular, right = torch.linalg.svd(self.matrix, full_matrices=False)
        object.__setattr__(self, "_right", right)
        object.__setattr__(self, "_eigenvalues", singular.square())

    def forward(self, x: Tensor) -> Tensor:
        r"""$A x$ as vectors (B, m)."""
        return _multiply(self.matrix, self._flatten(x))

    def adjoint(self, y: Tensor) -> Tensor:
        r"""$A^H y$ as images."""
        check_trailing("the adjoint of Dense", y, (self.matrix.shape[-2],))
        self._check_precision(y, self.matrix)
        return _multiply(self.matrix.mH, y).reshape(len(y), *self.image_shape(()))

    def gram_function(self, f: Spectral, x: Tensor) -> Tensor:
        r"""$f(0) x + V (f(s^2) - f(0)) V^H x$.

        The rows of $V^H$ need not span image space: what they miss has eigenvalue 0.
        """
        values = self._eigenvalues
        axes = [1] * (x.ndim - 1)
        values = values.reshape(len(values) if values.ndim == 2 else 1, *axes[1:], -1)
        at_zero = f(torch.zeros_like(values[:1, ..., :1]))
        inside = (f(values) - at_zero).flatten(1)
        parts = inside * _multiply(self._right, self._flatten(x))
        return at_zero * x + _multiply(self._right.mH, parts).reshape(x.shape)

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """The shape given at construction."""
        assert self.shape is not None
        return self.shape

    def find_data(self, y: Tensor) -> Tensor:
        """Where a row of the matrix is not zero."""
        check_trailing("the adjoint of Dense", y, (self.matrix.shape[-2],))
        return (self.matrix != 0).any(-1)

    def weigh(self, weights: Tensor) -> "Dense":
        """The matrix with weighted rows."""
        rows = (weights[0] if len(weights) == 1 else weights)[..., None]
        return Dense(rows * self.matrix, self.shape)

    def _flatten(self, x: Tensor) -> Tensor:
        check_trailing("Dense", x, self.image_shape(()))
        self._check_precision(x, self.matrix)
        return x.flatten(1)

    def batched(self) -> dict[str, Tensor]:
        """The matrix, if it has a batch axis."""
        return {"matrix": self.matrix} if self.matrix.ndim == 3 else {}


def _multiply(matrix: Tensor, vectors: Tensor) -> Tensor:
    """Matrix (m, n) or (B, m, n) times vectors (B, n)."""
    if matrix.is_complex() and not vectors.is_complex():
        raise DtypeError(
            f"a complex matrix acts on complex images, got {vectors.dtype}: convert the image"
        )
    matrix = matrix.to(vectors.dtype)
    if matrix.ndim == 2:
        return vectors @ matrix.mT
    return (matrix @ vectors[..., None])[..., 0]


def to_matrix(operator: LinearOperator, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Writes an operator out as a matrix (m, n) by measuring each unit image; for small images.

    Real images whose measurement is complex give the real matrix of stacked real and imaginary
    parts, (2m, n), because that is the map the noise sees.
    """
    size = prod(shape)
    units = torch.eye(size, dtype=dtype).reshape(size, *shape)
    measured = operator.forward(units).flatten(1)
    if measured.is_complex() and not dtype.is_complex:
        measured = torch.cat([measured.real, measured.imag], 1)
    return measured.mT.contiguous()
