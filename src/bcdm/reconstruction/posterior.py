"""Posterior samples of the images behind measurements, and what they say."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path

import torch
from torch import Tensor
from tqdm.auto import tqdm

import bcdm  # the public names: what is shown lies above this room
from bcdm.checkpoint import Guest, Model, welcome
from bcdm.checkpoint.calibration import find_factors, find_region_factors
from bcdm.diffusion import Sampler, posterior_mean
from bcdm.errors import InputError, ShapeError
from bcdm.evaluation.ranks import find_interval
from bcdm.files import replacing, write_arrays
from bcdm.identity import identify
from bcdm.measurement import Measurement
from bcdm.methods import Method
from bcdm.methods.view import Scales
from bcdm.reconstruction.choice import Choice, choose_method
from bcdm.reconstruction.drawing import Drawer, Drawn, Item, Sampling
from bcdm.reconstruction.features import Support, find_support
from bcdm.shelf import CALLS
from bcdm.trust import Trust, assess

__all__ = ["Posterior", "as_shown", "reconstruct"]


def as_shown(images: Tensor) -> Tensor:
    """Images as they are looked at: complex ones by their magnitude."""
    return images.abs() if images.is_complex() else images


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """What is known of the images behind a batch of measurements.

    Of complex images, `mean` and `samples` are complex; everything that is said of pixels (`image`,
    `std`, quantiles, intervals, features) is of their magnitudes.

    Attributes:
        model: What made it: a trained model, or a guest, which is any other method.
        measurement: What it is conditioned on.
        preview: The mean by one network call, (B, C, H, W): at once, but less exact than `mean`.
            Of a guest, the mean: what a single call of it gives is not known.
        samples: (S, B, C, H, W).
        scale_taken: Whether the measurement's scale was taken from the data, because nobody stated
            one; its trust card compares with right measurements of that kind.
    """

    model: Model | Guest
    measurement: Measurement
    preview: Tensor
    samples: Tensor
    scale_taken: bool = False

    def __repr__(self) -> str:
        count, images, size = len(self.samples), len(self.preview), tuple(self.preview.shape[1:])
        return f"Posterior({self.model.name!r}: {count} samples of {images} images {size})"

    @cached_property
    def mean(self) -> Tensor:
        """The average of the samples, (B, C, H, W): the best estimate of the image."""
        return self.samples.mean(0)

    @property
    def values(self) -> Tensor:
        """The samples as they are looked at, real (S, B, C, H, W)."""
        return as_shown(self.samples)

    @cached_property
    def image(self) -> Tensor:
        """The average of `values`, real (B, C, H, W): the best estimate of what is looked at."""
        return self.values.mean(0) if self.samples.is_complex() else self.mean

    @cached_property
    def trust(self) -> list[Trust]:
        """What speaks for each image of the batch and what against it."""
        return assess(
            self.model,
            self.measurement,
            self.preview,
            self.samples,
            scale_taken=self.scale_taken,
        )

    @cached_property
    def linear(self) -> Tensor:
        """The linear estimate: what the data show without the network, (B, C, H, W)."""
        return self.scales.estimate_linearly(self.measurement)

    @cached_property
    def scales(self) -> Scales:
        """The prior of the linear estimate."""
        if self.model.scales is not None:
            return self.model.scales
        size = float(self.samples.abs().double().square().mean().sqrt())
        return Scales(size if isfinite(size) and size > 0 else 1.0)

    @property
    def black(self) -> float:
        """The value of black: the model's, or the least of the image where it states none."""
        value_range = self.model.value_range
        return float(self.image.min()) if value_range is None else value_range[0]

    @cached_property
    def std(self) -> Tensor:
        """The standard deviation of each pixel, (B, C, H, W)."""
        if len(self.samples) < 2:
            raise InputError("a standard deviation needs 2 samples or more")
        return self.values.std(0)

    @property
    def std_error(self) -> float:
        """The relative standard error of `std`, for normal pixels: 1 / sqrt(2 (S - 1))."""
        if len(self.samples) < 2:
            raise InputError("a standard deviation needs 2 samples or more")
        return float((2 * (len(self.samples) - 1)) ** -0.5)

    def quantiles(self, levels: Sequence[float]) -> Tensor:
        """Of each pixel over the samples, (len(levels), B, C, H, W)."""
        values = self.values
        at = torch.tensor(levels, dtype=values.dtype, device=values.device)
        return torch.quantile(values, at, dim=0)

    def interval(self, level: float = 0.8, *, calibrated: bool = True) -> tuple[Tensor, Tensor]:
        """The central interval of each pixel that should hold the truth with probability `level`.

        Its ends are means between order statistics, so that it is right for few samples too: of S
        samples and the truth every rank is equally likely.

        Args:
            level: The probability.
            calibrated: Widens or narrows it as the model's calibration asks, if it has one;
                False is what the samples alone say.
        """
        low, high = find_interval(self.values, level)
        if calibrated:
            factors = find_factors(self.model, level, self.image)
            middle, half = (low + high) / 2, factors * (high - low) / 2
            low, high = middle - half, middle + half
            if self.samples.is_complex():
                low = low.clamp_min(0)
        return low, high

    def support(self, region: Tensor, *, number: int = 0, margin: int = 3) -> Support:
        """Asks whether a feature is real: do the samples show a contrast there?

        Args:
            region: Which pixels, bool (H, W).
            number: The image of the batch.
            margin: Width of the ring around the region that it is compared with, in pixels.
        """
        if not 0 <= number < len(self.preview):
            raise InputError(f"there is no image {number}: the last one is {len(self.preview) - 1}")
        factors = find_region_factors(self.model)
        return find_support(self.values[:, number], region, margin, factors)

    def save(self, path: str | Path) -> None:
        """Writes mean, standard deviation, interval, samples and preview to an .npz file.

        `low` and `high` are the ends of the interval of `level`: .8, or what the samples can tell
        if they are few. Of complex images these and `std` are of magnitudes. A single sample has
        neither interval nor standard deviation.
        """
        parts = {"mean": self.mean, "samples": self.samples, "preview": self.preview}
        if len(self.samples) > 1:
            level = min(0.8, (len(self.samples) - 1) / (len(self.samples) + 1))
            low, high = self.interval(level)
            parts |= {"std": self.std, "level": torch.tensor(level, dtype=torch.float64)}
            parts |= {"low": low, "high": high}
        arrays = {name: part.cpu().numpy() for name, part in parts.items()}
        with replacing(Path(path)) as partial:
            write_arrays(partial, arrays)

    def report(self, path: str | Path, *, truth: Tensor | None = None) -> None:
        """Writes the report: one HTML file with images, samples, uncertainty and trust card.

        Args:
            path: The file to write.
            truth: The images behind the data, (B, C, H, W), if the measurement was simulated.
        """
        bcdm.report_posterior(self, path, truth=truth)

    def figure(
        self,
        path: str | Path,
        *,
        number: int = 0,
        samples: int = 2,
        truth: Tensor | None = None,
    ) -> None:
        """Draws one image of the batch for a paper: PDF, PNG or SVG by the ending of the path.

        What the data show, mean, samples and standard deviation; with the truth, it and the error
        of the mean. Images share one scale, deviations another. Needs matplotlib.

        Args:
            path: The file to write.
            number: The image of the batch.
            samples: How many to show.
            truth: The images behind the data, (B, C, H, W), if the measurement was simulated.
        """
        bcdm.plot_posterior(self, path, number=number, samples=samples, truth=truth)

    def split(self) -> "list[Posterior]":
        """One posterior for each measurement of the batch."""
        return [
            Posterior(
                self.model,
                self.measurement.select(torch.tensor([k])),
                self.preview[k : k + 1],
                self.samples[:, k : k + 1],
                self.scale_taken,
            )
            for k in range(len(self.preview))
        ]


