"""One network call beside CG-SENSE: python -m experiments.scans.control MODEL DATA OUT [COUNT].

Slices of the test split of IXI at 128x128 with a drawn phase; coil maps are known. CG-SENSE may
choose its weight by the truth, per mask and acceleration: it is at its best here.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint import Model, load
from bcdm.data.phase import draw_phase
from bcdm.diffusion import posterior_mean
from bcdm.files import write_text
from bcdm.measurement import Measurement
from bcdm.operators import Sense
from bcdm.problems.coils import draw_birdcage
from bcdm.problems.families import KSpace

NOISE = 0.01
WEIGHTS = (0.05, 0.1, 0.2, 0.5)
PATTERNS = ("equispaced_columns", "random_rows", "poisson", "radial")
# As fastMRI: .32 of the samples are the fully sampled middle.
MASKS = KSpace(middle=(0.32, 0.32))


def read_slices(data: Path, count: int, split: str = "test") -> Tensor:
    """Slices of a split, evenly spaced, with a phase: complex64 (count, 1, 128, 128)."""
    with np.load(data / "brain_ixi_t1/ixi_t1_axial128.npz") as held:
        rows = np.flatnonzero(held["split"] == split)
        chosen = held["images"][rows[np.linspace(0, len(rows) - 1, count).round().astype(int)]]
    images = torch.from_numpy(chosen.astype(np.float32) / 255)[:, None]
    phases = [draw_phase((128, 128), rng=np.random.default_rng(k)) for k in range(count)]
    return torch.polar(images, torch.stack(phases)[:, None])


def draw_operator(pattern: str, acceleration: float, coils: int, count: int) -> Sense:
    """Masks and coils, other ones for each slice."""
    maps, masks = [], []
    for k in range(count):
        rng = np.random.default_rng([k, coils])
        masks.append(MASKS.draw_pattern(pattern, (128, 128), acceleration, rng))
        flat = torch.ones(1, 128, 128, dtype=torch.complex64)
        maps.append(flat if coils == 1 else draw_birdcage((128, 128), coils, rng=rng))
    return Sense(torch.stack(maps), torch.stack(masks)[:, None])


def find_psnr(found: Tensor, truth: Tensor) -> float:
    """Of magnitudes, over the largest possible value of 1, averaged over slices."""
    errors = (found.abs() - truth.abs()).square().mean((1, 2, 3))
    return float((-10 * errors.log10()).mean())


@torch.no_grad()
def compare(model: Model, x: Tensor, coils: Sequence[int]) -> list[dict[str, Any]]:
    """A row for each mask, acceleration and number of coils."""
    rows = []
    for count in coils:
        for pattern in PATTERNS:
            for acceleration in (2.0, 4.0, 8.0):
                operator = draw_operator(pattern, acceleration, count, len(x))
                measurement = Measurement.simulate(x, operator, NOISE, seed=0)
                linear = [find_psnr(measurement.estimate_linearly(s), x) for s in WEIGHTS]
                mean = posterior_mean(model.method.condition(measurement), count=len(x))
                rows.append(
                    {
                        "coils": count,
                        "pattern": pattern,
                        "acceleration": acceleration,
                        "CG-SENSE": round(max(linear), 2),
                        "one call": round(find_psnr(mean, x), 2),
                    }
                )
    return rows


if __name__ == "__main__":
    folder, data, out = sys.argv[1:4]
    slices = read_slices(Path(data), int(sys.argv[4]) if len(sys.argv) > 4 else 16)
    loaded = load(folder)
    record = {
        "slices": len(slices),
        "noise_std": NOISE,
        "step": loaded.facts.get("stopped_at_step"),
        "rows": compare(loaded, slices, (1, 8)),
    }
    write_text(Path(out), json.dumps(record, indent=1) + "\n")
