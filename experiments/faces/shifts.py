"""Does a model need its images where training had them? Test faces moved by whole pixels.

python -m experiments.faces.shifts experiments/faces/shifts.json [MODEL ...]   # a minute a model

Models are faces64-inpaint and faces64, and those that are named, such as
runs/faces64-inpaint-shifted/model, which is
trained by `bcdm train experiments/faces/shifted.yaml --out runs/faces64-inpaint-shifted`.

Each image is moved to the four sides; the box that is missing stays. PSNR of one call.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from bcdm.assessment.images import open_tested
from bcdm.assessment.options import Options
from bcdm.assessment.records import Record, write_records
from bcdm.assessment.statistics import bootstrap
from bcdm.checkpoint import load
from bcdm.diffusion import posterior_mean
from bcdm.evaluation import psnr
from bcdm.measurement import Measurement

MODELS = ("faces64-inpaint", "faces64")
OPERATOR, NOISE, IMAGES, BATCH, SEED = "{kind: centre_box, box: [24, 24]}", 0.02, 32, 16, 0
SHIFTS = (0, 1, 2)


def list_moves(shift: int) -> list[tuple[int, int]]:
    """To the four sides, or none."""
    moves = ((shift, 0), (-shift, 0), (0, shift), (0, -shift))
    return list(moves) if shift else [(0, 0)]


@torch.no_grad()
def score(name: str, shift: int) -> tuple[np.ndarray, list[str]]:
    """PSNR of each image, a mean over the moves, and whose face it is."""
    model = load(name)
    tested = open_tested(model, Options(limit=IMAGES, operator=OPERATOR, noise_std=NOISE))
    found = []
    for move in list_moves(shift):
        # What leaves the image on one side is repeated from the edge on the other.
        rows = [(torch.arange(64) - step).clamp(0, 63) for step in move]
        moved = tested.images[:, :, rows[0]][..., rows[1]]
        parts = []
        for first in range(0, len(moved), BATCH):
            part = slice(first, first + BATCH)
            measurement = Measurement.simulate(
                moved[part],
                tested.problem.operator,
                tested.problem.noise_std,
                seed=SEED,
                indices=tested.rows[part],
            )
            denoiser = model.method.condition(measurement)
            names = [str(row) for row in tested.rows[part]]
            mean = posterior_mean(denoiser, seed=SEED, items=names)
            parts.append(psnr(mean, moved[part], data_range=2.0))
        found.append(torch.cat(parts))
    return torch.stack(found).mean(0).numpy(), tested.subjects


def run(names: Sequence[str], command: str) -> list[Record]:
    """A record a model and shift."""
    rows = []
    for name in names:
        for shift in SHIFTS:
            values, subjects = score(name, shift)
            case = {"model": load(name).name, "pixels": shift, "images": IMAGES, "split": "test"}
            interval = bootstrap(values, groups=subjects)
            value = float(values.mean())
            rows.append(
                Record("PSNR of one call", case, value, "dB", interval, seed=SEED, command=command)
            )
    return rows


if __name__ == "__main__":
    out, *more = sys.argv[1:]
    told = " ".join(["python -m experiments.faces.shifts", out, *more])
    write_records(Path(out), run([*MODELS, *more], told))
