"""The figure of one reconstruction for a paper: images on one scale, uncertainty on another."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcdm.errors import InputError
from bcdm.files import replacing

__all__ = ["plot_figure"]

_ENDINGS = (".pdf", ".png", ".svg")
_SIDE = 1.5  # inches of a panel
_WIDEST = 5  # panels in a row


def plot_figure(
    path: str | Path,
    images: Mapping[str, NDArray[Any]],
    deviations: Mapping[str, NDArray[Any]],
    *,
    window: tuple[float, float],
    unit: str = "",
) -> None:
    """Draws panels with a colour bar for each of the two scales.

    Args:
        path: A .pdf, .png or .svg file; it is whole or not there.
        images: By caption, (H, W) or (H, W, 3), shown from black to white over the window.
        deviations: By caption, (H, W) of sizes (std, error), on one scale from zero.
        window: The values of black and white.
        unit: Of all numbers, for the bars.
    """
    path = Path(path)
    if path.suffix.lower() not in _ENDINGS:
        raise InputError(f"{path.name}: a figure is one of {', '.join(_ENDINGS)}")
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise InputError("figures need matplotlib: pip install 'bcdm[figures]'") from None

    groups = [(images, window, "gray")]
    if deviations:
        top = max(float(np.quantile(size, 0.995)) for size in deviations.values())
        groups.append((deviations, (0.0, top or 1.0), "magma"))
    columns = min(_WIDEST, max(len(panels) for panels, _, _ in groups))
    rows = [-(-len(panels) // columns) for panels, _, _ in groups]
    # Text stays text, and the same figure gives the same bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "bcdm", "pdf.fonttype": 42}):
        size = (_SIDE * columns + 0.9, (_SIDE + 0.3) * sum(rows))
        figure = Figure(figsize=size, layout="constrained")
        # Parts of their own, so that the bar of one leaves no gap in the other.
        parts = figure.subfigures(len(groups), 1, squeeze=False, height_ratios=rows)[:, 0]
        for part, count, (panels, scale, colours) in zip(parts, rows, groups, strict=True):
            axes = part.subplots(count, columns, squeeze=False).ravel()
            for axis in axes:
                axis.set_axis_off()
            _plot(part, axes, panels, scale, colours, unit)
        path.parent.mkdir(parents=True, exist_ok=True)
        dated = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
        with replacing(path) as partial:
            figure.savefig(partial, dpi=200, metadata=dated.get(path.suffix.lower()))


def _plot(
    figure: Any,
    axes: Any,
    panels: Mapping[str, NDArray[Any]],
    window: tuple[float, float],
    colours: str,
    unit: str,
) -> None:
    """Panels on one scale, and its bar."""
    low, high = window
    for axis, (name, panel) in zip(axes, panels.items(), strict=False):
        shown = np.clip((panel - low) / (high - low), 0, 1) if panel.ndim == 3 else panel
        picture = axis.imshow(shown, cmap=colours, vmin=low, vmax=high, interpolation="nearest")
        axis.set_title(name, fontsize=8)
    # Colours in three channels have no bar.
    if all(panel.ndim == 2 for panel in panels.values()):
        bar = figure.colorbar(picture, ax=list(axes), shrink=0.8, aspect=25, pad=0.01)
        bar.ax.tick_params(labelsize=7)
        bar.set_label(unit, fontsize=7)
