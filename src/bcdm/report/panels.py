"""Figures of reconstructions on a shared scale."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["plot_comparison", "plot_panels"]

_INSET = 0.45  # its side, of the image's


def plot_panels(
    path: Path,
    images: dict[str, Tensor],
    deviations: dict[str, Tensor],
    *,
    value_range: tuple[float, float],
    notes: Sequence[str] = (),
) -> None:
    """Draws one row per image and one column per name.

    Args:
        path: The PNG to write.
        images: Columns in image units, each (rows, C, H, W), on one grey or colour scale.
        deviations: Columns of sizes (std, absolute error), each (rows, C, H, W), on one scale from
            zero; channels are averaged.
        value_range: Of the images.
        notes: A caption per row.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = [*images, *deviations]
    rows = len(next(iter(images.values())))
    top = float(torch.cat([d.flatten() for d in deviations.values()]).float().quantile(0.995))
    figure, axes = plt.subplots(
        rows,
        len(names),
        figsize=(1.35 * len(names), 1.42 * rows + 0.5),
        squeeze=False,
        layout="constrained",
    )
    low, high = value_range
    for column, name in enumerate(names):
        axes[0, column].set_title(name, fontsize=8)
        for row in range(rows):
            axis = axes[row, column]
            axis.set(xticks=[], yticks=[])
            if name in images:
                picture = ((images[name][row] - low) / (high - low)).clamp(0, 1).movedim(0, -1)
                grey = picture.squeeze(-1).numpy()
                axis.imshow(grey, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            else:
                sizes = deviations[name][row].mean(0).numpy()
                shown = axis.imshow(sizes, cmap="magma", vmin=0, vmax=top, interpolation="nearest")
    for row, note in enumerate(notes):
        axes[row, 0].set_ylabel(note, fontsize=7)
    bar = figure.colorbar(shown, ax=axes[:, -1], shrink=0.8, aspect=30)
    bar.ax.tick_params(labelsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, pil_kwargs={"optimize": True})
    plt.close(figure)


def plot_comparison(
    path: Path,
    reference: np.ndarray,
    columns: Mapping[str, tuple[np.ndarray, np.ndarray]],
    *,
    value_range: tuple[float, float],
) -> None:
    """Draws the reference and every method: a row of single samples and one of averages each.

    An inset enlarges the part that is hardest for all of them together.

    Args:
        path: The PNG to write.
        reference: (N, C, H, W).
        columns: Single samples and averages by method, at least N of each.
        value_range: Of the images; one scale for all.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    count, names = len(reference), ["reference", *columns]
    figure, axes = plt.subplots(
        2 * count,
        len(names),
        figsize=(1.6 * len(names), 3.2 * count),
        squeeze=False,
        layout="constrained",
    )
    for row in range(2 * count):
        number, averaged = divmod(row, 2)
        box = _find_hardest(reference[number], [pair[1][number] for pair in columns.values()])
        axes[row, 0].set_ylabel("average" if averaged else "single", fontsize=8)
        for column, name in enumerate(names):
            images = reference if column == 0 else columns[name][averaged]
            _plot_zoomed(axes[row, column], images[number], box, value_range)
            if row == 0:
                axes[row, column].set_title(name, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, pil_kwargs={"optimize": True})
    plt.close(figure)


def _find_hardest(reference: np.ndarray, averages: Sequence[np.ndarray]) -> tuple[int, int, int]:
    """Top, left and side of a square, a quarter of the image wide, where averages are most wrong.

    The part that the inset covers is left out.
    """
    height, width = reference.shape[-2:]
    side = max(2, min(height, width) // 4)
    errors = np.mean([np.square(one - reference).mean(0) for one in averages], axis=0)
    views = np.lib.stride_tricks.sliding_window_view(errors, (side, side)).mean((-2, -1))
    rows, columns = np.indices(views.shape) + side
    free = (rows < height * (1 - _INSET)) | (columns < width * (1 - _INSET))
    top, left = np.unravel_index(np.where(free, views, -1).argmax(), views.shape)
    return int(top), int(left), side


def _plot_zoomed(
    axis: Any, image: np.ndarray, box: tuple[int, int, int], value_range: tuple[float, float]
) -> None:
    """An image, its part in the box enlarged over the lower right quarter."""
    low, high = value_range
    picture = np.clip((np.moveaxis(image, 0, -1) - low) / (high - low), 0, 1).squeeze()
    options = {"cmap": "gray", "vmin": 0, "vmax": 1, "interpolation": "nearest"}
    axis.imshow(picture, **options)
    axis.set(xticks=[], yticks=[])
    top, left, side = box
    inset = axis.inset_axes((1 - _INSET, 0.0, _INSET, _INSET))
    inset.imshow(picture[top : top + side, left : left + side], **options)
    inset.set(xticks=[], yticks=[])
    for spine in inset.spines.values():
        spine.set(color="orange", linewidth=1)
    frame = np.array([(0, 0), (0, side), (side, side), (side, 0), (0, 0)]) - 0.5
    axis.plot(left + frame[:, 0], top + frame[:, 1], color="orange", linewidth=0.8)
