"""Is an operator what it says it is? Linear, with its adjoint, and solved as it should be."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bcdm.errors import InputError
from bcdm.operators.base import LinearOperator
from bcdm.tensors import inner, real_dtype

__all__ = ["OperatorCheck", "check_operator", "find_adjoint_error", "find_nonlinearity"]

Action = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class OperatorCheck:
    r"""How far an operator is from what it should be; relative errors, 0 is right.

    Attributes:
        linearity: $A(x + 2 z)$ beside $A x + 2 A z$.
        adjoint: $\langle A x, y\rangle$ beside $\langle x, A^\top y\rangle$.
        solve: The residual of $(a + b A^\top A)^{-1} x$ with $a = 0.01$ and $b A^\top A$ of unit
            size.
        posterior: The mean of a Gaussian posterior by `gram_function` beside that by `solve`.
        batches: $A$ and $A^\top$ of two images at once beside each alone; infinite where that is
            not possible.
        tolerance: What is still right.
    """

    linearity: float
    adjoint: float
    solve: float
    posterior: float
    batches: float
    tolerance: float

    @property
    def wrong(self) -> tuple[str, ...]:
        """The names of what is not right."""
        names = ("linearity", "adjoint", "solve", "posterior", "batches")
        # Not `>`: what is NaN is wrong.
        return tuple(name for name in names if not getattr(self, name) <= self.tolerance)

    @property
    def right(self) -> bool:
        """Whether all is."""
        return not self.wrong


def check_operator(
    operator: LinearOperator,
    shape: tuple[int, ...] | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    tolerance: float = 1e-2,
    seed: int = 0,
) -> OperatorCheck:
    """Looks whether an operator is linear, has its adjoint, and solves what it should.

    Args:
        operator: For one image at a time.
        shape: Of an image without batch; left out: that of the operator, if it knows it.
        dtype: Of the images.
        tolerance: Relative errors that are still right: those of iterations are as large as their
            own tolerance asks.
        seed: Of the random images.

    >>> from bcdm.operators import Identity
    >>> check_operator(Identity(), (1, 4, 4)).right
    True
    """
    own = _find_shape(operator) if shape is None else shape
    if not own:
        raise InputError("give the shape of an image, e.g. (1, 64, 64)")
    like = torch.empty(1, *own, dtype=dtype)
    x, z = (_draw(like, seed + k) for k in range(2))
    with torch.no_grad():
        size = (_norm(operator.gram(x)) / _norm(x)).clamp_min(1e-30)
        a, b = 0.01, float(1 / size)
        back = operator.gram(z)
        solved = operator.solve(a, b, back)
        missing = a * solved + b * operator.gram(solved) - back
        by_function = operator.gram_function(lambda e: 1 / (a + b * e), back)
        return OperatorCheck(
            linearity=find_nonlinearity(operator.forward, like, seed),
            adjoint=find_adjoint_error(operator.forward, operator.adjoint, like, seed),
            solve=float(_norm(missing) / _norm(back).clamp_min(1e-30)),
            posterior=float(_norm(by_function - solved) / _norm(solved).clamp_min(1e-30)),
            batches=_find_batch_error(operator, like, seed),
            tolerance=tolerance,
        )


def _find_batch_error(operator: LinearOperator, like: Tensor, seed: int) -> float:
    """The larger of A's and its adjoint's; an operator for one image each knows no batches."""
    if operator.batch not in (None, 1):
        return 0.0
    x = torch.cat([_draw(like, seed + k) for k in range(2)])
    try:
        y = torch.cat([operator.forward(one[None]) for one in x])
        pairs = [(operator.forward(x), y)]
        pairs.append((operator.adjoint(y), torch.cat([operator.adjoint(one[None]) for one in y])))
    except RuntimeError:
        return float("inf")
    if any(both.shape != apart.shape for both, apart in pairs):
        return float("inf")
    return max(float(_norm(both - apart) / _norm(apart).clamp_min(1e-30)) for both, apart in pairs)


def find_nonlinearity(measure: Action, like: Tensor, seed: int = 0) -> float:
    """How far A(x + 2 z) is from A x + 2 A z, relative.

    Args:
        measure: A, on batches.
        like: An image (1, *shape), of any value.
        seed: Of x and z.
    """
    x, z = (_draw(like, seed + k) for k in range(2))
    apart = measure(x) + 2 * measure(z)
    return float(_norm(measure(x + 2 * z) - apart) / _norm(apart).clamp_min(1e-30))


def find_adjoint_error(measure: Action, back: Action, like: Tensor, seed: int = 0) -> float:
    """How far <A x, y> is from <x, A^T y>, for a random y and for y = A x; relative.

    Args:
        measure: A, on batches.
        back: Its adjoint, on batches.
        like: Images (B, *shape), of any value.
        seed: Of x and y.
    """
    x = _draw(like, seed)
    measured = measure(x)
    y = _draw(measured, seed + 2)
    # Of unrelated vectors the inner product is far below the product of their lengths.
    scale = _norm(measured) * _norm(y) / measured[0].numel() ** 0.5
    apart = (inner(measured, y) - inner(x, back(y))).abs() / scale.clamp_min(1e-30)
    power = inner(measured, measured)
    together = (power - inner(x, back(measured))).abs() / power.clamp_min(1e-30)
    return float(torch.maximum(apart, together).max())


def _find_shape(operator: LinearOperator) -> tuple[int, ...]:
    """That of images which an operator names itself; of any number of channels, one."""
    shape: tuple[int, ...] | None = getattr(operator, "shape", None)
    size: tuple[int, int] | None = getattr(operator, "size", None)
    return shape or ((1, *size) if size else ())


def _draw(like: Tensor, seed: int) -> Tensor:
    seeded = torch.Generator().manual_seed(seed)
    real = real_dtype(like.dtype)
    parts = [torch.randn(like.shape, dtype=real, generator=seeded) for _ in range(2)]
    noise = torch.complex(*parts) if like.is_complex() else parts[0]
    return noise.to(like.device)


def _norm(x: Tensor) -> Tensor:
    return x.abs().square().sum().sqrt()
