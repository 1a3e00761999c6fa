"""The panels of one slice for the page: pictures, scales, and numbers for the readout."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from bcdm.report.axes import format_number, round_up
from bcdm.report.content import Array, Report, Slice
from bcdm.report.pictures import deviation_scale, pack_values, picture, scale_to_bytes

__all__ = ["Panel", "Section", "find_largest_deviation", "lay_out_slice"]


class Scale(NamedTuple):
    """The bar below a picture: its colours, and the numbers at its ends and its middle."""

    kind: Literal["grey", "deviation"]
    ticks: tuple[str, str, str]


@dataclass(frozen=True)
class Panel:
    """One picture, or several of which one is shown.

    Attributes:
        name: What it shows.
        unit: Of its numbers.
        note: What it means, in a sentence.
        kind: Classes of its style: what moves together, what takes level and width.
        rows: Of pixels.
        columns: Of pixels.
        pictures: Address and words for each.
        scale: The bar below.
    """

    name: str
    unit: str
    note: str
    kind: str
    rows: int
    columns: int
    pictures: tuple[tuple[str, str], ...]
    scale: Scale


@dataclass(frozen=True)
class Section:
    """What the page shows of one slice: panels on two scales, and the values behind them."""

    name: str
    panels: tuple[Panel, ...]
    packed: dict[str, Any]


def find_largest_deviation(report: Report) -> float:
    """The end of the scale that standard deviations and errors share, over all slices.

    Half a percent of the pixels may lie beyond it: a few outliers would darken all others.
    """
    values = np.concatenate([_average_channels(one.std).ravel() for one in report.slices])
    top = float(np.quantile(values, 0.995)) or float(values.max())
    low, high = report.window
    return round_up(top if top > 0 else (high - low) / 100)


def lay_out_slice(report: Report, one: Slice, largest: float) -> Section:
    """All panels of a slice, in the order of the page."""
    count = len(one.samples)
    panels = [
        _draw(report, "Linear estimate", "From the data alone, without the network.", one.linear),
        _draw(report, "Posterior mean", _describe_mean(count), one.mean),
        _draw_sizes(
            report,
            "Standard deviation",
            "How far images that fit the data differ.",
            one.std,
            largest,
        ),
        _draw_samples(report, one.samples),
    ]
    if one.interval is not None:
        panels += _draw_interval(report, one.interval.low, one.interval.high, one.interval.level)
    if one.operator is not None:
        panels.append(_draw_operator(one.operator, one.operator_label))
    if one.reference is not None:
        error = np.abs(np.asarray(one.mean, np.float64) - one.reference)
        note = "|mean \N{MINUS SIGN} reference|, on the scale of the standard deviation."
        panels += [
            _draw(report, "Reference", "The image the data were simulated from.", one.reference),
            _draw_sizes(report, "Error", note, error, largest),
        ]
    return Section(one.name, tuple(panels), _pack(one))


def _pack(one: Slice) -> dict[str, Any]:
    rows, columns, *channels = np.shape(one.mean)
    packed: dict[str, Any] = {"shape": [rows, columns, *(channels or [1])]}
    # Finer than a hundredth of the uncertainty there is nothing to read, only noise to store.
    step = float(np.sqrt(np.mean(np.square(one.std, dtype=np.float64)))) / 50
    for name in ("mean", "std", "reference"):
        if getattr(one, name) is not None:
            packed[name] = pack_values(getattr(one, name), step)
    return packed


def _describe_mean(count: int) -> str:
    return f"The average of {count} samples." if count > 1 else "One sample: no average."


def _draw(report: Report, name: str, note: str, image: Array) -> Panel:
    address = picture(scale_to_bytes(image, *report.window))
    rows, columns = image.shape[:2]
    scale = _make_scale("grey", report.window)
    return Panel(name, report.unit, note, "grey linked", rows, columns, ((address, name),), scale)


def _draw_sizes(report: Report, name: str, note: str, sizes: Array, largest: float) -> Panel:
    shown = _average_channels(sizes)
    highest = float(shown.max())
    note += " Averaged over the channels." if sizes.ndim == 3 else ""
    unit = f"max {highest:.2g} {report.unit}"
    sign = "\N{GREATER-THAN OR EQUAL TO} " if highest > largest * (1 + 1e-9) else ""
    address = picture(scale_to_bytes(shown, 0, largest), deviation_scale())
    rows, columns = shown.shape
    scale = _make_scale("deviation", (0.0, largest), sign)
    return Panel(name, unit, note, "linked", rows, columns, ((address, name),), scale)


def _draw_samples(report: Report, samples: Array) -> Panel:
    """Pictures of which one is shown; a player chooses it."""
    count = len(samples)
    pictures = tuple(
        (picture(scale_to_bytes(image, *report.window)), f"Sample {k + 1} of {count}")
        for k, image in enumerate(samples)
    )
    note = (
        "One image that fits the data. What changes from sample to sample "
        "is not determined by the data."
    )
    rows, columns = samples.shape[1:3]
    scale, kind = _make_scale("grey", report.window), "grey linked stack samples"
    return Panel("Sample", report.unit, note, kind, rows, columns, pictures, scale)


def _draw_interval(report: Report, low: Array, high: Array, level: float) -> list[Panel]:
    note = f"of the interval that is meant to hold the true value of {level:.0%} of all pixels."
    return [
        _draw(report, f"{level:.0%} interval, {end}", f"The {end} end {note}", image)
        for end, image in (("lower", low), ("upper", high))
    ]


def _draw_operator(operator: Array, label: str) -> Panel:
    low, high = float(np.min(operator)), float(np.max(operator))
    address = picture(scale_to_bytes(operator, low, high if high > low else low + 1))
    rows, columns = operator.shape
    scale, note = _make_scale("grey", (low, high)), "How the data were taken."
    return Panel(label, "", note, "operator", rows, columns, ((address, label),), scale)


def _make_scale(
    kind: Literal["grey", "deviation"], ends: tuple[float, float], sign: str = ""
) -> Scale:
    """A scale with its numbers; the sign says that some pixels lie beyond its end."""
    low, middle, high = (format_number(v) for v in (ends[0], sum(ends) / 2, ends[1]))
    return Scale(kind, (low, middle, sign + high))


def _average_channels(sizes: Array) -> Array:
    sizes = np.asarray(sizes, dtype=np.float64)
    return sizes.mean(2) if sizes.ndim == 3 else sizes