def reconstruct(
    model: Method,
    measurement: Measurement,
    *,
    samples: int = 16,
    calls: int | None = None,
    churn: float = 1.0,
    seed: int = 0,
    batch: int = 16,
    progress: bool | None = None,
    items: Sequence[str] | None = None,
    sampler: Sampler | None = None,
    method: Choice = "model",
    force: bool = False,
    device: torch.device | str | None = None,
    scale_taken: bool = False,
) -> Posterior:
    """Draws from the posterior of every measurement of a batch.

    Sample k of a measurement is the same in any batch, in any order and beside any number of other
    samples, up to rounding: its noise is a function of (seed, item, k).

    Args:
        model: A trained one, or any other method: an object with `condition(measurement)` that
            gives a denoiser (docs/methods.md).
        measurement: In the model's units.
        samples: Of each measurement.
        calls: Network calls per sample; when left out as the model was calibrated, 20 where that is
            not known.
        churn: Of DPM-Solver++: 0 is the ODE, 1 the SDE.
        seed: Of all noise.
        batch: Images at once, over measurements and samples.
        progress: A progress bar; None shows it on a terminal only.
        items: Names of the measurements. Left out, each is named by a hash of its content, so that
            measurements of equal content have the same samples.
        sampler: Another one than DPM-Solver++.
        method: What to take where the model was not made for a measurement: "auto" takes MMPS, a
            guided method, with the model's network as prior, if it is one. What is called with that
            prior and gives a method, or its import path, is taken in any case.
        force: Whether the model goes on there all the same, with a warning and a red card; with
            another `method` it changes nothing.
        device: Where the model's network runs, such as "cuda" or "auto"; where it is when left out.
            Measurement and samples stay where the measurement is. Methods of your own know where
            their networks are.
        scale_taken: Whether the measurement's scale was taken from the data, because nobody stated
            one: its trust card then compares with right measurements of that kind.

    Raises:
        UnfitError: The model was not made for a measurement.
    """
    _check_kind(measurement)
    made = welcome(model)
    if isinstance(made, Model):
        made = made if device is None else made.to(device)
        made = choose_method(made, measurement, method, force=force)
    elif device is not None:
        raise InputError("device is for trained models: put the network of your method there")
    if calls is None:
        calls = CALLS if isinstance(made, Guest) else made.calls
    sampling = Sampling(samples, calls, churn, seed, batch, sampler)
    count = len(measurement.y)
    names = identify(measurement) if items is None else list(items)
    if len(names) != count:
        raise ShapeError(f"{len(names)} names of items for {count} measurements: give one each")
    previews = []
    for start in range(0, 0 if isinstance(made, Guest) else count, batch):
        rows = range(start, min(start + batch, count))
        part = measurement.select(torch.tensor(rows))
        # Forced, the model warns; else it was asked before.
        denoiser = made.condition(part) if force else made.method.condition(part)
        previews.append(posterior_mean(denoiser, seed=seed, items=[names[row] for row in rows]))
    drawn = _draw_all(made.method, measurement, names, sampling, progress)
    preview = torch.cat(previews) if previews else drawn.mean(0)
    return Posterior(made, measurement, preview, drawn, scale_taken)


