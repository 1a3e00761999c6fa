"""Shapes, per-sample broadcasting, and noise that depends on its own seed alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from bcdm.errors import InputError, ShapeError

__all__ = ["ImageSpec", "SeededNoise", "expand", "fit", "inner", "real_dtype"]

_WORD = (1 << 64) - 1
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class ImageSpec:
    """What one image is: its shape without the batch, number type and device."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    device: torch.device = _CPU

    @classmethod
    def of(cls, x: Tensor) -> "ImageSpec":
        """Reads the specification off a batch `x` of shape (B, *shape)."""
        return cls(tuple(x.shape[1:]), x.dtype, x.device)


def expand(coefficient: Tensor, ndim: int) -> Tensor:
    """Shapes a per-sample coefficient () or (B,) to broadcast over tensors of `ndim` axes.

    >>> expand(torch.tensor([1.0, 2.0]), 4).shape
    torch.Size([2, 1, 1, 1])
    """
    if coefficient.ndim > 1:
        raise ShapeError(
            f"a per-sample coefficient has shape () or (B,), not {tuple(coefficient.shape)}"
        )
    return coefficient.reshape(-1, *[1] * (ndim - 1))


def fit(x: Tensor, *coefficients: float | Tensor) -> tuple[Tensor, ...]:
    """Shapes and casts coefficients, () or (B,), to multiply the batch `x` (B, ...).

    Coefficients are computed in float64 wherever they come from; they take the image's precision
    and device only here, where they meet it.
    """
    real = real_dtype(x.dtype)
    return tuple(
        expand(torch.as_tensor(c, dtype=real, device=x.device), x.ndim) for c in coefficients
    )


def inner(a: Tensor, b: Tensor) -> Tensor:
    r"""Per-sample real inner product $\mathrm{Re}\langle a, b\rangle$ of (B, ...) tensors: (B,).

    A complex image is a point of $R^{2n}$, so the real part is the inner product everywhere.
    """
    return (a.conj() * b).real.flatten(1).sum(1)


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The real number type of the same precision.

    >>> real_dtype(torch.complex64)
    torch.float32
    """
    return dtype.to_real() if dtype.is_complex else dtype


@dataclass(frozen=True)
class SeededNoise:
    """Standard normal noise as a pure function of (seed, sample index, step, draw).

    Each sample has its own counter-based stream (Philox, key = (seed, index), counter = (step,
    draw)). So the noise of sample k is the same bits at any batch size, in any order, on any
    worker and after any resume, and nothing is stored between calls.

    >>> a = SeededNoise(0, range(8)).normal(ImageSpec((3,)), step=5)
    >>> b = SeededNoise(0, [6]).normal(ImageSpec((3,)), step=5)
    >>> torch.equal(a[6:7], b)
    True
    """

    seed: int
    indices: Sequence[int]

    def __post_init__(self) -> None:
        if min([self.seed, *self.indices]) < 0:
            raise InputError("seeds and sample indices are integers >= 0")

    def normal(self, image: ImageSpec, *, step: int, draw: int = 0) -> Tensor:
        """Draws a batch (len(indices), *image.shape).

        Complex images get unit variance in the real and in the imaginary part each.
        """
        # Always drawn on the CPU: a GPU run then sees the same noise as a CPU run.
        real = real_dtype(image.dtype)
        drawn = np.float64 if real == torch.float64 else np.float32
        parts = 2 if image.dtype.is_complex else 1
        out = np.empty((len(self.indices), prod(image.shape) * parts), drawn)
        # One generator is moved from stream to stream: making one for each costs five times more.
        stream = np.random.Philox(key=0)
        generator = np.random.Generator(stream)
        key = np.array([self.seed & _WORD, 0], np.uint64)
        state = stream.state
        state["state"] = {"counter": np.array([0, 0, draw, step], np.uint64), "key": key}
        for row, index in zip(out, self.indices, strict=True):
            key[1] = index & _WORD
            stream.state = state
            generator.standard_normal(dtype=drawn, out=row)
        noise = torch.from_numpy(out).to(real)
        if parts == 2:
            noise = torch.view_as_complex(noise.reshape(len(self.indices), -1, 2))
        return noise.reshape(len(self.indices), *image.shape).to(image.device)
