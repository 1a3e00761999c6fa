"""Slices near their native size as training sets: python -m experiments.scans.prepare DATA OUT.

DATA is the folder with brain_openms_raw and hku_3T_brain. Patients that tests are made of are
stored as "test".
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TEST = ("patient19", "patient20", "S6A", "S6B")
# Slices of a patient and contrast are padded with black to the smallest of these that holds them.
SIZES = ((368, 320), (528, 448))


def prepare(data: Path, out: Path) -> None:
    """Writes openms256.npz, hku368.npz and hku528.npz with images, subjects and splits."""
    out.mkdir(parents=True, exist_ok=True)
    with np.load(data / "brain_openms_raw/openms_raw_axial256.npz") as held:
        _write(out / "openms256.npz", held["images"], held["subject"].tolist())
    parts: dict[tuple[int, int], list[tuple[str, NDArray[np.uint16]]]] = {s: [] for s in SIZES}
    with np.load(data / "hku_3T_brain/brain_3T_6patients.npz") as held:
        for name in sorted(held):
            slices = held[name]
            size = next(s for s in SIZES if s[0] >= slices.shape[1] and s[1] >= slices.shape[2])
            patient = name.partition("_")[0]
            parts[size] += [(patient, pad_black(one, size)) for one in slices]
    for size, slices in parts.items():
        subjects = [patient for patient, _ in slices]
        _write(out / f"hku{size[0]}.npz", np.stack([one for _, one in slices]), subjects)


def pad_black(image: NDArray[np.uint16], size: tuple[int, int]) -> NDArray[np.uint16]:
    """The image (H, W) in the middle of a larger one."""
    spare = [whole - side for whole, side in zip(size, image.shape, strict=True)]
    return np.pad(image, [(s // 2, s - s // 2) for s in spare])


def _write(path: Path, images: NDArray[np.generic], subjects: list[str]) -> None:
    split = ["test" if subject in TEST else "train" for subject in subjects]
    np.savez_compressed(path, images=images, subject=subjects, split=split)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]), Path(sys.argv[2]))
