"""Which image stands where in training: a pure function of seed and position.

No order is stored and no generator advances, so a run may stop at any step, go on with another
number of processes, and still see the same images in the same global batches.
"""

import itertools
import math
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from bcdm.data.images import ImageSource
from bcdm.data.preparation import Augmentation, Preparation
from bcdm.errors import InputError, ShapeError

__all__ = ["Batch", "ImageBatches", "sample_counters", "sample_index", "shard"]

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

ROUNDS = 24  # with 12 the orders of 5 items are measurably unfair
ORDER_STREAM, AUGMENTATION_STREAM = 1, 2


def sample_counters(step: int, global_batch: int) -> Integers:
    r"""Numbers the samples of a training step from the first step on.

    Args:
        step: The training step, from 0.
        global_batch: Samples per step over all processes.

    Returns:
        $g = \text{step} \cdot \text{global\_batch} + (0, 1, \dots)$, shape (global_batch,).
    """
    return np.arange(step * global_batch, (step + 1) * global_batch, dtype=np.int64)


def sample_index(seed: int, counters: Integers, length: int) -> Integers:
    r"""Says which item each sample is: every item once per epoch, in an order of its own.

    Sample $g$ is item $\pi_e(g \bmod n)$ of epoch $e = \lfloor g / n \rfloor$. The permutation
    $\pi_e$ of $n$ items is a Feistel network on a grid of $n$ or slightly more points, keyed by
    seed and epoch; points beyond $n$ are sent on until they fall inside (cycle walking). Time
    and memory do not depend on $n$.

    Args:
        seed: Another seed gives other orders; 0 or more.
        counters: Sample counters $g$, 0 or more, of any shape.
        length: The number of items $n$.

    Returns:
        Items in [0, length), of the counters' shape.

    Example:
        >>> sorted(sample_index(7, np.arange(5), 5).tolist())
        [0, 1, 2, 3, 4]
    """
    counters = np.asarray(counters, dtype=np.int64)
    if length < 1 or (counters < 0).any():
        raise InputError(f"length {length} must be 1 or more and every counter 0 or more")
    all_epochs, places = np.divmod(counters.reshape(-1), length)
    epochs, owners = np.unique(all_epochs, return_inverse=True)
    streams = [_philox(seed, int(epoch), ORDER_STREAM) for epoch in epochs]
    keys = np.array([stream.random_raw(ROUNDS) for stream in streams], dtype=np.uint64)
    keys = keys.reshape(len(epochs), ROUNDS)[owners]
    items = _permute(places.astype(np.uint64), length, keys)
    return items.astype(np.int64).reshape(counters.shape)


def shard(positions: Integers, rank: int, world_size: int) -> Integers:
    """Takes the consecutive part of a global batch that one process works on.

    Args:
        positions: Sample counters or positions (global_batch,).
        rank: This process.
        world_size: The number of processes; it must divide the global batch, so that the mean of
            the processes' mean losses is the mean over the batch.

    Returns:
        Shape (global_batch / world_size,).
    """
    if world_size < 1 or not 0 <= rank < world_size:
        raise InputError(f"rank {rank} must be at least 0 and below world_size {world_size}")
    if len(positions) % world_size:
        raise InputError(
            f"a global batch of {len(positions)} does not divide among {world_size} processes: "
            "choose a multiple"
        )
    share = len(positions) // world_size
    return positions[rank * share : (rank + 1) * share]


class Batch(NamedTuple):
    """One process's part of a training batch."""

    images: Tensor
    """Prepared images (b, C, H, W), float32 or complex64."""
    counters: Tensor
    """The global sample counter of each image (b,), int64: the key of all its randomness."""


