"""The report of a reconstruction: what was measured, what is known, and what to trust."""

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.checkpoint.calibration import Calibration
from bcdm.errors import InputError, ShapeError
from bcdm.evaluation import describe_ssim, psnr, ssim
from bcdm.reconstruction.fitting import Fitted
from bcdm.reconstruction.posterior import Posterior
from bcdm.reconstruction.units import Units
from bcdm.report.content import Curve, Gap, Interval, Quality, Report, Slice, Trust
from bcdm.report.figures import draw_figure
from bcdm.report.html import write_report
from bcdm.report.sketches import sketch
from bcdm.trust import join

__all__ = ["describe_scan", "draw_posterior", "make_report", "report_posterior"]

LEVEL = 0.8
SSIM_SIDE = 11  # pixels that the window of Wang et al. needs
Section = tuple[tuple[str, str], ...]


def make_report(
    posteriors: Sequence[Posterior],
    cards: Sequence[Trust],
    *,
    title: str = "Reconstruction",
    subtitle: str = "",
    units: Units | None = None,
    facts: Section = (),
    provenance: Mapping[str, Any] | None = None,
    truth: Tensor | None = None,
    features: Section = (),
    left_out: Collection[int] = (),
) -> Report:
    """Gathers everything about some slices. It shows what was drawn: it draws nothing itself.

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
    """
    units = units or Units()
    model = posteriors[0].model
    slices = tuple(
        _make_slice(
            one,
            card,
            number,
            units,
            truth=None if truth is None else truth[number : number + 1],
            left_out=number in left_out,
        )
        for number, (one, card) in enumerate(zip(posteriors, cards, strict=True))
    )
    return Report(
        title=title,
        subtitle=subtitle or f"reconstructed by {model.config.name}",
        simulated=truth is not None,
        window=_choose_window(slices),
        unit=units.name,
        slices=slices,
        trust=join(list(cards)),
        curves=(*_make_residuals(posteriors), *_make_calibration(model)),
        facts=(
            ("Measurement", facts),
            ("Reconstruction", _describe(posteriors[0])),
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


def draw_posterior(
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
    linear, mean = posterior.linear[number], posterior.samples[:, number].mean(0)
    images = {"linear estimate": linear, "posterior mean": mean}
    images |= {f"sample {k + 1}": posterior.samples[k, number] for k in range(samples)}
    sizes = {"standard deviation": posterior.std[number].mean(0)}
    if truth is not None:
        images = {"reference": truth[number]} | images
        sizes["error of the mean"] = (mean - truth[number]).abs().mean(0)
    draw_figure(
        path,
        {name: _arrange(image.cpu().float().numpy()) for name, image in images.items()},
        {name: size.cpu().float().numpy() for name, size in sizes.items()},
        window=posterior.model.config.data.value_range,
    )


def describe_scan(fitted: Fitted) -> Section:
    """What is known of a scan, for the report."""
    scan, noise, units = fitted.scan, fitted.noise, fitted.units
    error = f" +- {noise.standard_error:.2g}" if noise.standard_error else ""
    level = f"{noise.std:.4g}{error} {units.name or 'in the units of the file'}, {noise.source}"
    return (
        ("file", scan.path.name),
        ("format", f"{scan.format}, {scan.kind}"),
        ("shape", " x ".join(str(side) for side in scan.data.shape)),
        ("noise level", level),
        ("units", f"model = {units.gain:.4g} x file {units.offset:+.4g}, {units.source}"),
    )


def _make_slice(
    posterior: Posterior,
    card: Trust,
    number: int,
    units: Units,
    *,
    truth: Tensor | None,
    left_out: bool,
) -> Slice | Gap:
    """One image and what is known of it; a gap where its numbers are not finite."""
    name, samples = f"slice {number}", posterior.samples
    if not bool(samples.isfinite().all() and posterior.linear.isfinite().all()):
        return Gap(name, "its numbers are not finite.", card)
    picture, label = sketch(posterior.measurement.operator)
    return Slice(
        name=name,
        linear=_arrange(units.to_file(posterior.linear)[0]),
        mean=_arrange(units.to_file(samples.mean(0))[0]),
        std=_arrange(units.to_file_size(posterior.std)[0]),
        samples=np.stack([_arrange(one) for one in units.to_file(samples[:, 0])]),
        interval=_make_interval(posterior, units),
        operator=picture,
        operator_label=label,
        reference=None if truth is None else _arrange(units.to_file(truth)[0]),
        quality=None if truth is None else _compare(posterior, truth),
        trust=card,
        left_out=left_out,
    )


def _compare(posterior: Posterior, truth: Tensor) -> Quality:
    """PSNR and SSIM of the images shown, over the range of the model."""
    low, high = posterior.model.config.data.value_range
    shown = {
        "Linear estimate": posterior.linear,
        "Posterior mean": posterior.samples.mean(0),
        "Sample 1": posterior.samples[0],
    }
    rows = []
    for name, image in shown.items():
        near = float(psnr(image, truth, data_range=high - low))
        large = min(truth.shape[-2:]) >= SSIM_SIDE
        alike = ssim(image, truth, data_range=high - low, convention="wang") if large else None
        rows.append((name, near, None if alike is None else float(alike)))
    convention = (
        f"Of this slice alone, air included. The data range of both is that of the model, "
        f"{low:g} to {high:g} in its units. {describe_ssim('wang')}."
    )
    return Quality(tuple(rows), convention)


def _choose_window(slices: Sequence[Slice | Gap]) -> tuple[float, float]:
    """Black and white: nearly all of the means, of red slices only where there are no others."""
    images = [one for one in slices if isinstance(one, Slice)]
    relied = [one for one in images if one.trust is None or one.trust.light != "red"]
    if not images:
        return 0.0, 1.0
    means = np.stack([one.mean for one in relied or images])
    low, high = (float(v) for v in np.quantile(means, [0.005, 0.995]))
    return low, high if high > low else low + 1


def _make_interval(posterior: Posterior, units: Units) -> Interval | None:
    """The interval of each pixel; None where there are too few samples for it."""
    count = len(posterior.samples)
    if (count - 1) / (count + 1) < LEVEL:
        return None
    low, high = (_arrange(units.to_file(end)[0]) for end in posterior.interval(LEVEL))
    return Interval(low, high, LEVEL)


def _arrange(image: np.ndarray) -> np.ndarray:
    """(C, H, W) to (H, W) or (H, W, 3)."""
    return image[0] if len(image) == 1 else np.moveaxis(image, 0, -1)


def _make_residuals(posteriors: Sequence[Posterior]) -> tuple[Curve, ...]:
    """The residual of a sample in units of the noise, beside the normal law it should have."""
    finite = [one for one in posteriors if bool(one.samples.isfinite().all())]
    if not finite:
        return ()
    parts = []
    for one in finite:
        residual = one.measurement.residual(one.samples[0])[0]
        mask = one.measurement.data_mask
        kept = residual[mask.expand(1, *residual.shape)[0]] if mask is not None else residual
        flat = torch.view_as_real(kept) if kept.is_complex() else kept
        parts.append(flat.flatten().cpu().numpy())
    values = np.clip(np.concatenate(parts), -5, 5)
    edges = np.linspace(-5, 5, 41)
    density, _ = np.histogram(values, edges, density=True)
    middle = (edges[1:] + edges[:-1]) / 2
    normal = np.exp(-(middle**2) / 2) / math.sqrt(2 * math.pi)
    series = {"this scan": (edges, density), "noise alone": (middle, normal)}
    across = "(data \N{MINUS SIGN} predicted data) / noise level"
    return (Curve("Residual of a sample", across, "density", series),)


def _make_calibration(model: Model) -> tuple[Curve, ...]:
    """How often the model's intervals held the truth on held-out images, from its card."""
    rows = (model.facts.get("metrics") or {}).get("rows", {})
    found = []
    for level in (0.5, 0.8, 0.9, 0.95):
        text = rows.get(f"coverage {level:.0%}, all pixels")
        if text is not None:
            found.append((level, float(text.split()[0])))
    if not found:
        return ()
    x, y = (np.array(part) for part in zip(*found, strict=True))
    series = {model.config.name: (x, y)}
    name = "Coverage on held-out images (the model's card)"
    return (Curve(name, "promised", "held", series, diagonal=True),)


def _describe(posterior: Posterior) -> Section:
    model, measurement = posterior.model, posterior.measurement
    calibration = Calibration.of(model)
    level, value_range = float(measurement.std[0]), list(model.config.data.value_range)
    return (
        ("model", f"{model.config.name}, trained on {model.config.data.path}"),
        ("noise level for the model", f"{level:.4g} on {value_range}"),
        ("samples", f"{len(posterior.samples)}; the posterior mean is their average"),
        ("error of the std map", f"{posterior.std_error:.0%}, from so many samples"),
        ("calibrated on", calibration.on if calibration is not None else "nothing yet"),
    )
