"""Operators that act pixel by pixel or block by block."""

from dataclasses import dataclass, field
from math import prod, sqrt
from typing import Literal

import torch
from torch import Tensor

from bcdm.errors import InputError, ShapeError
from bcdm.operators.base import LinearOperator, Spectral, check_channels, check_trailing
from bcdm.tensors import check_tensors, real_dtype

__all__ = ["BlockMean", "Diagonal", "Identity", "PixelMask"]


@dataclass(frozen=True, eq=False)
class Identity(LinearOperator):
    """Measures every pixel: denoising.

    >>> Identity().solve(1.0, 3.0, torch.ones(1, 2))
    tensor([[0.2500, 0.2500]])
    """

    def forward(self, x: Tensor) -> Tensor:
        """The image itself."""
        return x

    def adjoint(self, y: Tensor) -> Tensor:
        """The measurement itself."""
        return y

    def gram_function(self, f: Spectral, x: Tensor) -> Tensor:
        r"""$f(1) x$: all eigenvalues are one."""
        return f(torch.ones([1] * x.ndim, dtype=real_dtype(x.dtype), device=x.device)) * x

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """The measurement's own shape."""
        return measured

    def weigh(self, weights: Tensor) -> "Diagonal":
        """A diagonal of the weights."""
        return Diagonal(weights)

    def find_data(self, y: Tensor) -> None:
        """All entries."""

    def batched(self) -> dict[str, Tensor]:
        """None: all samples share it."""
        return {}


@dataclass(frozen=True, eq=False)
class Diagonal(LinearOperator):
    r"""Scales each entry: $A = \mathrm{diag}(w)$.

    Args:
        weights: Real, with a batch axis: (B or 1, *shape). Zero means "not measured".

    >>> Diagonal(torch.tensor([[2.0, 0.0]])).forward(torch.tensor([[3.0, 4.0]]))
    tensor([[6., 0.]])
    """

    weights: Tensor

    def __post_init__(self) -> None:
        check_tensors(weights=self.weights)
        if not self.weights.is_floating_point():
            raise InputError(f"the weights of Diagonal are real, not {self.weights.dtype}")

    def forward(self, x: Tensor) -> Tensor:
        r"""$w x$."""
        self._check(x)
        return self.weights * x

    def adjoint(self, y: Tensor) -> Tensor:
        r"""$w y$."""
        return self.forward(y)

    def gram_function(self, f: Spectral, x: Tensor) -> Tensor:
        r"""$f(w^2) x$."""
        self._check(x)
        return f(self.weights.square()) * x

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """The weights' own shape."""
        return tuple(self.weights.shape[1:])

    def find_data(self, y: Tensor) -> Tensor:
        """Where the weights are not zero."""
        return self.weights != 0

    def weigh(self, weights: Tensor) -> "Diagonal":
        """A diagonal again."""
        return Diagonal(self.weights * weights)

    def _check(self, x: Tensor) -> None:
        check_trailing("Diagonal", x, tuple(self.weights.shape[1:]))
        self._check_precision(x, self.weights)

    def batched(self) -> dict[str, Tensor]:
        """The weights."""
        return {"weights": self.weights}


@dataclass(frozen=True, eq=False)
class PixelMask(LinearOperator):
    r"""Keeps some pixels: inpainting. $A = \mathrm{diag}(m)$.

    Measurements keep the image's shape; pixels not measured are zero and carry no data.

    Args:
        mask: Boolean, or real weights where zero means "not measured"; the image's trailing axes
            (H, W), or with channel and batch axes (B or 1, C or 1, H, W).

    >>> PixelMask(torch.tensor([True, False])).forward(torch.tensor([[3.0, 4.0]]))
    tensor([[3., 0.]])
    """

    mask: Tensor

    def __post_init__(self) -> None:
        check_tensors(mask=self.mask)
        if self.mask.is_complex():
            raise InputError("the mask of PixelMask is boolean or real, not complex")

    def forward(self, x: Tensor) -> Tensor:
        r"""$m x$."""
        self._check(x)
        return x * self._weights(x)

    def adjoint(self, y: Tensor) -> Tensor:
        r"""$m y$: a diagonal is its own adjoint."""
        return self.forward(y)

    def gram_function(self, f: Spectral, x: Tensor) -> Tensor:
        r"""$f(m^2) x$."""
        self._check(x)
        weights = self._weights(x)
        return f(weights.square().reshape(*[1] * (x.ndim - weights.ndim), *weights.shape)) * x

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """The measurement's own shape."""
        return measured

    def find_data(self, y: Tensor) -> Tensor:
        """Where the mask is not zero."""
        return self.mask != 0

    def weigh(self, weights: Tensor) -> Diagonal:
        """A diagonal of mask times weights."""
        return Diagonal(self.mask * weights)

    def _weights(self, x: Tensor) -> Tensor:
        if self.mask.is_floating_point():
            self._check_precision(x, self.mask)
        return self.mask.to(x.device, real_dtype(x.dtype))

    def batched(self) -> dict[str, Tensor]:
        """The mask, if it has a batch axis."""
        return {"mask": self.mask} if self.mask.ndim == 4 else {}

    def _check(self, x: Tensor) -> None:
        check_trailing("PixelMask", x, tuple(self.mask.shape[-2:]))
        check_channels("PixelMask", x, self.mask)


