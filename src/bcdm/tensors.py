"""Shapes, per-sample broadcasting, and noise that depends on its own seed alone."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from bcdm.errors import DtypeError, InputError, ShapeError

__all__ = ["ImageSpec", "SeededNoise", "check_tensors", "expand", "fit", "inner", "real_dtype"]

_WORD = (1 << 64) - 1
_CPU = torch.device("cpu")
# Second word of the counter: 0 without items, 1 and 2 in `data.order`, from here on with items.
_ITEM_STREAM = 1 << 63


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


def check_tensors(**given: object) -> None:
    """Refuses what is no tensor, such as an array of NumPy, by its name."""
    for name, one in given.items():
        if not isinstance(one, Tensor):
            raise DtypeError(
                f"{name} is {type(one).__name__}, not a tensor: give torch.as_tensor({name})"
            )


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

    Where several items share a run, sample k of an item is keyed by (seed, item, k): key = 128 bits
    of a hash of seed and item, counter = (step, draw, k). It depends neither on the item's place
    in a batch nor on how many samples are drawn of it.

    Args:
        seed: Of all noise.
        indices: Which samples.
        items: The item that each sample is of, by name; left out: there is only one.

    >>> a = SeededNoise(0, range(8)).normal(ImageSpec((3,)), step=5)
    >>> b = SeededNoise(0, [6]).normal(ImageSpec((3,)), step=5)
    >>> torch.equal(a[6:7], b)
    True
    """

    seed: int
    indices: Sequence[int]
    items: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if min([self.seed, *self.indices]) < 0:
            raise InputError("seeds and sample indices are integers >= 0")
        if self.items is not None and len(self.items) != len(self.indices):
            raise ShapeError(f"{len(self.items)} items for {len(self.indices)} samples")

    def select(self, rows: Sequence[int]) -> "SeededNoise":
        """The noise of some of the samples, in that order, repeats allowed."""
        items = None if self.items is None else [self.items[row] for row in rows]
        return SeededNoise(self.seed, [self.indices[row] for row in rows], items)

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
        state = stream.state
        for row, (key, number) in zip(out, self._streams(), strict=True):
            counter = np.array([0, number, draw, step], np.uint64)
            state["state"] = {"counter": counter, "key": key}
            stream.state = state
            generator.standard_normal(dtype=drawn, out=row)
        noise = torch.from_numpy(out).to(real)
        if parts == 2:
            noise = torch.view_as_complex(noise.reshape(len(self.indices), -1, 2))
        return noise.reshape(len(self.indices), *image.shape).to(image.device)

    def _streams(self) -> Iterator[tuple[np.ndarray, int]]:
        """Key, and second word of the counter, of each sample; the first one counts the draws."""
        if self.items is None:
            for index in self.indices:
                yield np.array([self.seed & _WORD, index & _WORD], np.uint64), 0
            return
        for item, index in zip(self.items, self.indices, strict=True):
            yield _hash_item(self.seed, item), _ITEM_STREAM + index


def _hash_item(seed: int, item: str) -> np.ndarray:
    """The key of an item: two of a billion items share one with a probability of 1e-21."""
    # Names of files may hold bytes that are no text.
    content = f"bcdm.noise/1\0{seed}\0{item}".encode(errors="surrogateescape")
    return np.frombuffer(hashlib.sha256(content).digest()[:16], "<u8").astype(np.uint64)
