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
    product: Product, f: Spectral, x: Tensor, *, iterations: int, tolerance: float | Tensor
) -> Found:
    r"""Applies $f(H)$ for a symmetric $H$ with eigenvalues of 0 and more.

    Full reorthogonalisation: the basis is kept anyway, and without it roots lose digits.

    Args:
        product: $H$ applied to (B, ...).
        f: Acts on eigenvalues.
        x: What it is applied to, (B, ...).
        iterations: At most so many products.
        tolerance: Stop where the result changes by at most so many times its size, a number or
            (B,).
    """
    norm = inner(x, x).sqrt()
    tiny = torch.finfo(norm.dtype).tiny
    start = _flatten(x / expand(norm.clamp_min(tiny), x.ndim))
    space = start.shape[1]
    limit = min(iterations, space)
    basis = _Basis(start, limit)
    diagonal: list[Tensor] = []
    off: list[Tensor] = []
    estimate, change = torch.zeros_like(start), torch.full_like(norm, torch.inf)
    for taken in range(1, limit + 1):
        last = basis.vectors[:, -1]
        w = _flatten(product(_restore(last, x)))
        diagonal.append((last * w).sum(1))
        w = basis.reject(w)
        size = w.norm(dim=1)
        # The space of one sample may be exhausted before that of others.
        scale = torch.stack(diagonal).abs().amax(0)
        alive = size > 10 * torch.finfo(size.dtype).eps * scale.clamp_min(1e-30)
        done = not bool(alive.any()) or taken == limit
        if done or taken % 5 == 0:
            column = _weigh(f, x, norm, diagonal, off)
            previous, estimate = estimate, (column[:, None] @ basis.vectors)[:, 0]
            total = estimate.norm(dim=1).clamp_min(tiny)
            exhausted = not bool(alive.any()) or taken >= space
            change = (
                torch.zeros_like(norm) if exhausted else (estimate - previous).norm(dim=1) / total
            )
            if done or bool((change <= tolerance).all()):
                break
        off.append(torch.where(alive, size, 0))
        basis.add(torch.where(alive[:, None], w / size[:, None], 0))
    converged = bool((change <= tolerance).all())
    return Found(_restore(estimate, x), taken, float(change.max()), converged)


def _flatten(x: Tensor) -> Tensor:
    """Images (B, ...) as real vectors (B, n)."""
    return (torch.view_as_real(x.resolve_conj()) if x.is_complex() else x).flatten(1)


def _restore(flat: Tensor, like: Tensor) -> Tensor:
    """Real vectors (B, n) as images like those."""
    if not like.is_complex():
        return flat.reshape(like.shape)
    return torch.view_as_complex(flat.reshape(*like.shape, 2).contiguous())


class _Basis:
    """Orthonormal vectors of each sample, in one block: one product rejects them all.

    Args:
        first: The first vector of each sample, (B, n).
        most: How many there will be at most.
    """

    def __init__(self, first: Tensor, most: int) -> None:
        self._most, self._count = most, 1
        self._block = first.new_empty(len(first), min(8, most), first.shape[1])
        self._block[:, 0] = first

    @property
    def vectors(self) -> Tensor:
        """Those that there are, (B, k, n)."""
        return self._block[:, : self._count]

    def add(self, vector: Tensor) -> None:
        """One more, (B, n); memory doubles where it does not last."""
        room = self._block.shape[1]
        if self._count == room:
            more = min(room, max(1, self._most - room))
            empty = self._block.new_empty(len(self._block), more, self._block.shape[2])
            self._block = torch.cat([self._block, empty], 1)
        self._block[:, self._count] = vector
        self._count += 1

    def reject(self, w: Tensor) -> Tensor:
        """What of vectors (B, n) is orthogonal to all; twice, because once leaves rounding."""
        for _ in range(2):
            shares = self.vectors @ w[..., None]
            w = w - (shares.mT @ self.vectors)[:, 0]
        return w


def _weigh(
    f: Spectral, x: Tensor, norm: Tensor, diagonal: list[Tensor], off: list[Tensor]
) -> Tensor:
    """|x| f(T) e_1 with T the tridiagonal projection of H: weights of the basis, (B, k)."""
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
    return (vectors @ (weights * vectors[:, 0])[..., None])[..., 0] * norm[:, None]
