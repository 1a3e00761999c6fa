"""The panels of one slice as HTML: pictures, scales, players, and numbers for the readout."""

import json
from html import escape
from typing import Any

import numpy as np

from bcdm.report.axes import format_number, round_up
from bcdm.report.content import Array, Report, Slice
from bcdm.report.pictures import deviation_scale, pack_values, picture, scale_to_bytes

__all__ = ["dump_json", "find_largest_deviation", "render_slice"]

_SHEET = 9  # frames of the reverse diffusion that go to paper, three by three
_RAMP = np.arange(256, dtype=np.uint8)[None]


def find_largest_deviation(report: Report) -> float:
    """The end of the scale that standard deviations and errors share, over all slices.

    Half a percent of the pixels may lie beyond it: a few outliers would darken all others.
    """
    values = np.concatenate([_average_channels(one.std).ravel() for one in report.slices])
    top = float(np.quantile(values, 0.995)) or float(values.max())
    low, high = report.window
    return round_up(top if top > 0 else (high - low) / 100)


def render_slice(report: Report, one: Slice, largest: float) -> str:
    """One section: eight panels at most, on two scales, and the values behind them."""
    count = len(one.samples)
    panels = [
        _image(report, "Measured", "What the data show before reconstruction.", one.measured),
        _image(report, "Posterior mean", "The average of all images that fit the data.", one.mean),
        _deviation(report, "Standard deviation", "How far images that fit the data differ.",
                   one.std, largest),
        _stack(report, "Sample", "One image that fits the data. What changes from sample to sample "
               "is not determined by the data.", one.samples, kind="samples", shown=0),
    ]  # fmt: skip
    if one.operator is not None:
        panels.append(_operator(one.operator, one.operator_label))
    if one.reference is not None:
        error = np.abs(np.asarray(one.mean, np.float64) - one.reference)
        panels += [
            _image(report, "Reference", "The image the data were simulated from.", one.reference),
            _deviation(report, "Error", "|mean \N{MINUS SIGN} reference|, on the scale of the "
                       "standard deviation.", error, largest),
        ]  # fmt: skip
    if one.frames is not None:
        panels.append(
            _stack(report, "Reverse diffusion", "How one sample arises, from noise to image.",
                   one.frames, kind="frames", shown=len(one.frames) - 1)
        )  # fmt: skip
    columns = 4 if len(panels) in (4, 7, 8) else 3
    name = escape(one.name)
    return (
        f'<section class="slice" aria-label="{name}"><h3>{name}</h3>'
        f'<div class="panels columns-{columns}" tabindex="0" role="group" '
        f'aria-label="Images of {name}, {count} sample{"s" * (count != 1)}" '
        f'aria-describedby="help">{"".join(panels)}</div>'
        f'<script type="application/json" class="values">{dump_json(_pack(one))}</script></section>'
    )


def dump_json(value: Any) -> str:
    r"""JSON that can stand inside a script element: nothing in it can close the element.

    >>> dump_json("</script>")
    '"\\u003c/script>"'
    """
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")


def _pack(one: Slice) -> dict[str, Any]:
    rows, columns, *channels = np.shape(one.mean)
    packed: dict[str, Any] = {"shape": [rows, columns, *(channels or [1])]}
    # Finer than a hundredth of the uncertainty there is nothing to read, only noise to store.
    step = float(np.sqrt(np.mean(np.square(one.std, dtype=np.float64)))) / 50
    for name in ("mean", "std", "reference"):
        if getattr(one, name) is not None:
            packed[name] = pack_values(getattr(one, name), step)
    return packed


def _image(report: Report, name: str, note: str, image: Array) -> str:
    shown = _img(picture(scale_to_bytes(image, *report.window)), name)
    return _panel(name, report.unit, note, "grey linked", image.shape, shown, _grey_bar(report))


