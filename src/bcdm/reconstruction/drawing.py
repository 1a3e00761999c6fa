"""Samples of many items in batches of one size: every reconstruction draws here."""

import logging
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor

from bcdm.diffusion import DPMSolver, Sampler, choose_sampler, posterior_mean, run_chain
from bcdm.errors import InputError, MachineError
from bcdm.measurement import Measurement
from bcdm.methods import Method
from bcdm.reconstruction.joining import Same, find_kind, join_measurements
from bcdm.shelf import CALLS
from bcdm.tensors import SeededNoise

__all__ = [
    "Drawer",
    "Drawn",
    "Item",
    "Progress",
    "Sampling",
    "draw_preview",
    "draw_previews",
    "estimate_seconds",
    "is_memory",
]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sampling:
    """How samples are drawn.

    Attributes:
        samples: Of each item.
        calls: Network calls per sample.
        churn: Of DPM-Solver++: 0 is the ODE, 1 the SDE.
        seed: Of all noise; that of sample k of an item is a function of (seed, item, k).
        batch: Images at once.
        sampler: Another one than DPM-Solver++.
    """

    samples: int = 16
    calls: int = CALLS
    churn: float = 1.0
    seed: int = 0
    batch: int = 16
    sampler: Sampler | None = None

    def __post_init__(self) -> None:
        for name in ("samples", "calls", "batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, got {getattr(self, name)}")


