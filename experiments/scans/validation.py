"""Weights on the same draws: python -m experiments.scans.validation DATA OUT MODEL [MODEL ...].

32 validation slices of IXI at 128x128, masks, coils, noise and phases as brain-mri is trained with,
drawn by one seed for all. The first row is the control: a network of zeros.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from bcdm.checkpoint import load
from bcdm.files import write_text
from bcdm.training.run import open_data
from bcdm.training.train import Trainer, open_processes

SEED, SLICES = 100, 32


def examine(folder: str, data: Path, *, zero: bool = False) -> dict[str, Any]:
    """RMSE by level and PSNR of one call."""
    config = load(folder).config
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
    name = "network of zeros" if zero else Path(folder).name
    return {"weights": name, **{key: round(value, 4) for key, value in found.items()}}


if __name__ == "__main__":
    data, out, *folders = sys.argv[1:]
    rows = [examine(folders[0], Path(data), zero=True)]
    rows += [examine(folder, Path(data)) for folder in folders]
    write_text(Path(out), json.dumps(rows, indent=1) + "\n")
