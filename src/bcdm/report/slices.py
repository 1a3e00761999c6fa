"""The panels of one slice for the page: pictures, scales, and numbers for the readout."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from bcdm.report.axes import format_number, round_up
from bcdm.report.content import Array, Aside, Gap, Report, Slice
from bcdm.report.pictures import (
    deviation_scale,
    pack_values,
    phase_scale,
    picture,
    scale_to_bytes,
)

__all__ = ["Panel", "Section", "find_largest_deviation", "lay_out_slice", "leave_out_samples"]


class Scale(NamedTuple):
    """The bar below a picture: its colours, and the numbers at its ends and its middle."""

    kind: Literal["grey", "deviation", "phase"]
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

    @property
    def size(self) -> int:
        """Of its pictures in the page, in characters."""
        return sum(len(address) for address, _ in self.pictures)


@dataclass(frozen=True)
class Section:
    """What the page shows of one slice or gap.

    Attributes:
        content: The slice or gap.
        panels: On two scales; a gap has none.
        packed: The values behind them, for the readout.
        asides: Panels that are shown on demand.
    """

    content: Slice | Gap
    panels: tuple[Panel, ...] = ()
    packed: Mapping[str, Any] | None = None
    asides: tuple[Panel, ...] = ()


def find_largest_deviation(report: Report) -> float:
    """The end of the scale that standard deviations and errors share.

    Half a percent of the pixels may lie beyond it: a few outliers would darken all others. So
    would red slices, which count only where there are no others.
    """
    relied = [one for one in report.images if one.trust is None or one.trust.light != "red"]
    shown = relied or report.images
    values = np.concatenate([np.zeros(1), *(_average_channels(one.std).ravel() for one in shown)])
    top = float(np.quantile(values, 0.995)) or float(values.max())
    low, high = report.window
    return round_up(top if top > 0 else (high - low) / 100)


def lay_out_slice(report: Report, one: Slice | Gap, largest: float) -> Section:
    """All panels of a slice, in the order of the page."""
    if isinstance(one, Gap):
        return Section(one)
    count = len(one.samples)
    panels = [
        _plot(report, "Linear estimate", "From the data alone, without the network.", one.linear),
        _plot(report, "Posterior mean", _describe_mean(count), one.mean),
        _plot_sizes(
            report,
            "Standard deviation",
            "How far images that fit the data differ.",
            one.std,
            largest,
        ),
        _plot_samples(report, one.samples),
    ]
    if one.linear_std is not None:
        note = "That of a linear estimate: noise as coils and mask amplify it, without the network."
        panels.insert(3, _plot_sizes(report, "Noise amplification", note, one.linear_std, largest))
    if one.interval is not None:
        panels += _plot_interval(report, one.interval.low, one.interval.high, one.interval.level)
    if one.operator is not None:
        panels.append(_plot_operator(one.operator, one.operator_label))
    if one.reference is not None:
        error = np.abs(np.asarray(one.mean, np.float64) - one.reference)
        note = "|mean \N{MINUS SIGN} reference|, on the scale of the standard deviation."
        panels += [
            _plot(report, "Reference", "The image the data were simulated from.", one.reference),
            _plot_sizes(report, "Error", note, error, largest),
        ]
    return Section(one, tuple(panels), _pack(one), tuple(map(_plot_aside, one.asides)))


def leave_out_samples(sections: Sequence[Section], room: int) -> list[Section]:
    """Shows fewer samples of each slice, at least one, where the pages would outgrow the room.

    Args:
        sections: Of one report.
        room: For the pictures of all samples, in characters.
    """
    stacks = [panel for one in sections for panel in one.panels if "samples" in panel.kind]
    most = max((len(stack.pictures) for stack in stacks), default=1)
    sizes = [
        sum(len(stack.pictures[k][0]) for stack in stacks if k < len(stack.pictures))
        for k in range(most)
    ]
    kept = max(1, int(np.searchsorted(np.cumsum(sizes), room, side="right")))
    return [
        replace(one, panels=tuple(_shorten(panel, kept) for panel in one.panels))
        for one in sections
    ]


def _shorten(panel: Panel, kept: int) -> Panel:
    count = len(panel.pictures)
    if count <= kept:
        return panel
    note = f"{panel.note} The first {kept} of {count}: the page stays small."
    return replace(panel, pictures=panel.pictures[:kept], note=note)


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


def _plot(report: Report, name: str, note: str, image: Array) -> Panel:
    address = picture(scale_to_bytes(image, *report.window))
    rows, columns = image.shape[:2]
    scale = _make_scale("grey", report.window)
    return Panel(name, report.unit, note, "grey linked", rows, columns, ((address, name),), scale)


def _plot_sizes(report: Report, name: str, note: str, sizes: Array, largest: float) -> Panel:
    shown = _average_channels(sizes)
    highest = float(shown.max())
    note += " Averaged over the channels." if sizes.ndim == 3 else ""
    unit = f"max {highest:.2g} {report.unit}"
    sign = "\N{GREATER-THAN OR EQUAL TO} " if highest > largest * (1 + 1e-9) else ""
    address = picture(scale_to_bytes(shown, 0, largest), deviation_scale())
    rows, columns = shown.shape
    scale = _make_scale("deviation", (0.0, largest), sign)
    return Panel(name, unit, note, "linked", rows, columns, ((address, name),), scale)


def _plot_samples(report: Report, samples: Array) -> Panel:
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


def _plot_interval(report: Report, low: Array, high: Array, level: float) -> list[Panel]:
    note = f"of the interval that is meant to hold the true value of {level:.0%} of all pixels."
    return [
        _plot(report, f"{level:.0%} interval, {end}", f"The {end} end {note}", image)
        for end, image in (("lower", low), ("upper", high))
    ]


def _plot_operator(operator: Array, label: str) -> Panel:
    low, high = float(np.min(operator)), float(np.max(operator))
    # What is measured everywhere alike is as bright as what is measured.
    black = low if high > low else min(0.0, low)
    address = picture(scale_to_bytes(operator, black, max(high, black + 1)))
    rows, columns = operator.shape
    scale, note = _make_scale("grey", (low, high)), "How the data were taken."
    return Panel(label, "", note, "operator", rows, columns, ((address, label),), scale)


def _plot_aside(one: Aside) -> Panel:
    rows, columns = one.picture.shape
    if one.kind == "phase":
        shown = scale_to_bytes(one.picture, -np.pi, np.pi)
        address = picture(shown, phase_scale())
        scale = Scale("phase", ("\N{MINUS SIGN}180\N{DEGREE SIGN}", "0", "180\N{DEGREE SIGN}"))
    else:
        low, high = float(one.picture.min()), float(one.picture.max())
        address = picture(scale_to_bytes(one.picture, low, high if high > low else low + 1))
        scale = _make_scale("grey", (low, high))
    return Panel(one.name, "", one.note, "aside", rows, columns, ((address, one.name),), scale)


def _make_scale(
    kind: Literal["grey", "deviation"], ends: tuple[float, float], sign: str = ""
) -> Scale:
    """A scale with its numbers; the sign says that some pixels lie beyond its end."""
    low, middle, high = (format_number(v) for v in (ends[0], sum(ends) / 2, ends[1]))
    return Scale(kind, (low, middle, sign + high))


def _average_channels(sizes: Array) -> Array:
    sizes = np.asarray(sizes, dtype=np.float64)
    return sizes.mean(2) if sizes.ndim == 3 else sizes
