"""Operators known only by what they do: conjugate gradients for solves, Lanczos for the rest."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from bcdm.errors import InputError
from bcdm.operators.base import Coefficient, LinearOperator, Spectral, check_trailing
from bcdm.operators.checking import find_adjoint_error, find_nonlinearity
from bcdm.operators.iteration import Found, conjugate_gradients, lanczos
from bcdm.tensors import expand, fit, inner, real_dtype

__all__ = ["Composed", "ConvergenceReport", "ConvergenceWarning", "Iterative", "MatrixFree"]

# Of measurements: far above rounding, far below what a wrong map does.
_CLOSE = 1e-2


class ConvergenceWarning(UserWarning):
    """An iteration ended before it reached its tolerance; the message says by how much."""


@dataclass(frozen=True)
class ConvergenceReport:
    r"""How an iteration ended.

    Attributes:
        iterations: Products with $A^\top A$ that were taken.
        residual: The largest relative residual (CG) or relative change (Lanczos) in the batch.
        tolerance: The value that `residual` had to reach.
    """

    iterations: int
    residual: float
    tolerance: float

    @property
    def converged(self) -> bool:
        """Whether the tolerance was reached."""
        return self.residual <= self.tolerance

    def __str__(self) -> str:
        return (
            f"residual {self.residual:.1e} after {self.iterations} iterations "
            f"(tolerance {self.tolerance:.1e})"
        )


@dataclass(frozen=True, eq=False)
class Iterative(LinearOperator):
    r"""Functions of $A^\top A$ by iteration, from `forward` and `adjoint` alone.

    Solves use conjugate gradients; their gradient is another solve, so memory does not grow with
    the iterations. Other functions use Lanczos. What does not converge warns with its residual and
    iteration count; the `_with_report` forms give both at every call. An adaptive one, as all are
    unless told otherwise, is only as exact as a caller who knows the noise asks.
    """

    tolerance: float = field(default=1e-6, kw_only=True)
    iterations: int = field(default=500, kw_only=True)
    adaptive: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        if self.tolerance <= 0 or self.iterations < 1:
            raise InputError("iterative operators need tolerance > 0 and iterations >= 1")

    def gram_function(self, f: Spectral, x: Tensor) -> Tensor:
        r"""Approximates $f(A^\top A) x$ by Lanczos; differentiable in `x` only."""
        return _Function.apply(x, f, self, self.tolerance)  # type: ignore[no-untyped-call]

    def approximate(self, f: Spectral, x: Tensor, tolerance: Coefficient) -> Tensor:
        """As `gram_function`, by no more iterations than the tolerance asks for."""
        enough = self._choose_tolerance(tolerance, x)
        return _Function.apply(x, f, self, enough)  # type: ignore[no-untyped-call]

    def gram_function_with_report(self, f: Spectral, x: Tensor) -> tuple[Tensor, ConvergenceReport]:
        """As `gram_function`, with how it converged; not differentiable."""
        with torch.no_grad():
            found = self._apply(f, x, self.tolerance)
            return found.x, ConvergenceReport(found.taken, found.error, self.tolerance)

    @property
    def closed_form(self) -> bool:
        """No: they are iterations."""
        return False

    def solve(
        self, a: Coefficient, b: Coefficient, x: Tensor, *, tolerance: Coefficient | None = None
    ) -> Tensor:
        r"""Solves $(a I + b A^\top A) z = x$ by conjugate gradients; differentiable in all."""
        shift, scale = fit(x, a, b)
        enough = self._choose_tolerance(tolerance, x)
        return _Solve.apply(x, shift, scale, self, enough)  # type: ignore[no-untyped-call]

    def _choose_tolerance(self, asked: Coefficient | None, x: Tensor) -> float | Tensor:
        """The operator's own, or a coarser one that is enough for the caller; (B,) then."""
        if asked is None or not self.adaptive:
            return self.tolerance
        (enough,) = fit(x, asked)
        return enough.reshape(-1).clamp(self.tolerance, 1.0)

    def solve_with_report(
        self, a: Coefficient, b: Coefficient, x: Tensor
    ) -> tuple[Tensor, ConvergenceReport]:
        """As `solve`, with how it converged; not differentiable."""
        with torch.no_grad():
            shift, scale = fit(x, a, b)
            found = self._invert(shift, scale, x, self.tolerance)
            return found.x, ConvergenceReport(found.taken, found.error, self.tolerance)

    def _invert(self, a: Tensor, b: Tensor, x: Tensor, tolerance: float | Tensor) -> Found:
        return conjugate_gradients(
            lambda d: a * d + b * self.gram(d),
            x,
            iterations=self.iterations,
            tolerance=tolerance,
        )

    def _apply(self, f: Spectral, x: Tensor, tolerance: float | Tensor) -> Found:
        return lanczos(self.gram, f, x, iterations=self.iterations, tolerance=tolerance)

    def _judge(self, found: Found, what: str, tolerance: float | Tensor) -> Tensor:
        if not found.converged:
            # Of samples with tolerances of their own the strictest is told.
            asked = float(torch.as_tensor(tolerance).min())
            report = ConvergenceReport(found.taken, found.error, asked)
            warnings.warn(f"{what} stopped early: {report}", ConvergenceWarning, stacklevel=4)
        return found.x


