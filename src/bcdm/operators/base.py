"""The operator contract: A, its adjoint, and functions of A^T A."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from bcdm.errors import DtypeError, ShapeError
from bcdm.tensors import fit, real_dtype

__all__ = ["Coefficient", "LinearOperator", "Spectral"]

Spectral = Callable[[Tensor], Tensor]
"""A function of eigenvalues. It acts element by element on a tensor with as many axes as the
image batch, batch first, so per-sample coefficients broadcast when shaped (B, 1, ..., 1)."""

Coefficient = float | Tensor
"""A number for all samples, or a tensor of shape (B,): one per sample."""


@dataclasses.dataclass(frozen=True, eq=False)
class LinearOperator(ABC):
    r"""A known linear map $A$ from images (B, *shape) to measurements (B, ...).

    Operators are frozen dataclasses: their fields are the whole of them, tensors and plain values,
    so they can be stored and moved without pickle. Some tensor fields may hold one entry per
    sample along axis 0.

    Complex images are points of $R^{2n}$: the adjoint is that of the inner product
    $\mathrm{Re}\langle a, b\rangle$.
    """

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Measures: $A x$."""

    @abstractmethod
    def adjoint(self, y: Tensor) -> Tensor:
        r"""Maps back: $A^\top y$."""

    @abstractmethod
    def gram_function(self, f: Spectral, x: Tensor) -> Tensor:
        r"""Applies $f(A^\top A)$ to an image; $f$ acts on the eigenvalues."""

    @abstractmethod
    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """The shape (without batch) of the images behind measurements of shape `measured`."""

    def gram(self, x: Tensor) -> Tensor:
        r"""Applies $A^\top A$."""
        return self.adjoint(self.forward(x))

    def solve(self, a: Coefficient, b: Coefficient, x: Tensor) -> Tensor:
        r"""Solves $(a I + b A^\top A) z = x$ for $z$; `a`, `b` per sample or for all."""
        shift, scale = fit(x, a, b)
        return self.gram_function(lambda eigenvalue: 1 / (shift + scale * eigenvalue), x)

    def image_dtype(self, measured: torch.dtype) -> torch.dtype:
        """The number type of the images behind measurements of type `measured`."""
        return measured

    @property
    def data_mask(self) -> Tensor | None:
        """Which entries of a measurement carry data (broadcastable); None: all of them."""
        return None

    def weigh(self, weights: Tensor) -> "LinearOperator | None":
        """The operator diag(weights) A, where that has a closed form; None otherwise.

        Args:
            weights: Real, of a measurement's shape with batch axis, (B or 1, ...).
        """
        return None

    @property
    def closed_form(self) -> bool:
        r"""Whether functions of $A^\top A$ are exact and cheap."""
        return True

    @property
    def batch(self) -> int | None:
        """How many samples the operator holds one entry each for; None: any number."""
        sizes = {len(t) for t in self._batched().values() if len(t) > 1}
        return max(sizes) if sizes else None

    def select(self, rows: Tensor) -> Self:
        """The operator for the chosen samples of its batch; itself if all samples share it."""
        chosen = {name: t[rows] for name, t in self._batched().items() if len(t) > 1}
        return dataclasses.replace(self, **chosen) if chosen else self

    def to(self, target: torch.dtype | torch.device | str) -> Self:
        """A copy with its tensors on another device or in another precision."""
        moved: dict[str, Any] = {}
        for name, t in self.tensors().items():
            if not isinstance(target, torch.dtype):
                moved[name] = t.to(target)
            elif t.is_floating_point():
                moved[name] = t.to(real_dtype(target))
            elif t.is_complex():
                moved[name] = t.to(real_dtype(target).to_complex())
        return dataclasses.replace(self, **moved)

    def tensors(self) -> dict[str, Tensor]:
        """The tensor fields by name: with `settings`, all there is to store."""
        return {n: v for n, v in self._fields().items() if isinstance(v, Tensor)}

    def settings(self) -> dict[str, Any]:
        """The plain fields by name."""
        return {n: v for n, v in self._fields().items() if not isinstance(v, Tensor)}

    def _fields(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}

    def _batched(self) -> dict[str, Tensor]:
        """Tensor fields whose axis 0 runs over samples."""
        return {}

    def _check_precision(self, x: Tensor, own: Tensor) -> None:
        if real_dtype(x.dtype) != real_dtype(own.dtype):
            raise DtypeError(
                f"{type(self).__name__} holds {own.dtype} but the tensor is {x.dtype}: "
                f"use operator.to({real_dtype(x.dtype)}) or convert the tensor"
            )


def check_trailing(name: str, x: Tensor, size: tuple[int, ...]) -> None:
    """Refuses images whose last axes are not `size`."""
    if tuple(x.shape[-len(size) :]) != tuple(size) or x.ndim < len(size) + 1:
        raise ShapeError(
            f"{name} acts on batches that end in {tuple(size)}, got {tuple(x.shape)}: "
            "resize the image or build the operator for its size"
        )
