"""Figures of reconstructions on a shared scale."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

__all__ = ["draw_panels"]


def draw_panels(
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
        rows, len(names), figsize=(1.35 * len(names), 1.42 * rows + 0.5), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    low, high = value_range
    for column, name in enumerate(names):
        axes[0, column].set_title(name, fontsize=8)
        for row in range(rows):
            axis = axes[row, column]
            axis.set(xticks=[], yticks=[])
            if name in images:
                picture = ((images[name][row] - low) / (high - low)).clamp(0, 1).movedim(0, -1)
                axis.imshow(picture.squeeze(-1).numpy(), cmap="gray", vmin=0, vmax=1,
                            interpolation="nearest")  # fmt: skip
            else:
                sizes = deviations[name][row].mean(0)
                shown = axis.imshow(sizes.numpy(), cmap="magma", vmin=0, vmax=top,
                                    interpolation="nearest")  # fmt: skip
    for row, note in enumerate(notes):
        axes[row, 0].set_ylabel(note, fontsize=7)
    bar = figure.colorbar(shown, ax=axes[:, -1], shrink=0.8, aspect=30)
    bar.ax.tick_params(labelsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, pil_kwargs={"optimize": True})
    plt.close(figure)
