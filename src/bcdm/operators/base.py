"""The operator contract: A, its adjoint, and functions of A^T A."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from bcdm.errors import DtypeError, InputError, ShapeError
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

    def __init_subclass__(cls, **settings: Any) -> None:
        """Keeps `dataclass` from giving a class a text with all the numbers of its tensors."""
        super().__init_subclass__(**settings)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = LinearOperator.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """One line: the shapes of tensors, and settings that are not as usual."""
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        told = [
            _tell(name, value)
            for name, value in self._fields().items()
            if not (_is_plain(value) and value == usual[name])
        ]
        return f"{type(self).__name__}({', '.join(filter(None, told))})"

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

    def solve(
        self, a: Coefficient, b: Coefficient, x: Tensor, *, tolerance: Coefficient | None = None
    ) -> Tensor:
        r"""Solves $(a I + b A^\top A) z = x$ for $z$.

        Args:
            a: Per sample or for all.
            b: Per sample or for all.
            x: The right side, (B, *shape).
            tolerance: A relative residual that is small enough, per sample or for all. What is
                solved in closed form is exact whatever it says.
        """
        shift, scale = fit(x, a, b)
        return self.gram_function(lambda eigenvalue: 1 / (shift + scale * eigenvalue), x)

    def approximate(self, f: Spectral, x: Tensor, tolerance: Coefficient) -> Tensor:
        r"""As `gram_function`, for a caller who knows how exact the result has to be.

        Args:
            f: Acts on eigenvalues.
            x: An image.
            tolerance: A relative error that is small enough, per sample or for all. What has a
                closed form is exact whatever it says.
        """
        return self.gram_function(f, x)

    def find_data(self, y: Tensor) -> Tensor | None:
        """Which entries of measurements like `y` carry data (broadcastable); None: all of them.

        Those that are not zero when an image of noise is measured, because the rows of $A$ are
        not; operators that know it without measuring say so.
        """
        count = self.batch or 1
        image = self.adjoint(torch.zeros_like(y[:count]))
        seeded = torch.Generator().manual_seed(0)
        noise = torch.randn(image.shape, dtype=image.dtype, generator=seeded)
        found = self.forward(noise.to(image.device)) != 0
        return None if bool(found.all()) else found

    def weigh(self, weights: Tensor) -> "LinearOperator | None":
        """The operator diag(weights) A, where that has a closed form; None otherwise.

        Args:
            weights: Real, of a measurement's shape with batch axis, (B or 1, ...).
        """
        return None

    @property
    def closed_form(self) -> bool:
        r"""Whether functions of $A^\top A$ are exact and cheap; results do not depend on it."""
        return True

    @property
    def stand_in(self) -> "LinearOperator":
        r"""An operator whose $A^\top A$ is like this one's, with functions of it that are cheap.

        For what need not be exact: to show a network what is measured, to tell measurements apart.
        """
        return self

    @property
    def batch(self) -> int | None:
        """How many samples the operator holds one entry each for; None: any number."""
        sizes = {len(t) for t in self.batched().values() if len(t) > 1}
        sizes |= {part.batch for part in self._parts().values() if part.batch is not None}
        return max(sizes) if sizes else None

    @abstractmethod
    def batched(self) -> dict[str, Tensor]:
        """The tensor fields whose axis 0 runs over samples; none if all samples share them."""

    def select(self, rows: Tensor) -> Self:
        """The operator for the chosen samples of its batch; itself if all samples share it."""
        chosen: dict[str, Any] = {n: t[rows] for n, t in self.batched().items() if len(t) > 1}
        chosen |= {name: part.select(rows) for name, part in self._parts().items()}
        return dataclasses.replace(self, **chosen) if chosen else self

    def to(self, target: torch.dtype | torch.device | str) -> Self:
        """A copy with its tensors on another device or in another precision."""
        moved: dict[str, Any] = {name: part.to(target) for name, part in self._parts().items()}
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
        """The plain fields by name; refused where one is an operator or Python code."""
        found = {n: v for n, v in self._fields().items() if not isinstance(v, Tensor)}
        for name, value in found.items():
            if not _is_plain(value):
                raise InputError(
                    f"{name} of {type(self).__name__} is made of Python code and cannot be stored: "
                    "store what builds it"
                )
        return found

    def _parts(self) -> dict[str, "LinearOperator"]:
        """The fields that are operators themselves: what is done to a whole is done to them."""
        return {n: v for n, v in self._fields().items() if isinstance(v, LinearOperator)}

    def _fields(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}

    def _check_precision(self, x: Tensor, own: Tensor) -> None:
        if real_dtype(x.dtype) != real_dtype(own.dtype):
            raise DtypeError(
                f"{type(self).__name__} holds {own.dtype} but the tensor is {x.dtype}: "
                f"use operator.to({real_dtype(x.dtype)}) or convert the tensor"
            )


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(one) for one in value)
    return value is None or isinstance(value, bool | int | float | str)


def _tell(name: str, value: object) -> str:
    """A field in few words; none for Python code, whose text says nothing."""
    if isinstance(value, Tensor):
        return f"{name} {tuple(value.shape)}"
    if isinstance(value, LinearOperator):
        return f"{name} {type(value).__name__}"
    if _is_plain(value):
        return f"{name}={value!r}"
    return f"{len(value)} {name}" if isinstance(value, tuple) else ""


def check_channels(name: str, x: Tensor, mask: Tensor) -> None:
    """Refuses a mask (..., C, H, W) of more channels than the images, which would multiply them."""
    if mask.ndim > 2 and x.ndim > 2 and mask.shape[-3] not in (1, x.shape[-3]):
        raise ShapeError(
            f"the mask {tuple(mask.shape)} of {name} has {mask.shape[-3]} channels, and images "
            f"{tuple(x.shape)} have {x.shape[-3]}: masks have axes (H, W) or (B, C, H, W)"
        )


def check_trailing(name: str, x: Tensor, size: tuple[int, ...]) -> None:
    """Refuses images whose last axes are not `size`, and an image without a batch axis."""
    if tuple(x.shape[-len(size) :]) != tuple(size):
        mend = "resize the image or build the operator for its size"
    elif x.ndim < len(size) + 1:
        mend = "give axes (batch, channels, rows, columns)" if len(size) == 2 else "give x[None]"
    else:
        return
    raise ShapeError(
        f"{name} acts on batches that end in {tuple(size)}, got {tuple(x.shape)}: {mend}"
    )