@dataclass(frozen=True, eq=False)
class MatrixFree(Iterative):
    r"""Any linear operator, from its action alone.

    At its first use two images are measured, to see that it is linear and that `back` is its
    adjoint; `bcdm.check_operator` looks closer.

    Args:
        measure: The map $x \mapsto A x$ on batches.
        back: The adjoint on batches; derived from `measure` by differentiation when left out.
        shape: Image shape without the batch.
        real: The images are real although measurements are complex.
        tolerance: Relative residual at which iterations stop.
        iterations: The most products with $A^\top A$ per call.
        adaptive: Whether a caller who knows the noise may ask for less than `tolerance`.

    >>> tv = MatrixFree(lambda x: x[..., 1:] - x[..., :-1], shape=(4,))
    >>> tv.adjoint(torch.tensor([[1.0, 0.0, 0.0]]))
    tensor([[-1.,  1.,  0.,  0.]])
    """

    measure: Callable[[Tensor], Tensor]
    back: Callable[[Tensor], Tensor] | None = None
    shape: tuple[int, ...] = ()
    real: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "shape", tuple(self.shape))
        if not self.shape:
            raise InputError("MatrixFree needs the image shape, e.g. shape=(1, 64, 64)")

    def forward(self, x: Tensor) -> Tensor:
        """Calls `measure`."""
        check_trailing("MatrixFree", x, self.shape)
        self._check(x)
        return self.measure(x)

    def adjoint(self, y: Tensor) -> Tensor:
        """Calls `back`, or transposes `measure` by differentiation."""
        if self.back is not None:
            found = self.back(y)
            # Whether images are real shows in what comes back alone.
            self._check(torch.zeros(1, *self.shape, dtype=found.dtype, device=found.device))
            return found
        dtype = real_dtype(y.dtype) if self.real else y.dtype
        self._check(torch.zeros(1, *self.shape, dtype=dtype, device=y.device))
        origin = torch.zeros(len(y), *self.shape, dtype=dtype, device=y.device)
        try:
            transpose = torch.func.vjp(self.measure, origin)[1]
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise InputError(
                f"no adjoint can be derived from measure ({reason}): write it in torch, or give "
                "the adjoint as back="
            ) from error
        return transpose(y)[0]

    @cached_property
    def _checked(self) -> list[bool]:
        """Filled once it was looked at."""
        return []

    @torch.no_grad()
    def _check(self, x: Tensor) -> None:
        """Refuses, at its first use, a map that is not linear, or whose adjoint is another's."""
        if self._checked:
            return
        like = x[:1].detach()
        if find_nonlinearity(self.measure, like) > _CLOSE:
            raise InputError("measure is not linear: A(x + 2 z) is not A x + 2 A z")
        if self.back is not None and find_adjoint_error(self.measure, self.back, like) > _CLOSE:
            raise InputError("back is not the adjoint of measure: leave it out to derive it")
        self._checked.append(True)

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """The shape given at construction."""
        return self.shape

    def batched(self) -> dict[str, Tensor]:
        """None: all samples share it."""
        return {}


@dataclass(frozen=True, eq=False)
class Composed(Iterative):
    r"""The product $A = B C$ of two operators.

    Args:
        outer: $B$, acting on the measurements of `inner`.
        inner: $C$, acting on images.
    """

    outer: LinearOperator
    inner: LinearOperator

    def forward(self, x: Tensor) -> Tensor:
        r"""$B (C x)$."""
        return self.outer.forward(self.inner.forward(x))

    def adjoint(self, y: Tensor) -> Tensor:
        r"""$C^\top (B^\top y)$."""
        return self.inner.adjoint(self.outer.adjoint(y))

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """That of the inner operator."""
        return self.inner.image_shape(self.outer.image_shape(measured))

    def batched(self) -> dict[str, Tensor]:
        """None besides those of its parts."""
        return {}


class _Solve(torch.autograd.Function):
    """z = (a + b A^T A)^-1 x. The matrix is symmetric: the gradient is one more solve."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        a: Tensor,
        b: Tensor,
        operator: Iterative,
        tolerance: float | Tensor,
    ) -> Tensor:
        found = operator._invert(a, b, x, tolerance)
        z = operator._judge(found, "conjugate gradients", tolerance)
        ctx.operator, ctx.tolerance = operator, tolerance
        ctx.save_for_backward(z, a, b)
        return z

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        z, a, b = ctx.saved_tensors
        operator = ctx.operator
        found = operator._invert(a, b, grads[0], ctx.tolerance)
        dx = operator._judge(found, "conjugate gradients (backward)", ctx.tolerance)
        da = db = None
        if ctx.needs_input_grad[1]:
            da = -expand(inner(dx, z), a.ndim).sum_to_size(a.shape)
        if ctx.needs_input_grad[2]:
            db = -expand(inner(dx, operator.gram(z)), b.ndim).sum_to_size(b.shape)
        return dx, da, db, None, None


class _Function(torch.autograd.Function):
    """f(A^T A) x. The matrix is symmetric: the gradient is the same function."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, f: Spectral, operator: Iterative, tolerance: float | Tensor
    ) -> Tensor:
        ctx.operator, ctx.f, ctx.tolerance = operator, f, tolerance
        return operator._judge(operator._apply(f, x, tolerance), "Lanczos", tolerance)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        found = ctx.operator._apply(ctx.f, grads[0], ctx.tolerance)
        x = ctx.operator._judge(found, "Lanczos (backward)", ctx.tolerance)
        return x, None, None, None