@dataclass(frozen=True, eq=False)
class Item:
    """One measurement, and the name that its noise belongs to.

    Attributes:
        id: The name.
        batch: The measurement, or several.
        row: Which of them it is.
        scale_taken: Whether its scale was taken from the data; its trust card asks.
    """

    id: str
    batch: Measurement
    row: int = 0
    scale_taken: bool = False

    @cached_property
    def measurement(self) -> Measurement:
        """The one measurement."""
        return self.batch if len(self.batch.y) == 1 else self.batch.select(torch.tensor([self.row]))

    @cached_property
    def kind(self) -> Hashable:
        """Equal for items that fit into one batch."""
        return find_kind(self.batch) if len(self.batch.y) == 1 else Same(self.batch)


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        items: Names of those in the batch that is being drawn.
        samples: How many were drawn before it, of all items.
        level: How many network calls of the batch are done.
        levels: How many it takes.
    """

    items: tuple[str, ...]
    samples: int
    level: int
    levels: int


@dataclass(frozen=True, eq=False)
class Drawn:
    """Sample `number` of an item, (C, H, W), or the error that came instead."""

    item: Item
    number: int
    image: Tensor | None
    error: Exception | None = None


def estimate_seconds(method: Method, item: Item, sampling: Sampling, items: int) -> float:
    """About how long the samples of so many items take here, from two calls of one batch.

    Args:
        method: What draws.
        item: One of them.
        sampling: How.
        items: How many they are.
    """
    tried = replace(sampling, calls=2, batch=min(sampling.batch, sampling.samples))
    drawer, began = Drawer(method, tried), time.perf_counter()
    for number in range(tried.batch):
        for one in drawer.add(item, number):
            if one.error is not None:
                raise one.error
    each = (time.perf_counter() - began) / (tried.batch * tried.calls)
    return each * items * sampling.samples * sampling.calls


class Drawer:
    """Collects what is wanted, and draws it whenever a batch is full.

    Items of different operators share a batch if these are of one kind. A batch is filled up to its
    size by repeating the last sample: a sample's bits then do not depend on what else is drawn.

    Args:
        method: What draws.
        sampling: How.
        on_step: Called after every network call; what it raises ends the run.
        fill: Whether to fill batches up. Without it the last one is faster, and rounds differently.
    """

    def __init__(
        self,
        method: Method,
        sampling: Sampling,
        on_step: Callable[[Progress], None] | None = None,
        *,
        fill: bool = True,
    ) -> None:
        self.method, self.sampling, self.fill = method, sampling, fill
        self.size, self.count = sampling.batch, 0
        self._on_step, self._stopped = on_step, False
        self._open: list[tuple[Item, int]] = []

    def add(self, item: Item, number: int) -> list[Drawn]:
        """Asks for a sample of an item; gives what was drawn since."""
        drawn: list[Drawn] = []
        if self._open and self._open[-1][0].kind != item.kind:
            drawn = self.flush()
        self._open.append((item, number))
        return drawn + self.flush() if len(self._open) >= self.size else drawn

    def flush(self) -> list[Drawn]:
        """Draws all that is waiting."""
        waiting, self._open = [self._open], []
        drawn: list[Drawn] = []
        while waiting:
            part = waiting.pop(0)
            if len(part) > self.size:
                waiting[:0] = [part[: self.size], part[self.size :]]
                continue
            try:
                drawn += self._draw(part) if part else []
            except Exception as error:
                if self._stopped:
                    raise
                if is_memory(error):
                    self._shrink(error)
                    waiting.insert(0, part)
                elif len(apart := _split(part)) > 1:
                    # Each item on its own: only what is at fault fails again.
                    waiting[:0] = apart
                else:
                    drawn += [Drawn(item, number, None, error) for item, number in part]
        return drawn

    @torch.no_grad()
    def _draw(self, part: Sequence[tuple[Item, int]]) -> list[Drawn]:
        filled = [*part, *[part[-1]] * (self.size - len(part))] if self.fill else part
        items = [item for item, _ in filled]
        names = tuple(dict.fromkeys(item.id for item in items))
        denoiser = self.method.condition(_gather(items))
        usual = DPMSolver(self.sampling.churn)
        sampler = choose_sampler(denoiser, self.sampling.sampler, usual)
        levels = denoiser.schedule.grid(sampler.count_steps(self.sampling.calls))
        noise = SeededNoise(
            self.sampling.seed, [number for _, number in filled], [item.id for item in items]
        )
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            self._tell(Progress(names, self.count, done, len(levels)))

        images = run_chain(denoiser, sampler, levels, noise, advance)
        self.count += len(part)
        return [Drawn(*one, image) for one, image in zip(part, images, strict=False)]

    def _tell(self, progress: Progress) -> None:
        if self._on_step is None:
            return
        try:
            self._on_step(progress)
        except BaseException:
            self._stopped = True
            raise

    def _shrink(self, error: Exception) -> None:
        """Goes on with smaller batches, down to one image."""
        if self.size == 1:
            raise MachineError("memory does not last for a single image") from error
        self.size = (self.size + 1) // 2
        _log.warning("out of memory: going on with batches of %d", self.size)


def draw_preview(method: Method, item: Item, seed: int) -> Tensor:
    """The mean of an item by one network call, (1, C, H, W)."""
    return posterior_mean(method.condition(item.measurement), seed=seed, items=[item.id])


@torch.no_grad()
def draw_previews(method: Method, items: Sequence[Item], seed: int, size: int) -> list[Tensor]:
    """The means of several items by one network call for each batch, (C, H, W) each.

    Batches of one kind are filled up to `size` by repeating the last item: the bits of a mean do
    not depend on what else is asked for. `draw_preview` may round differently.
    """
    means: list[Tensor] = []
    for _, group in groupby(items, lambda item: item.kind):
        same = list(group)
        for start in range(0, len(same), size):
            part = same[start : start + size]
            filled = [*part, *[part[-1]] * (size - len(part))]
            names = [item.id for item in filled]
            joined = join_measurements([item.measurement for item in filled])
            drawn = posterior_mean(method.condition(joined), seed=seed, items=names)
            means += list(drawn[: len(part)])
    return means


def _gather(items: Sequence[Item]) -> Measurement:
    """The measurements of items of one kind as a batch."""
    first = items[0]
    if all(item is first for item in items):
        # It serves a batch as it is, and remembers what it computed for the last.
        return first.measurement
    if all(item.batch is first.batch for item in items):
        return first.batch.select(torch.tensor([item.row for item in items]))
    return join_measurements([item.measurement for item in items])


def _split(part: Sequence[tuple[Item, int]]) -> list[list[tuple[Item, int]]]:
    """What is wanted, one list for each item."""
    groups: dict[int, list[tuple[Item, int]]] = {}
    for item, number in part:
        groups.setdefault(id(item), []).append((item, number))
    return list(groups.values())


def is_memory(error: Exception) -> bool:
    """Whether an error says that memory is full; torch has a class for it on a GPU only."""
    text = str(error).lower()
    said = any(words in text for words in ("allocate memory", "enough memory", "out of memory"))
    full = isinstance(error, (MemoryError, torch.OutOfMemoryError))
    return full or (said and isinstance(error, RuntimeError))
