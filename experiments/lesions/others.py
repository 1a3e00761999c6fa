"""T1 slices of patients from another hospital, as the images of IXI are: 2 mm pixels, same grey.

python experiments/lesions/others.py DATA runs/lesions/others.npz
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import interpolate, pad

PIXEL = 0.9  # mm of the source; 128 pixels of 2 mm are 256 mm
SIDE = 128
BRAIN = 0.753  # how bright such a quantile is in IXI: the mean of its 12 validation subjects


def prepare(image: np.ndarray) -> np.ndarray:
    """One slice (H, W) of the source on the grid of IXI, uint8.

    IXI's volumes are divided by the 99.9 % quantile of the brain. No brain is marked here, and fat
    is brighter than it: what lies within half of the head's half-axes is brain.
    """
    wide = round(SIDE * 2 / PIXEL)
    margin = (wide - image.shape[-1]) // 2
    whole = pad(torch.from_numpy(image).float()[None, None], [margin] * 4)
    small = interpolate(whole, size=(SIDE, SIDE), mode="bilinear", antialias=True)[0, 0].numpy()
    rows, columns = np.nonzero(small > 0.15 * np.quantile(small, 0.99))
    y, x = np.mgrid[:SIDE, :SIDE]
    away = np.hypot(*(_centre(axis, inside) for axis, inside in ((y, rows), (x, columns))))
    white = np.quantile(small[away < 0.5], 0.995)
    return np.round(255 * np.clip(BRAIN * small / white, 0, 1)).astype(np.uint8)


def _centre(axis: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Coordinates that are 0 in the middle of the head and 1 at its ends."""
    first, last = np.quantile(inside, [0.01, 0.99])
    return (axis - (first + last) / 2) / ((last - first) / 2)


def main(data: Path, out: Path) -> None:
    """Writes the middle T1 slice of each patient."""
    with np.load(data / "brain_openms_raw/openms_raw_axial256.npz") as file:
        contrast, subject, study = file["contrast"], file["subject"], file["study"]
        images = file["images"]
    found = {}
    for name in sorted(set(subject[contrast == "T1W"])):
        own = np.flatnonzero((subject == name) & (contrast == "T1W"))
        own = own[study[own] == study[own][0]]
        found[name] = prepare(images[own[len(own) // 2]])
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(out, images=np.stack(list(found.values())), subject=np.array(list(found)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
