"""One panel of several methods: what they make of the same data, and how far off they are."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bcdm.files import replacing

__all__ = ["plot_comparison"]

_SIDE = 1.7  # inches of a picture
_DARK = 0.15  # of the brightest: below is air
_FEW = 0.04  # of a line
_LOUDER = 5  # errors are shown so many times as bright


def plot_comparison(path: Path, rows: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """Draws two lines of pictures for each row: images, and below them five times the errors.

    Args:
        path: A .png file; it is whole or not there.
        rows: By caption; pictures by method, (H, W), the first one the reference of the others.
    """
    from matplotlib.figure import Figure

    rows = {caption: _crop(pictures) for caption, pictures in rows.items()}
    columns = max(len(pictures) for pictures in rows.values())
    shapes = [next(iter(pictures.values())).shape for pictures in rows.values()]
    heights = [_SIDE * shape[0] / shape[1] for shape in shapes for _ in range(2)]
    figure = Figure(figsize=(_SIDE * columns + 0.3, sum(heights) + 0.5 * len(rows)))
    grid = figure.subplots(
        2 * len(rows),
        columns,
        squeeze=False,
        gridspec_kw={"height_ratios": heights, "wspace": 0.02, "hspace": 0.14},
    )
    for axis in grid.ravel():
        axis.set_axis_off()
    for number, (caption, pictures) in enumerate(rows.items()):
        (_, reference), *_ = pictures.items()
        white = float(np.quantile(reference, 0.998))
        above, below = grid[2 * number], grid[2 * number + 1]
        for place, (name, image) in enumerate(pictures.items()):
            above[place].imshow(image, cmap="gray", vmin=0, vmax=white, interpolation="nearest")
            above[place].set_title(name, fontsize=7, pad=2)
            if place:
                error = np.abs(image - reference)
                below[place].imshow(error, cmap="magma", vmin=0, vmax=white / _LOUDER)
        below[0].text(
            0.5,
            0.5,
            f"{caption}\nbelow: errors x {_LOUDER}",
            ha="center",
            va="center",
            fontsize=7,
            transform=below[0].transAxes,
        )
    figure.subplots_adjust(left=0.01, right=0.99, top=0.97, bottom=0.01)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=130, format="png")


def _crop(pictures: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The part around what the reference shows."""
    reference = next(iter(pictures.values()))
    bright = reference > _DARK * np.quantile(reference, 0.99)
    parts = []
    for axis, side in zip((1, 0), reference.shape, strict=True):
        # A few bright pixels of noise are no object.
        lines = np.flatnonzero(bright.mean(axis) > _FEW)
        first, last = (lines[0], lines[-1]) if len(lines) else (0, side)
        parts.append(slice(max(0, first - side // 30), last + side // 30 + 1))
    return {name: image[parts[0], parts[1]] for name, image in pictures.items()}