@dataclass(frozen=True, eq=False)
class BlockMean(LinearOperator):
    r"""Averages blocks of pixels: box super-resolution.

    Args:
        factor: Pixels per block along each axis, (rows, columns).
        scaling: "unitary" divides block sums by $\sqrt n$, so that $A A^\top = I$ (the paper's);
            "mean" divides by $n$, the plain average of a camera.

    >>> BlockMean((2, 2), "mean").forward(torch.arange(4.0).reshape(1, 1, 2, 2))
    tensor([[[[1.5000]]]])
    """

    factor: tuple[int, int]
    scaling: Literal["unitary", "mean"] = "unitary"
    _weight: float = field(init=False, default=0.0, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", tuple(self.factor))
        if len(self.factor) != 2 or min(self.factor) < 1:
            raise InputError(f"BlockMean takes a factor (rows, columns) >= 1, not {self.factor}")
        if self.scaling not in ("unitary", "mean"):
            raise InputError(f"scaling is 'unitary' or 'mean', not {self.scaling!r}")
        pixels = prod(self.factor)
        weight = 1 / sqrt(pixels) if self.scaling == "unitary" else 1 / pixels
        object.__setattr__(self, "_weight", weight)

    def forward(self, x: Tensor) -> Tensor:
        """Weighted block sums (B, C, H / rows, W / columns)."""
        rows, columns = self.factor
        if x.ndim < 3 or x.shape[-2] % rows or x.shape[-1] % columns:
            raise ShapeError(
                f"BlockMean{self.factor} needs sides divisible by its factor, got "
                f"{tuple(x.shape)}: crop or pad the image"
            )
        blocks = x.unflatten(-1, (-1, columns)).unflatten(-3, (-1, rows))
        return blocks.sum((-3, -1)) * self._weight

    def adjoint(self, y: Tensor) -> Tensor:
        """Spreads each value over its block."""
        rows, columns = self.factor
        spread = (y * self._weight)[..., :, None, :, None]
        return spread.expand(*y.shape[:-1], rows, y.shape[-1], columns).reshape(
            *y.shape[:-2], y.shape[-2] * rows, y.shape[-1] * columns
        )

    def gram_function(self, f: Spectral, x: Tensor) -> Tensor:
        r"""Applies $f(A^\top A)$ in closed form.

        $A^\top A$ has two eigenvalues, $0$ and $\lambda = n w^2$; with $P$ the projection onto
        block means, $f(A^\top A) = f(0) I + (f(\lambda) - f(0)) P$.
        """
        # Replaces the paper's Woodbury identities: one rule serves 1/2, -1/2 and -1.
        top = prod(self.factor) * self._weight**2
        one = torch.ones([1] * x.ndim, dtype=real_dtype(x.dtype), device=x.device)
        at_zero, at_top = f(0 * one), f(top * one)
        return at_zero * x + (at_top - at_zero) / top * self.gram(x)

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """The measurement's sides times the factor."""
        rows, columns = self.factor
        return (*measured[:-2], measured[-2] * rows, measured[-1] * columns)

    def find_data(self, y: Tensor) -> None:
        """All entries."""

    def batched(self) -> dict[str, Tensor]:
        """None: all samples share it."""
        return {}
