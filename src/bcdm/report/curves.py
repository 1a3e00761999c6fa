"""Diagrams of lines as inline SVG; colours come from the page's style."""

from html import escape
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bcdm.report.axes import choose_ticks, format_number, format_ticks
from bcdm.report.content import Array, Curve

__all__ = ["draw_curve"]

_WIDTH, _HEIGHT = 420, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 12, 12, 50
_STYLES = 4  # told apart by colour, dashes and marks; more series repeat them
_FEW = 16  # points up to here get marks
_MARKS = (
    "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
    "m-3 -3h6v6h-6z",
    "m0 -4l4 7h-8z",
    "m0 -4.5l4 4.5l-4 4.5l-4 -4.5z",
)


class _Frame(NamedTuple):
    """Values at the edges of the plot."""

    left: float
    right: float
    bottom: float
    top: float

    def x(self, value: float) -> float:
        span = _WIDTH - _LEFT - _RIGHT
        return _LEFT + span * (value - self.left) / (self.right - self.left)

    def y(self, value: float) -> float:
        span = _HEIGHT - _TOP - _BOTTOM
        return _HEIGHT - _BOTTOM - span * (value - self.bottom) / (self.top - self.bottom)


def draw_curve(curve: Curve) -> str:
    """Draws one diagram as a figure: caption, axes, lines, legend, and the numbers to unfold."""
    series = {label: (np.asarray(x), np.asarray(y)) for label, (x, y) in curve.series.items()}
    frame = _choose_frame(list(series.values()), curve.diagonal)
    lines = [_draw_line(frame, k, x, y) for k, (x, y) in enumerate(series.values())]
    if curve.diagonal:
        lines.insert(0, _draw_diagonal(frame))
    names = ", ".join(series)
    spoken = f"{curve.name}: {curve.y_label} against {curve.x_label}; {names}"
    return (
        f'<figure class="curve"><figcaption>{escape(curve.name)}</figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(spoken)}">'
        f"{_draw_axes(frame, curve)}{''.join(lines)}</svg>"
        f"{_draw_legend(series, curve.diagonal)}{_tabulate(curve, series)}</figure>"
    )


def _choose_frame(series: list[tuple[Array, Array]], diagonal: bool) -> _Frame:
    xs, ys = (np.concatenate([pair[k].astype(np.float64) for pair in series]) for k in (0, 1))
    ys = ys[~np.isnan(ys)]
    if any(len(x) > len(y) for x, y in series):
        ys = np.append(ys, 0.0)
    if diagonal:
        xs = ys = np.concatenate([xs, ys])
    edges = [_widen(float(v.min()), float(v.max())) for v in (xs, ys)]
    if not diagonal:
        edges[0] = _separate(float(xs.min()), float(xs.max()))
    return _Frame(*edges[0], *edges[1])


def _widen(low: float, high: float) -> tuple[float, float]:
    """Moves the edges out to ticks, so that no line runs along the frame unlabelled."""
    low, high = _separate(low, high)
    ticks = choose_ticks(low, high)
    step = ticks[1] - ticks[0]
    below, above = ticks[0] - low > 1e-9 * step, high - ticks[-1] > 1e-9 * step
    return ticks[0] - below * step, ticks[-1] + above * step


def _separate(low: float, high: float) -> tuple[float, float]:
    room = max(abs(low), abs(high), 1e-12) / 2
    return (low, high) if high - low > 1e-9 * room else (low - room, high + room)


