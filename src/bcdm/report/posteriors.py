"""From posteriors to a report: everything about them, as plain values and arrays.

It shows what was drawn: nothing here calls a network or a sampler.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bcdm.errors import InputError, ShapeError
from bcdm.evaluation import describe_ssim, psnr, ssim
from bcdm.reconstruction.amplification import estimate_linear_std
from bcdm.reconstruction.features import crop_middle
from bcdm.reconstruction.posterior import Posterior, as_shown
from bcdm.reconstruction.units import Units
from bcdm.report.coils import make_asides
from bcdm.report.content import Array, Gap, Interval, Quality, Report, Slice
from bcdm.report.diagnostics import make_coverage, make_residuals
from bcdm.report.facts import Facts, describe_posterior
from bcdm.report.figures import plot_figure
from bcdm.report.html import write_report
from bcdm.report.pictures import arrange
from bcdm.report.sketches import sketch
from bcdm.trust import Trust, join

__all__ = ["make_report", "plot_posterior", "report_posterior"]

LEVEL = 0.8
SSIM_SIDE = 11  # pixels that the window of Wang et al. needs
_ROOM = 1 << 21  # pixels of all slices whose images a page holds: 512 of 64x64, 20 of 320x320


def make_report(
    posteriors: Sequence[Posterior],
    cards: Sequence[Trust],
    *,
    title: str = "Reconstruction",
    subtitle: str = "",
    units: Units | None = None,
    facts: Facts = (),
    provenance: Mapping[str, Any] | None = None,
    truth: Tensor | None = None,
    features: Facts = (),
    left_out: Collection[int] = (),
    weights: Array | None = None,
    size: tuple[int, int] | None = None,
) -> Report:
    """Gathers everything about some slices.

    Of a large volume, images of slices that are evenly spaced, and the trust card of each.

    Args:
        posteriors: Of one measurement each.
        cards: The trust card of each.
        title: What was reconstructed.
        subtitle: From what.
        units: Of the images shown; those of the model when left out.
        facts: What is known of the measurement.
        provenance: Where the result comes from.
        truth: The images behind the data, (slices, C, H, W) in the model's units, if simulated.
        features: Regions, and what the samples say of them.
        left_out: Numbers of slices that are missing in the files of images.
        weights: What images are multiplied by to be those of the file's coils, (slices, H, W).
        size: Rows and columns of the middle that is shown, as in the files of images; None: all.
    """
    units = units or Units()
    model = posteriors[0].model
    count = len(posteriors)
    shown = _choose_shown(count, posteriors[0].measurement.image.shape)
    slices = tuple(
        _make_slice(
            posteriors[number],
            card,
            number,
            units,
            truth=None if truth is None else truth[number : number + 1],
            left_out=number in left_out,
            weight=None if weights is None else torch.from_numpy(np.array(weights[number])),
            size=size,
        )
        if number in shown
        else Gap(
            f"slice {number}",
            f"this page shows {len(shown)} of {count} slices; the files of images hold the others.",
            card,
            number in left_out,
        )
        for number, card in enumerate(cards)
    )
    return Report(
        title=title,
        subtitle=subtitle or f"reconstructed by {model.name}",
        simulated=truth is not None,
        window=_choose_window(slices),
        unit=units.name,
        slices=slices,
        trust=join(list(cards)),
        curves=(*make_residuals(posteriors), *make_coverage(model)),
        facts=(
            ("Measurement", facts),
            ("Reconstruction", describe_posterior(posteriors[0])),
            *([("Is this feature real?", features)] if features else []),
        ),
        provenance=dict(provenance or {}),
    )


def report_posterior(
    posterior: Posterior, path: str | Path, *, truth: Tensor | None = None
) -> None:
    """Writes the report of a posterior: one HTML file; see `Posterior.report`."""
    if truth is not None and truth.shape != posterior.mean.shape:
        raise ShapeError(f"truth has shape {tuple(truth.shape)}, not {tuple(posterior.mean.shape)}")
    write_report(Path(path), make_report(posterior.split(), posterior.trust, truth=truth))


def plot_posterior(
    posterior: Posterior,
    path: str | Path,
    *,
    number: int = 0,
    samples: int = 2,
    truth: Tensor | None = None,
) -> None:
    """Draws one image of a posterior for a paper; see `Posterior.figure`."""
    if not 0 <= number < len(posterior.mean):
        raise InputError(f"there is no image {number}: the batch holds {len(posterior.mean)}")
    if not 0 <= samples <= len(posterior.samples):
        raise InputError(f"{samples} samples cannot be shown: there are {len(posterior.samples)}")
    linear, mean = as_shown(posterior.linear[number]), posterior.image[number]
    images = {"linear estimate": linear, "posterior mean": mean}
    images |= {f"sample {k + 1}": posterior.values[k, number] for k in range(samples)}
    sizes = {"standard deviation": posterior.std[number].mean(0)}
    if truth is not None:
        reference = as_shown(truth[number])
        images = {"reference": reference} | images
        sizes["error of the mean"] = (mean - reference).abs().mean(0)
    plot_figure(
        path,
        {name: arrange(image.cpu().float().numpy()) for name, image in images.items()},
        {name: size.cpu().float().numpy() for name, size in sizes.items()},
        window=posterior.model.value_range or find_window(posterior.image.cpu().float().numpy()),
    )


def _make_slice(
    posterior: Posterior,
    card: Trust,
    number: int,
    units: Units,
    *,
    truth: Tensor | None,
    left_out: bool,
    weight: Tensor | None = None,
    size: tuple[int, int] | None = None,
) -> Slice | Gap:
    """One image and what is known of it; a gap where its numbers are not finite."""
    name, samples = f"slice {number}", posterior.samples
    sides = size or posterior.measurement.image.shape[-2:]

    def show(images: Tensor) -> Array:
        """Images (..., C, H, W) in the units of the file."""
        shown = as_shown(images)
        return units.to_file(crop_middle(shown if weight is None else shown * weight, sides))

    def show_size(sizes: Tensor) -> Array:
        weighed = sizes if weight is None else sizes * weight
        return arrange(units.to_file_size(crop_middle(weighed, sides))[0])

    if not bool(samples.isfinite().all() and posterior.linear.isfinite().all()):
        return Gap(name, "its numbers are not finite.", card)
    picture, label = sketch(posterior.measurement.operator)
    return Slice(
        name=name,
        linear=arrange(show(posterior.linear)[0]),
        mean=arrange(show(posterior.image)[0]),
        std=show_size(posterior.std),
        samples=np.stack([arrange(one) for one in show(samples[:, 0])]),
        interval=_make_interval(posterior, show),
        operator=picture,
        operator_label=label,
        reference=None if truth is None else arrange(show(truth)[0]),
        quality=None if truth is None else _compare(posterior, truth),
        trust=card,
        left_out=left_out,
        linear_std=show_size(_find_linear_std(posterior)) if samples.is_complex() else None,
        asides=make_asides(posterior, sides),
    )


def _choose_shown(count: int, shape: tuple[int, ...]) -> set[int]:
    """Numbers of slices whose images a page has room for, evenly spaced."""
    most = max(1, _ROOM // (shape[-2] * shape[-1]))
    if count <= most:
        return set(range(count))
    return {round(float(number)) for number in np.linspace(0, count - 1, most)}


def _find_linear_std(posterior: Posterior) -> Tensor:
    return estimate_linear_std(posterior.measurement, posterior.scales.prior_std)


def _compare(posterior: Posterior, truth: Tensor) -> Quality:
    """PSNR and SSIM of the images shown, over the range of the model or else of the reference."""
    truth = as_shown(truth)
    stated = posterior.model.value_range
    low, high = stated or (float(truth.min()), float(truth.max()))
    shown = {
        "Linear estimate": as_shown(posterior.linear),
        "Posterior mean": posterior.image,
        "Sample 1": posterior.values[0],
    }
    rows = []
    for name, image in shown.items():
        near = float(psnr(image, truth, data_range=high - low))
        large = min(truth.shape[-2:]) >= SSIM_SIDE
        alike = ssim(image, truth, data_range=high - low, convention="wang") if large else None
        rows.append((name, near, None if alike is None else float(alike)))
    convention = (
        f"Of this slice alone, air included. The data range of both is that of the "
        f"{'model' if stated else 'reference'}, {low:g} to {high:g} in its units. "
        f"{describe_ssim('wang')}."
    )
    return Quality(tuple(rows), convention)


def _choose_window(slices: Sequence[Slice | Gap]) -> tuple[float, float]:
    """Black and white: nearly all of the means, of red slices only where there are no others."""
    images = [one for one in slices if isinstance(one, Slice)]
    relied = [one for one in images if one.trust is None or one.trust.light != "red"]
    if not images:
        return 0.0, 1.0
    return find_window(np.stack([one.mean for one in relied or images]))


def find_window(values: Array) -> tuple[float, float]:
    """Black and white that hold nearly all values."""
    low, high = (float(v) for v in np.quantile(values, [0.005, 0.995]))
    return low, high if high > low else low + 1


def _make_interval(posterior: Posterior, show: Callable[[Tensor], Array]) -> Interval | None:
    """The interval of each pixel; None where there are too few samples for it."""
    count = len(posterior.samples)
    if (count - 1) / (count + 1) < LEVEL:
        return None
    low, high = (arrange(show(end)[0]) for end in posterior.interval(LEVEL))
    return Interval(low, high, LEVEL)
