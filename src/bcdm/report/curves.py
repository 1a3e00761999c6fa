"""Diagrams of lines, laid out as coordinates; the page draws them, its style colours them."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from bcdm.report.axes import choose_ticks, format_number, format_ticks
from bcdm.report.content import Array, Curve

__all__ = ["Diagram", "lay_out"]

_WIDTH, _HEIGHT = 420, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 12, 12, 50
_FEW = 16  # points up to here get marks
# Series are told apart by colour, dashes and marks; more than these repeat them.
_MARKS = (
    "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
    "m-3 -3h6v6h-6z",
    "m0 -4l4 7h-8z",
    "m0 -4.5l4 4.5l-4 4.5l-4 -4.5z",
)


class Tick(NamedTuple):
    """A number at an axis, its place, and the path of its grid line."""

    x: str
    y: str
    text: str
    grid: str


@dataclass(frozen=True)
class Line:
    """One series: its paths, how it is told apart, and its numbers as text."""

    label: str
    kind: Literal["line", "steps"]
    style: int
    path: str
    marks: str
    numbers: tuple[tuple[str, str], ...]

    @property
    def shape(self) -> str:
        """The outline of one mark."""
        return _MARKS[self.style]


@dataclass(frozen=True)
class Diagram:
    """A curve with the coordinates of everything in it, for the template."""

    curve: Curve
    across: tuple[Tick, ...]
    upward: tuple[Tick, ...]
    lines: tuple[Line, ...]
    ideal: str
    width: int = _WIDTH
    height: int = _HEIGHT
    axis: str = f"M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}"
    middle: float = (_LEFT + _WIDTH - _RIGHT) / 2
    centre: float = (_TOP + _HEIGHT - _BOTTOM) / 2

    @property
    def spoken(self) -> str:
        """The diagram in a sentence, for those who do not see it."""
        names = ", ".join(self.curve.series)
        return f"{self.curve.name}: {self.curve.y_label} against {self.curve.x_label}; {names}"


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


def lay_out(curve: Curve) -> Diagram:
    """Places axes, lines and marks."""
    series = {label: (np.asarray(x), np.asarray(y)) for label, (x, y) in curve.series.items()}
    frame = _choose_frame(list(series.values()), curve.diagonal)
    lines = [_place(frame, k, label, *pair) for k, (label, pair) in enumerate(series.items())]
    return Diagram(
        curve=curve,
        across=_place_across(frame),
        upward=_place_upward(frame),
        lines=tuple(lines),
        ideal=_trace_diagonal(frame) if curve.diagonal else "",
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


def _place_across(frame: _Frame) -> tuple[Tick, ...]:
    ticks, bottom = choose_ticks(frame.left, frame.right), _HEIGHT - _BOTTOM
    places = [f"{frame.x(tick):.1f}" for tick in ticks]
    return tuple(
        Tick(x, str(bottom + 17), text, f"M{x} {_TOP}V{bottom}")
        for x, text in zip(places, format_ticks(ticks), strict=True)
    )


def _place_upward(frame: _Frame) -> tuple[Tick, ...]:
    ticks, right = choose_ticks(frame.bottom, frame.top), _WIDTH - _RIGHT
    places = [frame.y(tick) for tick in ticks]
    return tuple(
        Tick(str(_LEFT - 8), f"{y + 4:.1f}", text, f"M{_LEFT} {y:.1f}H{right}")
        for y, text in zip(places, format_ticks(ticks), strict=True)
    )


def _place(frame: _Frame, index: int, label: str, x: Array, y: Array) -> Line:
    style, numbers = index % len(_MARKS), _tell(x, y)
    if len(x) > len(y):
        return Line(label, "steps", style, _trace_steps(frame, x, y), "", numbers)
    points = [
        None if np.isnan(b) else f"{frame.x(float(a)):.1f} {frame.y(float(b)):.1f}"
        for a, b in zip(x, y, strict=True)
    ]
    moves = ["M" if k == 0 or points[k - 1] is None else "L" for k in range(len(points))]
    path = "".join(f"{m}{p}" for m, p in zip(moves, points, strict=True) if p is not None)
    few = points if len(points) <= _FEW else []
    marks = "".join(f"M{p}{_MARKS[style]}" for p in few if p is not None)
    return Line(label, "line", style, path, marks, numbers)


def _trace_steps(frame: _Frame, edges: Array, heights: Array) -> str:
    ground = frame.y(0.0)
    path = f"M{frame.x(float(edges[0])):.1f} {ground:.1f}"
    for k, height in enumerate(np.nan_to_num(heights)):
        path += f"V{frame.y(float(height)):.1f}H{frame.x(float(edges[k + 1])):.1f}"
    return path + f"V{ground:.1f}"


def _trace_diagonal(frame: _Frame) -> str:
    low, high = max(frame.left, frame.bottom), min(frame.right, frame.top)
    start, end = (f"{frame.x(v):.1f} {frame.y(v):.1f}" for v in (low, high))
    return f"M{start}L{end}"


def _tell(x: Array, y: Array) -> tuple[tuple[str, str], ...]:
    """The numbers behind a line, for reading aloud and for those who want them exactly."""
    places = [format_number(float(a)) for a in x]
    if len(x) > len(y):
        places = [f"{a} to {b}" for a, b in pairwise(places)]
    values = ["not resolved" if np.isnan(b) else format_number(float(b)) for b in y]
    return tuple(zip(places, values, strict=True))
