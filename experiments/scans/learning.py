"""What training gave so far: python -m experiments.scans.learning MODEL DATA OUT HOURS=FOLDER ...

Weights after so many hours of one core, each on the same draws: 32 validation slices of IXI at
128x128, with masks, coils, noise, phases and passes as MODEL is trained with today. The first row
is the control, a network of zeros. Writes OUT.json and OUT.png.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bcdm.checkpoint import load
from bcdm.checkpoint.settings import RunConfig
from bcdm.files import replacing, write_text
from bcdm.training.run import open_data
from bcdm.training.train import Trainer, open_processes

SEED, SLICES = 100, 32

Row = dict[str, Any]


def examine(config: RunConfig, folder: str, data: Path, *, zero: bool = False) -> Row:
    """RMSE by level and PSNR of one call."""
    changed = {"start_from": folder, "seed": SEED, "validation_images": SLICES}
    training = config.training.model_copy(update=changed)
    config = config.model_copy(update={"training": training, "sources": ()})
    images, others = open_data(config, data)
    with open_processes() as processes, tempfile.TemporaryDirectory() as work:
        trainer = Trainer(config, images, others, Path(work), processes, None, data)
        if zero:
            for parameter in trainer.state.average.module.parameters():
                torch.nn.init.zeros_(parameter)
        found = trainer.validate()
    return {key: round(value, 5) for key, value in found.items()}


def draw_curve(rows: Sequence[Row], path: Path) -> None:
    """RMSE at each level over that of a network of zeros, and PSNR of one call."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    hours = [row["hours"] for row in rows]
    left.plot(hours, [row["psnr"] for row in rows], "o-")
    left.set_ylabel("PSNR of one call, dB")
    for name in (key for key in rows[0] if key.startswith("RMSE")):
        right.plot(hours, [row[name] / rows[0][name] for row in rows], "o-", label=name[8:])
    right.set_yscale("log")
    right.set_ylabel("RMSE, of a network of zeros")
    right.legend(fontsize=7)
    for axes in (left, right):
        axes.set_xlabel("hours of one core")
    with replacing(path) as partial:
        figure.savefig(partial, dpi=110, format="png")


def main() -> None:
    """Reads the command line, writes record and figure."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scans.learning")
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("weights", nargs="+", metavar="HOURS=FOLDER")
    given = parser.parse_args()
    config = load(given.model).config
    rows = [{"hours": 0.0, **examine(config, given.model, given.data, zero=True)}]
    for hours, folder in (text.split("=", 1) for text in given.weights):
        rows.append({"hours": float(hours), **examine(config, folder, given.data)})
    write_text(given.out.with_suffix(".json"), json.dumps(rows, indent=1) + "\n")
    draw_curve(rows, given.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
