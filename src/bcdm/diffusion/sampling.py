"""The only sampling loop."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor
from tqdm.auto import tqdm

from bcdm.diffusion.denoiser import Denoiser
from bcdm.diffusion.samplers import DPMSolver, Memory, Sampler, Step, choose_sampler
from bcdm.diffusion.schedules import NoiseLevel, Schedule
from bcdm.errors import InputError, ShapeError
from bcdm.tensors import ImageSpec, SeededNoise, fit

__all__ = ["NoiseSource", "posterior_mean", "run_chain", "sample"]


class NoiseSource(Protocol):
    """Where a chain gets its standard normal noise from."""

    def normal(self, image: ImageSpec, *, step: int, draw: int = 0) -> Tensor:
        """A batch of noise, a function of the step and the number of the draw in it."""
        ...


@torch.no_grad()
def sample(
    denoiser: Denoiser,
    sampler: Sampler | None = None,
    *,
    steps: int = 20,
    seed: int = 0,
    indices: Iterable[int] = (0,),
    grid: Tensor | None = None,
    batch: int | None = None,
    progress: bool | None = None,
    items: Sequence[str] | None = None,
) -> Tensor:
    """Draws samples from pure noise down to the cleanest level, whose mean is returned.

    Sample k of a seed, or of a seed and an item, has its own noise: the same bits at any batch size
    and in any order.

    Args:
        denoiser: Gives the mean of x_0 at any level.
        sampler: How to step from level to level; left out: DPM-Solver++ for the SDE, or what a
            denoiser brings along.
        steps: Number of noise levels; the sampler's `calls` tells the network calls.
        seed: Together with the index it fixes all noise of a sample.
        indices: Which samples to draw, e.g. `range(64)`.
        grid: Log-SNR of the levels, increasing; that of the schedule when left out.
        batch: Draw in batches of exactly this size. The last batch is filled up and cut, so
            that a sample is the same to the bit whatever samples are drawn with it. For denoisers
            of one measurement; with several bound, draw one sample of each at a time.
        progress: A progress bar; None shows it on a terminal only.
        items: The item that each index counts the samples of, by name. For denoisers of several
            measurements: noise then does not depend on a measurement's place in the batch.

    Returns:
        Samples (len(indices), *shape).
    """
    sampler = choose_sampler(denoiser, sampler, DPMSolver(churn=1.0))
    chosen = list(indices)
    if not chosen:
        raise InputError("indices is empty: ask for at least one sample, e.g. range(1)")
    size = len(chosen) if batch is None else batch
    if size < 1:
        raise InputError(f"batch is at least 1, got {batch}")
    log_snr = denoiser.schedule.grid(steps) if grid is None else grid.double()
    if bool((log_snr.diff() <= 0).any()):
        raise InputError("the grid of log-SNR must increase from noise to clean")
    whole = SeededNoise(seed, chosen, items)
    starts = range(0, len(chosen), size)
    total = len(starts) * len(log_snr)
    # tqdm takes None as "on a terminal only".
    hidden = None if progress is None else not progress
    drawn = []
    with tqdm(total=total, disable=hidden, desc="sampling", unit="level") as bar:
        for start in starts:
            rows = list(range(start, min(start + size, len(chosen))))
            filled = rows + rows[-1:] * (size - len(rows))
            x = run_chain(denoiser, sampler, log_snr, whole.select(filled), bar.update)
            drawn.append(x[: len(rows)])
    return torch.cat(drawn)


def run_chain(
    denoiser: Denoiser,
    sampler: Sampler,
    log_snr: Tensor,
    noise: NoiseSource,
    advance: Callable[[], object] = lambda: None,
) -> Tensor:
    """One batch from noise to image, through the levels `log_snr`."""
    image = denoiser.image
    denoiser = _Checked(denoiser)
    whole = denoiser.schedule.level(log_snr)
    levels = [NoiseLevel(*pair) for pair in zip(*(part.split(1) for part in whole), strict=True)]
    x = _start(levels[0], noise.normal(image, step=0))
    memory: Memory | None = None
    for number in range(1, len(levels)):
        draw = partial(_draw, noise, image, number)
        step = Step(levels[number - 1], levels[number], draw, memory)
        moved, memory = sampler.advance(denoiser, x, step)
        x = _check(moved, x, "sampler")
        advance()
    x = denoiser(x, levels[-1])
    advance()
    return x


@dataclass(frozen=True)
class _Checked:
    """A denoiser whose every mean is looked at: samplers would broadcast one of another shape."""

    denoiser: Denoiser

    @property
    def schedule(self) -> Schedule:
        """The denoiser's."""
        return self.denoiser.schedule

    @property
    def image(self) -> ImageSpec:
        """The denoiser's."""
        return self.denoiser.image

    def __getattr__(self, name: str) -> Any:
        # A sampler may be made for one kind of denoiser, and ask it for more than the contract.
        return getattr(self.denoiser, name)

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        """The denoiser's mean, of the shape of x_t."""
        return _check(self.denoiser(x_t, level), x_t, "denoiser")


def _check(found: Tensor, x: Tensor, maker: str) -> Tensor:
    """Refuses a result of another shape, which broadcasting gives without a word."""
    if found.shape != x.shape:
        raise ShapeError(
            f"the {maker} made {tuple(found.shape)} of images {tuple(x.shape)}, and has to keep "
            "their shape: with several measurements bound, draw one sample of each at a time"
        )
    return found


def _start(level: NoiseLevel, noise: Tensor) -> Tensor:
    (sigma,) = fit(noise, level.sigma)
    return sigma * noise


def _draw(noise: NoiseSource, image: ImageSpec, step: int, number: int) -> Tensor:
    return noise.normal(image, step=step, draw=number)


@torch.no_grad()
def posterior_mean(
    denoiser: Denoiser, *, seed: int = 0, count: int = 1, items: Sequence[str] | None = None
) -> Tensor:
    r"""The mean by one network call.

    At the end of the noise range $x_t$ carries no information, so $E[x_0 \mid x_t, y]$ there is
    $E[x_0 \mid y]$ whatever the noise drawn.

    Args:
        denoiser: With measurements bound.
        seed: Of the noise.
        count: The number of measurements bound; that of `items` if these are given.
        items: Names of the measurements: what remains of the noise in a network's answer then does
            not depend on a measurement's place in the batch.

    Returns:
        (count, *shape).
    """
    low, _ = denoiser.schedule.log_snr_range
    level = denoiser.schedule.level(torch.tensor([low], dtype=torch.float64))
    # The first sample of each item begins with the same noise.
    indices = range(count) if items is None else [0] * len(items)
    noise = SeededNoise(seed, indices, items).normal(denoiser.image, step=0)
    x_t = _start(level, noise)
    return _Checked(denoiser)(x_t, level)