class ImageBatches(IterableDataset[Batch]):
    """One process's part of each global batch, from any step on.

    The content of a step depends on seed, step and global batch alone. To read ahead in workers,
    wrap it as `DataLoader(batches, batch_size=None, num_workers=k)`: the order stays the same.

    Args:
        source: The training images.
        preparation: Makes them the network's images.
        augmentation: Changes each sample at random, by seed and sample counter.
        seed: Of order and augmentation.
        global_batch: Samples per step over all processes.
        start_step: The first step to give.
        stop_step: The step to stop before, or None to go on for ever.
        rank: This process.
        world_size: The number of processes.
        cache: Hold all prepared images in memory if they fit; else they are read anew.
        cache_limit: The bytes that they may take.
    """

    def __init__(
        self,
        source: ImageSource,
        preparation: Preparation,
        augmentation: Augmentation | None = None,
        *,
        seed: int,
        global_batch: int,
        start_step: int = 0,
        stop_step: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        cache: bool = False,
        cache_limit: int = 4 * 2**30,
    ) -> None:
        if len(source) < 1 or global_batch < 1 or start_step < 0:
            raise InputError("there must be an image, a global batch of 1 or more, and a step >= 0")
        if tuple(preparation.source_range) != tuple(source.value_range):
            raise InputError(
                f"preparation expects {preparation.source_range} but the images have "
                f"{source.value_range}: set source_range={source.value_range}"
            )
        shard(sample_counters(0, global_batch), rank, world_size)
        _philox(seed, 0, ORDER_STREAM)
        self.source, self.preparation, self.augmentation = source, preparation, augmentation
        self.seed, self.global_batch = seed, global_batch
        self.start_step, self.stop_step = start_step, stop_step
        self.rank, self.world_size = rank, world_size
        self.cache = _fill_cache(source, preparation, cache_limit) if cache else None

    def batch(self, step: int) -> Batch:
        """Gives this process's part of one step."""
        counters = shard(sample_counters(step, self.global_batch), self.rank, self.world_size)
        items = sample_index(self.seed, counters, len(self.source))
        if self.cache is not None:
            held = self.cache[torch.from_numpy(items)]
            native = held.float() if held.dtype == torch.uint8 else held
        else:
            native = _stack([self.preparation.arrange(self.source[int(i)]) for i in items])
        images = self.preparation.rescale(native)
        if self.augmentation is not None:
            changed = [
                self.augmentation.augment(image, self._generator(int(g)))
                for image, g in zip(images, counters, strict=True)
            ]
            images = torch.stack(changed)
        return Batch(images, torch.from_numpy(counters.copy()))

    def __iter__(self) -> Iterator[Batch]:
        """Gives the steps in order; among k loader workers each prepares every k-th step."""
        worker = get_worker_info()
        first, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for step in itertools.count(self.start_step + first, stride):
            if self.stop_step is not None and step >= self.stop_step:
                return
            yield self.batch(step)

    def _generator(self, counter: int) -> np.random.Generator:
        return np.random.Generator(_philox(self.seed, counter, AUGMENTATION_STREAM))


def _philox(seed: int, counter: int, stream: int) -> np.random.Philox:
    """Keys a generator by (seed, counter), in a stream of its own."""
    if not 0 <= seed < 2**64:
        raise InputError(f"seed {seed} must be at least 0 and below 2**64")
    key = np.array([seed, counter], dtype=np.uint64)
    # `tensors.SeededNoise` draws from the same keys, but with 0 in the second word.
    return np.random.Philox(key=key, counter=np.array([0, stream, 0, 0], dtype=np.uint64))


def _permute(points: Words, length: int, keys: Words) -> Words:
    """Permutes [0, length), each of the points (n,) by its own keys (n, ROUNDS)."""
    rows = math.isqrt(length - 1) + 1
    # With an odd number of both, only even permutations could come out.
    rows += rows % 2
    columns = -(-length // rows)
    points = _scatter(points, rows, columns, keys)
    while (outside := points >= length).any():
        points[outside] = _scatter(points[outside], rows, columns, keys[outside])
    return points


def _scatter(points: Words, rows: int, columns: int, keys: Words) -> Words:
    """Permutes the grid of rows x columns points: each round adds to one part a hash of the other.

    Such a sum can be taken back whatever the hash is, so every round is a bijection.
    """
    height, width = np.uint64(rows), np.uint64(columns)
    row, column = np.divmod(points, width)
    for even, odd in zip(keys.T[::2], keys.T[1::2], strict=True):
        row = (row + _hash(column, even) % height) % height
        column = (column + _hash(row, odd) % width) % width
    return row * width + column


def _hash(values: Words, keys: Words) -> Words:
    """Mixes 64-bit words with keys, by the finaliser of SplitMix64."""
    z = values * np.uint64(0x9E3779B97F4A7C15) + keys
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _stack(images: list[Tensor]) -> Tensor:
    shapes = sorted({tuple(image.shape) for image in images})
    if len(shapes) > 1:
        raise ShapeError(f"images of shapes {shapes} in one batch: set size and channels")
    return torch.stack(images)


def _fill_cache(source: ImageSource, preparation: Preparation, limit: int) -> Tensor | None:
    """Holds all arranged images (N, C, H, W): as bytes if that is exact, else as they are.

    They stay in native numbers, so that a batch is the same to the bit with and without cache.
    """
    first = preparation.arrange(source[0])
    count = len(source) * first.numel()
    held: Tensor | None = None
    for index in range(len(source)):
        image = _stack([first, preparation.arrange(source[index])])[1]
        is_exact = not image.is_complex() and torch.equal(image.clamp(0, 255).byte().float(), image)
        if held is None or (held.dtype == torch.uint8 and not is_exact):
            dtype = torch.uint8 if is_exact else image.dtype
            if (needed := count * dtype.itemsize) > limit:
                message = f"images are read anew each time: a cache needs {needed} bytes"
                warnings.warn(f"{message}, cache_limit is {limit}", RuntimeWarning, stacklevel=3)
                return None
            shape = (len(source), *first.shape)
            held = torch.empty(shape, dtype=dtype) if held is None else held.float()
        held[index] = image
    return held
