"""Operators known only by what they do: conjugate gradients for solves, Lanczos for the rest."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor

from bcdm.errors import InputError
from bcdm.operators.base import Coefficient, LinearOperator, Spectral, check_trailing
from bcdm.tensors import expand, fit, inner, real_dtype

__all__ = ["Composed", "ConvergenceReport", "ConvergenceWarning", "MatrixFree"]


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
class _Iterative(LinearOperator):
    r"""Functions of $A^\top A$ by iteration, from `forward` and `adjoint` alone.

    Solves use conjugate gradients; their gradient is another solve, so memory does not grow with
    the iterations. Other functions use Lanczos. What does not converge warns with its residual and
    iteration count; the `_with_report` forms give both at every call.
    """

    tolerance: float = field(default=1e-6, kw_only=True)
    iterations: int = field(default=500, kw_only=True)

    def __post_init__(self) -> None:
        if self.tolerance <= 0 or self.iterations < 1:
            raise InputError("iterative operators need tolerance > 0 and iterations >= 1")

    def gram_function(self, f: Spectral, x: Tensor) -> Tensor:
        r"""Approximates $f(A^\top A) x$ by Lanczos; differentiable in `x` only."""
        return _Function.apply(x, f, self)  # type: ignore[no-untyped-call]

    def gram_function_with_report(self, f: Spectral, x: Tensor) -> tuple[Tensor, ConvergenceReport]:
        """As `gram_function`, with how it converged; not differentiable."""
        with torch.no_grad():
            return _lanczos(self, f, x)

    @property
    def closed_form(self) -> bool:
        """No: they are iterations."""
        return False

    def solve(self, a: Coefficient, b: Coefficient, x: Tensor) -> Tensor:
        r"""Solves $(a I + b A^\top A) z = x$ by conjugate gradients; differentiable in all."""
        shift, scale = fit(x, a, b)
        return _Solve.apply(x, shift, scale, self)  # type: ignore[no-untyped-call]

    def solve_with_report(
        self, a: Coefficient, b: Coefficient, x: Tensor
    ) -> tuple[Tensor, ConvergenceReport]:
        """As `solve`, with how it converged; not differentiable."""
        with torch.no_grad():
            shift, scale = fit(x, a, b)
            return _conjugate_gradients(self, shift, scale, x)

    def _judge(self, report: ConvergenceReport, what: str) -> None:
        if not report.converged:
            warnings.warn(f"{what} stopped early: {report}", ConvergenceWarning, stacklevel=4)


@dataclass(frozen=True, eq=False)
class MatrixFree(_Iterative):
    r"""Any linear operator, from its action alone.

    Args:
        measure: The map $x \mapsto A x$ on batches.
        back: The adjoint on batches; derived from `measure` by differentiation when left out.
        shape: Image shape without the batch.
        real: The images are real although measurements are complex.
        tolerance: Relative residual at which iterations stop.
        iterations: The most products with $A^\top A$ per call.

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
        return self.measure(x)

    def adjoint(self, y: Tensor) -> Tensor:
        """Calls `back`, or transposes `measure` by differentiation."""
        if self.back is not None:
            return self.back(y)
        dtype = self.image_dtype(y.dtype)
        origin = torch.zeros(len(y), *self.shape, dtype=dtype, device=y.device)
        transpose = torch.func.vjp(self.measure, origin)[1]
        return transpose(y)[0]

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """The shape given at construction."""
        return self.shape

    def image_dtype(self, measured: torch.dtype) -> torch.dtype:
        """The measurement's type, its real part if `real`."""
        return real_dtype(measured) if self.real else measured


@dataclass(frozen=True, eq=False)
class Composed(_Iterative):
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

    def image_dtype(self, measured: torch.dtype) -> torch.dtype:
        """That of the inner operator."""
        return self.inner.image_dtype(self.outer.image_dtype(measured))

    @property
    def batch(self) -> int | None:
        """That of either part."""
        return self.outer.batch or self.inner.batch

    def select(self, rows: Tensor) -> Self:
        """Selects in both parts."""
        return replace(self, outer=self.outer.select(rows), inner=self.inner.select(rows))

    def to(self, target: torch.dtype | torch.device | str) -> Self:
        """Moves both parts."""
        return replace(self, outer=self.outer.to(target), inner=self.inner.to(target))