def _check_kind(given: object) -> None:
    if not isinstance(given, Measurement):
        kind = type(given).__name__
        raise InputError(f"{kind} is no measurement: give bcdm.Measurement(y, operator, noise_std)")


def _draw_all(
    method: Method,
    measurement: Measurement,
    names: Sequence[str],
    sampling: Sampling,
    progress: bool | None,
) -> Tensor:
    """Samples (S, B, C, H, W); never more than a batch of measurements is conditioned on."""
    total = len(names) * sampling.samples
    # A batch that is the only one need not be as large as others.
    drawer = Drawer(method, sampling, fill=total > sampling.batch)
    images: list[Tensor] = []
    hidden = None if progress is None else not progress
    with tqdm(total=total, disable=hidden, desc="sampling", unit="sample") as bar:

        def keep(drawn: Sequence[Drawn]) -> None:
            for one in drawn:
                if one.error is not None:
                    raise one.error
                assert one.image is not None
                images.append(one.image)
            bar.update(len(drawn))

        for row, name in enumerate(names):
            item = Item(name, measurement, row)
            for number in range(sampling.samples):
                keep(drawer.add(item, number))
        keep(drawer.flush())
    # Samples come in the order in which they were asked for.
    return torch.stack(images).unflatten(0, (len(names), sampling.samples)).transpose(0, 1)
