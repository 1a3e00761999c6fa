"""Posterior samples of the images behind measurements, and what they say."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

from bcdm.checkpoint import Model
from bcdm.diffusion import DPMSolver, posterior_mean, sample
from bcdm.errors import InputError, ShapeError
from bcdm.measurement import Measurement

if TYPE_CHECKING:
    from bcdm.report.content import Trust

__all__ = ["CALLS", "Posterior", "Support", "draw_samples", "reconstruct"]

CALLS = 20


@dataclass(frozen=True)
class Support:
    """Whether samples agree that a region differs from what surrounds it.

    Attributes:
        contrast: Mean of the region minus mean of the ring around it, averaged over samples.
        low: The 5 % quantile of the contrast over samples.
        high: The 95 % quantile.
        fraction: Of the samples whose contrast has the sign of the average.
    """

    contrast: float
    low: float
    high: float
    fraction: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of the images behind a batch of measurements.

    Attributes:
        model: What made it.
        measurement: What it is conditioned on.
        mean: By one network call, (B, C, H, W).
        samples: (S, B, C, H, W).
    """

    model: Model
    measurement: Measurement
    mean: Tensor
    samples: Tensor

    @cached_property
    def trust(self) -> "list[Trust]":
        """What speaks for each image of the batch and what against it."""
        from bcdm.reconstruction.trust import assess

        return assess(self)

    @cached_property
    def std(self) -> Tensor:
        """The standard deviation of each pixel, (B, C, H, W)."""
        if len(self.samples) < 2:
            raise InputError("a standard deviation needs 2 samples or more")
        return self.samples.std(0)

    @property
    def std_error(self) -> float:
        """The relative standard error of `std`, for normal pixels: 1 / sqrt(2 (S - 1))."""
        return float((2 * (len(self.samples) - 1)) ** -0.5)

    def quantiles(self, levels: Sequence[float]) -> Tensor:
        """Of each pixel over the samples, (len(levels), B, C, H, W)."""
        at = torch.tensor(levels, dtype=self.samples.dtype, device=self.samples.device)
        return torch.quantile(self.samples, at, dim=0)

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """The central interval of each pixel that should hold the truth with probability `level`.

        Its ends are means between order statistics, so that it is right for few samples too: of S
        samples and the truth every rank is equally likely.
        """
        count = len(self.samples)
        if not 0 < level <= (count - 1) / (count + 1):
            raise InputError(
                f"{count} samples resolve intervals up to {(count - 1) / (count + 1):.0%}, "
                f"not {level:.0%}: draw more"
            )
        ordered = self.samples.sort(0).values
        # The truth lies below the k-th smallest of S samples with probability k / (S + 1).
        place = (1 - level) / 2 * (count + 1) - 1
        below, part = int(place), place - int(place)
        low = (1 - part) * ordered[below] + part * ordered[below + 1]
        high = (1 - part) * ordered[-1 - below] + part * ordered[-2 - below]
        return low, high

    def support(self, region: Tensor, *, number: int = 0, margin: int = 3) -> Support:
        """Asks whether a feature is real: do the samples show a contrast there?

        Args:
            region: Which pixels, bool (H, W).
            number: The image of the batch.
            margin: Width of the ring around the region that it is compared with, in pixels.
        """
        region = region.to(torch.bool)
        if region.shape != self.samples.shape[-2:] or not bool(region.any()):
            raise ShapeError(
                f"the region has shape {tuple(region.shape)}: give a mask of "
                f"{tuple(self.samples.shape[-2:])} pixels with some of them set"
            )
        grown = max_pool2d(region[None, None].float(), 2 * margin + 1, 1, margin)[0, 0] > 0
        ring = grown & ~region
        if not bool(ring.any()):
            raise InputError("nothing surrounds the region: choose a smaller one")
        images = self.samples[:, number]
        contrast = images[..., region].flatten(1).mean(1) - images[..., ring].flatten(1).mean(1)
        average = float(contrast.mean())
        low, high = torch.quantile(contrast, contrast.new_tensor([0.05, 0.95])).tolist()
        same = float((contrast.sign() == torch.tensor(average).sign()).double().mean())
        return Support(average, low, high, same)

    def save(self, path: str | Path) -> None:
        """Writes mean, standard deviation, interval and samples to an .npz file."""
        low, high = self.interval(min(0.8, (len(self.samples) - 1) / (len(self.samples) + 1)))
        parts = {"mean": self.mean, "std": self.std, "low": low, "high": high,
                 "samples": self.samples}  # fmt: skip
        partial = Path(path).with_name(f".partial-{Path(path).name}")
        with partial.open("wb") as file:
            arrays = {name: part.cpu().numpy() for name, part in parts.items()}
            np.savez(file, allow_pickle=False, **arrays)
        partial.replace(path)

    def report(self, path: str | Path, *, truth: Tensor | None = None) -> None:
        """Writes the report: one HTML file with images, samples, uncertainty and trust card.

        Args:
            path: The file to write.
            truth: The images behind the data, (B, C, H, W), if the measurement was simulated.
        """
        from bcdm.reconstruction.reporting import make_report
        from bcdm.report.html import write_report

        write_report(Path(path), make_report(self.split(), truth=truth))

    def split(self) -> "list[Posterior]":
        """One posterior for each measurement of the batch."""
        return [
            Posterior(
                self.model,
                self.measurement.select(torch.tensor([k])),
                self.mean[k : k + 1],
                self.samples[:, k : k + 1],
            )
            for k in range(len(self.mean))
        ]


def reconstruct(
    model: Model,
    measurement: Measurement,
    *,
    samples: int = 16,
    calls: int = CALLS,
    churn: float = 1.0,
    seed: int = 0,
    progress: bool | None = None,
) -> Posterior:
    """Draws from the posterior of every measurement of a batch.

    Args:
        model: A trained one.
        measurement: In the model's units.
        samples: Of each measurement.
        calls: Network calls per sample.
        churn: Of DPM-Solver++: 0 is the ODE, 1 the SDE.
        seed: Sample k of measurement i has noise of its own, a function of (seed, i, k).
        progress: A progress bar; None shows it on a terminal only.
    """
    if samples < 1:
        raise InputError(f"samples must be 1 or more, got {samples}")
    denoiser = model.condition(measurement)
    count = len(measurement.y)
    mean = posterior_mean(denoiser, seed=seed, count=count)
    drawn = torch.stack([
        sample(denoiser, DPMSolver(churn), steps=calls, seed=seed, progress=progress,
               indices=[row * samples + k for row in range(count)])
        for k in range(samples)
    ])  # fmt: skip
    return Posterior(model, measurement, mean, drawn)


def draw_samples(
    draw: Callable[[Sequence[int], int], Tensor],
    indices: Sequence[int],
    batch: int,
    *,
    say: Callable[[str], None] = lambda line: None,
) -> Tensor:
    """Draws samples in batches, in smaller ones where memory does not last.

    Args:
        draw: Gives the samples of some indices, computed in batches of a given size.
        indices: Which samples.
        batch: How many at once to begin with.
        say: Hears of a smaller batch.
    """
    while True:
        try:
            return draw(indices, batch)
        except (MemoryError, RuntimeError) as error:
            if batch == 1 or not _is_memory(error):
                raise
            batch = (batch + 1) // 2
            say(f"out of memory: going on with batches of {batch}")


def _is_memory(error: Exception) -> bool:
    """Whether an error says that memory is full; torch has a class for it on a GPU only."""
    text = str(error).lower()
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "allocate memory" in text
