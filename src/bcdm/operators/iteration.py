"""Iterations that need products with a matrix only: a solve, and a function of the matrix."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from bcdm.operators.base import Spectral
from bcdm.tensors import expand, inner

__all__ = ["Found", "conjugate_gradients", "lanczos"]

Product = Callable[[Tensor], Tensor]


class Found(NamedTuple):
    """What an iteration gives.

    Attributes:
        x: The result, (B, ...).
        taken: How many products it took.
        error: The relative residual of the worst sample, or its last relative change.
        converged: Whether every sample reached its tolerance.
    """

    x: Tensor
    taken: int
    error: float
    converged: bool


def conjugate_gradients(
    product: Product,
    right: Tensor,
    *,
    iterations: int,
    tolerance: float | Tensor = 0.0,
    least_curvature: float | Tensor = 0.0,
) -> Found:
    r"""Solves $H x = b$ for a symmetric positive $H$, from zero.

    Each sample stops on its own, so its solution does not depend on its companions.

    Args:
        product: $H$ applied to (B, ...).
        right: $b$, (B, ...).
        iterations: At most so many products.
        tolerance: Stop where $|H x - b|$ is at most so many times $|b|$, a number or (B,).
        least_curvature: Stop before a direction $d$ with $d^\top H d$ not above so many times
            $|d|^2$, a number or (B,): $H$ is not positive there, and a step would lead anywhere.
    """
    x, residual, direction = torch.zeros_like(right), right, right
    norm = squared = inner(right, right)
    goal = tolerance**2 * norm
    going = squared > goal
    taken = 0
    while taken < iterations and bool(going.any()):
        taken += 1
        image = product(direction)
        curvature = inner(direction, image)
        # Not `>`: what is NaN goes on, and is NaN in the result.
        going = going & ~(curvature <= least_curvature * inner(direction, direction))
        step = expand(torch.where(going, squared / curvature, 0), x.ndim)
        x = x + step * direction
        residual = residual - step * image
        previous, squared = squared, inner(residual, residual)
        direction = residual + expand(torch.where(going, squared / previous, 0), x.ndim) * direction
        going = going & (squared > goal)
    # NaN stays NaN here, which no tolerance admits.
    relative = torch.where(norm == 0, 0, (squared / norm).sqrt())
    return Found(x, taken, float(relative.max()), bool((squared <= goal).all()))


def lanczos(
    product: Product, f: Spectral, x: Tensor, *, iterations: int, tolerance: float
) -> Found:
    r"""Applies $f(H)$ for a symmetric $H$ with eigenvalues of 0 and more.

    Full reorthogonalisation: the basis is kept anyway, and without it roots lose digits.

    Args:
        product: $H$ applied to (B, ...).
        f: Acts on eigenvalues.
        x: What it is applied to, (B, ...).
        iterations: At most so many products.
        tolerance: Stop where the result changes by at most so many times its size.
    """
    norm = inner(x, x).sqrt()
    basis = [x / expand(norm.clamp_min(torch.finfo(norm.dtype).tiny), x.ndim)]
    diagonal: list[Tensor] = []
    off: list[Tensor] = []
    estimate, change = torch.zeros_like(x), float("inf")
    space = x[0].numel() * (2 if x.is_complex() else 1)
    limit = min(iterations, space)
    for taken in range(1, limit + 1):
        w = product(basis[-1])
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
            exhausted = not bool(alive.any()) or taken >= space
            change = 0.0 if exhausted else float((moved / total).max())
            if done or change <= tolerance:
                break
        off.append(torch.where(alive, size, 0))
        basis.append(torch.where(expand(alive, x.ndim), w / expand(size, x.ndim), 0))
    return Found(estimate, taken, change, change <= tolerance)


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
