"""What trainings learnt over time, side by side."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

from bcdm.errors import InputError

__all__ = ["name_log", "plot_curves"]

_ERROR = "RMSE at log-SNR "
_SHOWN = 6.0  # dB below the best that curves are drawn


def name_log(path: Path) -> str:
    """What to call a training by its log: runs/NAME/log.jsonl, NAME.log.jsonl or NAME.jsonl."""
    if path.name == "log.jsonl":
        return path.parent.name
    return path.name.removesuffix(".jsonl").removesuffix(".log")


def plot_curves(
    path: Path, logs: Mapping[str, Path], seconds: Mapping[str, float] | None = None
) -> None:
    """One-call PSNR on validation images over training, and the error per noise level at the end.

    The latter is drawn where all logs have it. The former leaves out what is far below the best.

    Args:
        path: PNG to write.
        logs: The trainings' JSONL files by the name to show.
        seconds: That a step takes, by name: the curves are then over minutes instead of steps.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = {name: _read(log) for name, log in logs.items()}
    levels = {name: _find_errors(found[-1]) for name, found in rows.items()}
    panels = 1 + all(levels.values())
    figure, grid = plt.subplots(
        1, panels, figsize=(5.5 * panels, 4), layout="constrained", squeeze=False
    )
    axes = grid[0]
    best = max(found[-1]["psnr"] for found in rows.values())
    for number, (name, found) in enumerate(rows.items()):
        unit = 1.0 if seconds is None else seconds[name] / 60
        places = [row["step"] * unit for row in found]
        # There are ten colours.
        style = {
            "label": name,
            "marker": ".",
            "color": f"C{number % 10}",
            "linestyle": ("-", "--", ":")[number // 10 % 3],
        }
        near = [row["psnr"] if row["psnr"] > best - _SHOWN else math.nan for row in found]
        if not all(map(math.isnan, near)):  # else it would stretch the axis, unseen
            axes[0].plot(places, near, **style)
        if panels > 1:
            axes[1].plot(list(levels[name]), list(levels[name].values()), **style)
    length = "steps" if seconds is None else "minutes of training"
    axes[0].set(xlabel=length, ylabel="one-call PSNR, validation images (dB)")
    axes[-1].legend(fontsize=7)
    if panels > 1:
        axes[1].set(xlabel="log-SNR", ylabel="RMSE, validation images", yscale="log")
    for each in axes:
        each.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _read(log: Path) -> list[dict[str, float]]:
    """The rows of a log that hold a validation."""
    try:
        rows = [json.loads(line) for line in log.read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(f"{log} is no log of a training: {error}") from None
    found = [row for row in rows if isinstance(row, dict) and "psnr" in row]
    if not found:
        raise InputError(f"{log} holds no validation yet")
    return found


def _find_errors(row: Mapping[str, float]) -> dict[float, float]:
    return {float(k.removeprefix(_ERROR)): v for k, v in row.items() if k.startswith(_ERROR)}
