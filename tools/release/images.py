"""Discs in the layout of the brain slices, so that a study runs where these are not.

python tools/release/images.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np


def write_discs(folder: Path, count: int = 40) -> None:
    """Writes brain_ixi_t1/ixi_t1_axial128.npz with discs of random place and size."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:128, :128]
    rows, columns, radii = rng.uniform([[50], [50], [20]], [[78], [78], [40]], (3, count))
    discs = [np.hypot(y - r, x - c) < s for r, c, s in zip(rows, columns, radii, strict=True)]
    split = ["train"] * (count - 16) + ["val"] * 8 + ["test"] * 8
    file = folder / "brain_ixi_t1/ixi_t1_axial128.npz"
    file.parent.mkdir(parents=True)
    images = (150 * np.stack(discs)).astype(np.uint8)
    np.savez(file, images=images, subject=[f"disc{k}" for k in range(count)], split=split)


if __name__ == "__main__":
    write_discs(Path(sys.argv[1]))