class _Solve(torch.autograd.Function):
    """z = (a + b A^T A)^-1 x. The matrix is symmetric: the gradient is one more solve."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, a: Tensor, b: Tensor, operator: _Iterative) -> Tensor:
        z, report = _conjugate_gradients(operator, a, b, x)
        operator._judge(report, "conjugate gradients")
        ctx.operator = operator
        ctx.save_for_backward(z, a, b)
        return z

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        z, a, b = ctx.saved_tensors
        operator = ctx.operator
        dx, report = _conjugate_gradients(operator, a, b, grads[0])
        operator._judge(report, "conjugate gradients (backward)")
        da = db = None
        if ctx.needs_input_grad[1]:
            da = -expand(inner(dx, z), a.ndim).sum_to_size(a.shape)
        if ctx.needs_input_grad[2]:
            db = -expand(inner(dx, operator.gram(z)), b.ndim).sum_to_size(b.shape)
        return dx, da, db, None


class _Function(torch.autograd.Function):
    """f(A^T A) x. The matrix is symmetric: the gradient is the same function."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, f: Spectral, operator: _Iterative) -> Tensor:
        z, report = _lanczos(operator, f, x)
        operator._judge(report, "Lanczos")
        ctx.operator, ctx.f = operator, f
        return z

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        z, report = _lanczos(ctx.operator, ctx.f, grads[0])
        ctx.operator._judge(report, "Lanczos (backward)")
        return z, None, None


def _conjugate_gradients(
    operator: _Iterative, a: Tensor, b: Tensor, x: Tensor
) -> tuple[Tensor, ConvergenceReport]:
    """Each sample stops on its own, so its solution does not depend on its companions."""
    z, residual, direction = torch.zeros_like(x), x, x
    norm = squared = inner(x, x)
    goal = operator.tolerance**2 * norm
    taken = 0
    while bool((squared > goal).any()) and taken < operator.iterations:
        taken += 1
        image = a * direction + b * operator.gram(direction)
        active = squared > goal
        step = expand(torch.where(active, squared / inner(direction, image), 0), x.ndim)
        z = z + step * direction
        residual = residual - step * image
        previous, squared = squared, inner(residual, residual)
        turn = torch.where(active, squared / previous, 0)
        direction = residual + expand(turn, x.ndim) * direction
    # NaN stays NaN here, which no tolerance admits.
    relative = torch.where(norm == 0, 0, (squared / norm).sqrt())
    return z, ConvergenceReport(taken, float(relative.max()), operator.tolerance)


def _lanczos(operator: _Iterative, f: Spectral, x: Tensor) -> tuple[Tensor, ConvergenceReport]:
    """Full reorthogonalisation: the basis is kept anyway, and without it roots lose digits."""
    norm = inner(x, x).sqrt()
    basis = [x / expand(norm.clamp_min(torch.finfo(norm.dtype).tiny), x.ndim)]
    diagonal: list[Tensor] = []
    off: list[Tensor] = []
    estimate, change = torch.zeros_like(x), float("inf")
    limit = min(operator.iterations, x[0].numel() * (2 if x.is_complex() else 1))
    for taken in range(1, limit + 1):
        w = operator.gram(basis[-1])
        diagonal.append(inner(basis[-1], w))
        for _ in range(2):
            for v in basis:
                w = w - expand(inner(v, w), x.ndim) * v
        size = inner(w, w).sqrt()
        # The space of one sample may be exhausted before that of others.
        scale = torch.stack(diagonal).abs().amax(0)
        alive = size > 10 * torch.finfo(size.dtype).eps * scale.clamp_min(1e-30)
        done = not bool(alive.any()) or taken == limit
        if done or taken % 5 == 0:
            previous, estimate = estimate, _combine(f, x, norm, basis, diagonal, off)
            moved = inner(estimate - previous, estimate - previous).sqrt()
            total = inner(estimate, estimate).sqrt().clamp_min(torch.finfo(norm.dtype).tiny)
            exhausted = not bool(alive.any()) or taken >= x[0].numel()
            change = 0.0 if exhausted else float((moved / total).max())
            if done or change <= operator.tolerance:
                break
        off.append(torch.where(alive, size, 0))
        basis.append(torch.where(expand(alive, x.ndim), w / expand(size, x.ndim), 0))
    return estimate, ConvergenceReport(taken, change, operator.tolerance)


def _combine(
    f: Spectral,
    x: Tensor,
    norm: Tensor,
    basis: list[Tensor],
    diagonal: list[Tensor],
    off: list[Tensor],
) -> Tensor:
    """|x| V f(T) e_1 with T the tridiagonal projection of A^T A, per sample."""
    # Rows past an exhausted space are decoupled; a value from inside keeps f finite there.
    main = torch.stack(diagonal, 1)
    main = torch.where(main == 0, main[:, :1], main)
    T = torch.diag_embed(main)
    if off:
        side = torch.stack(off, 1)
        T = T + torch.diag_embed(side, 1) + torch.diag_embed(side, -1)
    values, vectors = torch.linalg.eigh(T)
    axes = [1] * (x.ndim - 2)
    weights = f(values.clamp_min(0).reshape(len(x), *axes, -1)).flatten(1)
    column = (vectors @ (weights * vectors[:, 0])[..., None])[..., 0] * norm[:, None]
    stacked = torch.stack(basis, 1)
    return (column.reshape(*column.shape, *[1] * (x.ndim - 1)) * stacked).sum(1)