def _draw_axes(frame: _Frame, curve: Curve) -> str:
    left, right, top, bottom = _LEFT, _WIDTH - _RIGHT, _TOP, _HEIGHT - _BOTTOM
    parts = []
    ticks = choose_ticks(frame.left, frame.right)
    for tick, text in zip(ticks, format_ticks(ticks), strict=True):
        x = f"{frame.x(tick):.1f}"
        parts.append(f'<path class="grid" d="M{x} {top}V{bottom}"/>')
        parts.append(f'<text x="{x}" y="{bottom + 17}" text-anchor="middle">{text}</text>')
    ticks = choose_ticks(frame.bottom, frame.top)
    for tick, text in zip(ticks, format_ticks(ticks), strict=True):
        y = frame.y(tick)
        parts.append(f'<path class="grid" d="M{left} {y:.1f}H{right}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    middle, centre = (left + right) / 2, (top + bottom) / 2
    parts.append(
        f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>'
        f'<text class="label" x="{middle}" y="{_HEIGHT - 10}" text-anchor="middle">'
        f"{escape(curve.x_label)}</text>"
        f'<text class="label" transform="translate(14 {centre}) rotate(-90)" text-anchor="middle">'
        f"{escape(curve.y_label)}</text>"
    )
    return "".join(parts)


def _draw_line(frame: _Frame, index: int, x: Array, y: Array) -> str:
    style = index % _STYLES
    if len(x) > len(y):
        path = _trace_steps(frame, x, y)
        return f'<path class="steps series-{style}" d="{path}"/>'
    points = [
        None if np.isnan(b) else f"{frame.x(float(a)):.1f} {frame.y(float(b)):.1f}"
        for a, b in zip(x, y, strict=True)
    ]
    moves = ["M" if k == 0 or points[k - 1] is None else "L" for k in range(len(points))]
    path = "".join(f"{m}{p}" for m, p in zip(moves, points, strict=True) if p is not None)
    line = f'<path class="line series-{style}" d="{path}"/>'
    if len(points) > _FEW:
        return line
    marks = "".join(f"M{p}{_MARKS[style]}" for p in points if p is not None)
    return line + f'<path class="mark series-{style}" d="{marks}"/>'


def _trace_steps(frame: _Frame, edges: Array, heights: Array) -> str:
    ground = frame.y(0.0)
    path = f"M{frame.x(float(edges[0])):.1f} {ground:.1f}"
    for k, height in enumerate(np.nan_to_num(heights)):
        path += f"V{frame.y(float(height)):.1f}H{frame.x(float(edges[k + 1])):.1f}"
    return path + f"V{ground:.1f}"


def _draw_diagonal(frame: _Frame) -> str:
    low, high = max(frame.left, frame.bottom), min(frame.right, frame.top)
    ends = [f"{frame.x(v):.1f} {frame.y(v):.1f}" for v in (low, high)]
    return f'<path class="ideal" d="M{ends[0]}L{ends[1]}"/>'


def _draw_legend(series: dict[str, tuple[Array, Array]], diagonal: bool) -> str:
    entries = [(_draw_key(k, x, y), label) for k, (label, (x, y)) in enumerate(series.items())]
    if diagonal:
        entries.append(('<path class="ideal" d="M1 6H27"/>', "ideal"))
    items = "".join(
        f'<li><svg viewBox="0 0 28 12" aria-hidden="true">{key}</svg>{escape(label)}</li>'
        for key, label in entries
    )
    return f'<ul class="legend">{items}</ul>'


def _draw_key(index: int, x: Array, y: Array) -> str:
    style = index % _STYLES
    if len(x) > len(y):
        return f'<path class="swatch series-{style}" d="M2 1h24v10h-24z"/>'
    mark = f'<path class="mark series-{style}" d="M14 6{_MARKS[style]}"/>'
    line = f'<path class="line series-{style}" d="M1 6H27"/>'
    return line + mark * (len(x) <= _FEW)


def _tabulate(curve: Curve, series: dict[str, tuple[Array, Array]]) -> str:
    """The numbers behind the lines, for reading aloud and for those who want them exactly."""
    labels = (escape(curve.x_label), escape(curve.y_label))
    head = "".join(f'<th scope="col">{label}</th>' for label in labels)
    tables = []
    for label, (x, y) in series.items():
        places = [format_number(float(a)) for a in x]
        if len(x) > len(y):
            places = [f"{a} to {b}" for a, b in pairwise(places)]
        rows = "".join(
            f"<tr><td>{a}</td><td>{'not resolved' if np.isnan(b) else format_number(float(b))}"
            "</td></tr>"
            for a, b in zip(places, y, strict=True)
        )
        tables.append(f"<table><caption>{escape(label)}</caption><tr>{head}</tr>{rows}</table>")
    return (
        f'<details class="numbers"><summary>Numbers</summary><div>{"".join(tables)}</div></details>'
    )