def _deviation(report: Report, name: str, note: str, sizes: Array, largest: float) -> str:
    shown, palette = _average_channels(sizes), deviation_scale()
    highest = float(shown.max())
    note += " Averaged over the channels." if sizes.ndim == 3 else ""
    unit = f"max {highest:.2g} {report.unit}"
    sign = "\N{GREATER-THAN OR EQUAL TO} " if highest > largest * (1 + 1e-9) else ""
    bar = _bar(picture(_RAMP, palette), (0.0, largest), sign)
    pixels = picture(scale_to_bytes(shown, 0, largest), palette)
    return _panel(name, unit, note, "linked", sizes.shape, _img(pixels, name), bar)


def _stack(report: Report, name: str, note: str, stack: Array, *, kind: str, shown: int) -> str:
    """Pictures of which one is shown; a player chooses it. Paper shows the key ones."""
    count = len(stack)
    keys = {round(k) for k in np.linspace(0, count - 1, min(count, _SHEET)).tolist()}
    marks = [" key" * (k in keys) + " shown" * (k == shown) for k in range(count)]
    pictures = "".join(
        _img(picture(scale_to_bytes(image, *report.window)), f"{name} {k + 1} of {count}", mark)
        for k, (image, mark) in enumerate(zip(stack, marks, strict=True))
    )
    foot = _grey_bar(report) + (_player(kind, count, shown) if count > 1 else "")
    kinds = f"grey linked stack {kind}"
    return _panel(name, report.unit, note, kinds, stack.shape[1:], pictures, foot)


def _operator(operator: Array, label: str) -> str:
    low, high = float(np.min(operator)), float(np.max(operator))
    pixels = scale_to_bytes(operator, low, high if high > low else low + 1)
    bar = _bar(picture(_RAMP), (low, high))
    shown, note = _img(picture(pixels), label), "How the data were taken."
    return _panel(label, "", note, "operator", operator.shape, shown, bar)


def _panel(
    name: str, unit: str, note: str, kind: str, shape: tuple[int, ...], pictures: str, foot: str
) -> str:
    rows, columns = shape[:2]
    return (
        f'<figure class="panel {kind}"><figcaption><h4>{escape(name)}</h4>'
        f'<span class="unit">{escape(unit)}</span></figcaption>'
        f'<div class="view" style="aspect-ratio:{columns}/{rows}"><div class="layer">{pictures}'
        f'</div><i class="point" aria-hidden="true" style="--wide:{100 / columns:.5g}%;'
        f'--high:{100 / rows:.5g}%"></i></div>{foot}<p class="note">{escape(note)}</p></figure>'
    )


def _img(address: str, words: str, kind: str = "") -> str:
    mark = f' class="{kind.strip()}"' if kind else ""
    return f'<img{mark} src="{address}" alt="{escape(words)}" decoding="sync" draggable="false">'


def _player(kind: str, count: int, shown: int) -> str:
    word = "Sample" if kind == "samples" else "Step"
    verb = '<span class="verb">Play</span>'
    return (
        '<div class="player" data-script hidden>'
        f'<button type="button">{verb}<span class="unseen"> the {word.lower()}s</span></button>'
        f'<label><span class="unseen">{word}</span><input type="range" min="1" max="{count}" '
        f'value="{shown + 1}"></label><output>{shown + 1} of {count}</output></div>'
    )


def _grey_bar(report: Report) -> str:
    return _bar(picture(_RAMP), report.window)


def _bar(address: str, ends: tuple[float, float], sign: str = "") -> str:
    """A scale with its numbers; the sign says that some pixels lie beyond its end."""
    low, middle, high = (format_number(v) for v in (ends[0], sum(ends) / 2, ends[1]))
    return (
        f'<div class="bar"><img src="{address}" alt=""><div class="ticks"><span>{low}</span>'
        f"<span>{middle}</span><span>{sign}{high}</span></div></div>"
    )


def _average_channels(sizes: Array) -> Array:
    sizes = np.asarray(sizes, dtype=np.float64)
    return sizes.mean(2) if sizes.ndim == 3 else sizes
