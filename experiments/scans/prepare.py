"""Training sets: python -m experiments.scans.prepare DATA OUT.

Slices near their native size, and slices of IXI and openMS without their grain: noise of the
scanner that made them, which a network would learn to keep, and which other contrasts amplify.
DATA is the folder with brain_ixi_t1, brain_openms_raw and hku_3T_brain. Patients that tests are
made of are stored as "test"; they are not cleaned.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.restoration import denoise_nl_means

TEST = ("patient19", "patient20", "S6A", "S6B")
# Slices of a patient and contrast are padded with black to the smallest of these that holds them.
SIZES = ((368, 320), (528, 448))


def prepare(data: Path, out: Path) -> None:
    """Writes hku368.npz, hku528.npz, ixi128-clean.npz and openms256-clean.npz.

    Each has images, subjects and splits.
    """
    out.mkdir(parents=True, exist_ok=True)
    with np.load(data / "brain_ixi_t1/ixi_t1_axial128.npz") as held:
        _write_clean(out / "ixi128-clean.npz", held["images"], held["subject"], held["split"])
    with np.load(data / "brain_openms_raw/openms_raw_axial256.npz") as held:
        subjects = held["subject"]
        split = np.where(np.isin(subjects, TEST), "test", "train")
        _write_clean(out / "openms256-clean.npz", held["images"], subjects, split)
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


def find_grain(image: NDArray[np.floating]) -> float:
    """The standard deviation of an image's (H, W) white noise deep inside the head.

    By a mask that no straight edge passes; fine anatomy counts as noise, too.
    """
    found = ndimage.convolve(image, np.outer([1, -2, 1], [1, -2, 1])) / 6
    head = ndimage.gaussian_filter(image, 3) > 0.15 * np.quantile(image, 0.99)
    core = ndimage.binary_erosion(ndimage.binary_fill_holes(head), iterations=8)
    return float(np.median(np.abs(found[core])) / 0.6745) if core.any() else 0.0


def clean(image: NDArray[np.floating]) -> NDArray[np.floating]:
    """An image (H, W) from 0 to 1 without its grain, by means of like patches."""
    grain = find_grain(image)
    if not grain:
        return image
    found = denoise_nl_means(
        image, patch_size=3, patch_distance=5, h=0.91 * grain, sigma=0.8 * grain, fast_mode=True
    )
    return np.clip(found, 0, 1)


def _write_clean(
    path: Path, images: NDArray[np.uint8], subjects: NDArray[np.str_], split: NDArray[np.str_]
) -> None:
    kept = split != "test"
    cleaned = [np.round(65535 * clean(image / 255)).astype(np.uint16) for image in images[kept]]
    np.savez_compressed(path, images=cleaned, subject=subjects[kept], split=split[kept])


def _write(path: Path, images: NDArray[np.generic], subjects: list[str]) -> None:
    split = ["test" if subject in TEST else "train" for subject in subjects]
    np.savez_compressed(path, images=images, subject=subjects, split=split)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]), Path(sys.argv[2]))
