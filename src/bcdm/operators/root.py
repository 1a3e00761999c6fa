"""Measurements as images, and several operators in one batch."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bcdm.errors import InputError, ShapeError
from bcdm.operators.base import Coefficient, LinearOperator, Spectral

__all__ = ["Root"]


@dataclass(frozen=True, eq=False)
class Root(LinearOperator):
    r"""$(A^\top A)^{1/2}$: its measurements are images, and tell as much about $x_0$ as $A$'s.

    $A^\top y$ is all that any statistic needs of $y$, and it has the same law under both:
    $A^\top A x_0 + \sigma_0 (A^\top A)^{1/2} n$. So a batch may hold samples of operators whose
    own measurements have different shapes; training draws such batches.

    Args:
        operators: One, or several. Each needs its functions of $A^\top A$ in closed form.
        rows: Which samples of a batch belong to each operator; None: all to the only one.

    >>> from bcdm.operators import BlockMean, Identity
    >>> both = Root((Identity(), BlockMean((2, 2))), (torch.tensor([0]), torch.tensor([1])))
    >>> both.forward(torch.tensor([[[[1.0, 3.0], [1.0, 3.0]]]]).expand(2, -1, -1, -1))[:, 0, 0]
    tensor([[1., 3.],
            [2., 2.]])
    """

    operators: tuple[LinearOperator, ...]
    rows: tuple[Tensor, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.operators) != (1 if self.rows is None else len(self.rows)):
            raise InputError("give the rows of each operator, or one operator")
        if not all(operator.closed_form for operator in self.operators):
            raise InputError("the root of an iterative operator is slow: use the operator itself")
        if self.rows is not None:
            taken = torch.cat(self.rows).sort().values
            if not torch.equal(taken, torch.arange(len(taken), device=taken.device)):
                raise InputError("every sample of a batch needs exactly one operator")

    def forward(self, x: Tensor) -> Tensor:
        r"""$(A^\top A)^{1/2} x$."""
        return self.gram_function(torch.sqrt, x)

    def adjoint(self, y: Tensor) -> Tensor:
        """The same: the root is symmetric."""
        return self.gram_function(torch.sqrt, y)

    def gram_function(self, f: Spectral, x: Tensor) -> Tensor:
        """That of the operators, each on its own samples."""
        if self._is_shared(x):
            return self.operators[0].gram_function(f, x)
        assert self.rows is not None
        out = torch.empty_like(x)
        for operator, rows in zip(self.operators, self.rows, strict=True):
            out[rows] = operator.gram_function(_restrict(f, rows, len(x)), x[rows])
        return out

    def solve(
        self, a: Coefficient, b: Coefficient, x: Tensor, *, tolerance: Coefficient | None = None
    ) -> Tensor:
        """That of the operators, each on its own samples."""
        if self._is_shared(x):
            return self.operators[0].solve(a, b, x)
        assert self.rows is not None
        out = torch.empty_like(x)
        for operator, rows in zip(self.operators, self.rows, strict=True):
            out[rows] = operator.solve(_pick(a, rows), _pick(b, rows), x[rows])
        return out

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """The measurement's own shape."""
        return measured

    def batched(self) -> dict[str, Tensor]:
        """None of its own."""
        return {}

    @property
    def batch(self) -> int | None:
        """All samples that have an operator."""
        if self.rows is None:
            return self.operators[0].batch
        return sum(len(rows) for rows in self.rows)

    def select(self, rows: Tensor) -> "Root":
        """The operators of the chosen samples, in that order."""
        if self.rows is None:
            return Root((self.operators[0].select(rows),))
        kept, places = [], []
        for operator, own in zip(self.operators, self.rows, strict=True):
            # Where each chosen sample stands among the operator's own, if it does.
            match = rows[:, None] == own[None].to(rows.device)
            place, index = match.nonzero(as_tuple=True)
            if len(place):
                kept.append(operator.select(index))
                places.append(place)
        return Root(tuple(kept), tuple(places))

    def to(self, target: torch.dtype | torch.device | str) -> "Root":
        """A copy on another device or in another precision."""
        return Root(tuple(operator.to(target) for operator in self.operators), self.rows)

    def _is_shared(self, x: Tensor) -> bool:
        """Whether one operator serves all of `x`; refuses a batch of another size."""
        if self.rows is None or self.batch == 1:
            return True
        if len(x) != self.batch:
            raise ShapeError(
                f"the operators are for {self.batch} samples but the batch holds {len(x)}: use "
                "measurement.repeat for several samples of each"
            )
        return False


def _restrict(f: Spectral, rows: Tensor, batch: int) -> Spectral:
    """`f`, whose coefficients are for the whole batch, for the eigenvalues of some samples."""

    def restricted(eigenvalues: Tensor) -> Tensor:
        if len(eigenvalues) > 1:
            whole = eigenvalues.new_zeros(batch, *eigenvalues.shape[1:])
            whole[rows] = eigenvalues
            return f(whole)[rows]
        values = f(eigenvalues)
        return values[rows] if len(values) == batch > 1 else values

    return restricted


def _pick(coefficient: Coefficient, rows: Tensor) -> Coefficient:
    if isinstance(coefficient, Tensor) and coefficient.numel() > 1:
        return coefficient[rows]
    return coefficient
