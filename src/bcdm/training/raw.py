"""A folder of raw scans becomes a training set: complex images, coil maps and settings."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from bcdm.checkpoint.settings import parse_config
from bcdm.coils import estimate_maps
from bcdm.errors import InputError
from bcdm.files import replacing, write_text
from bcdm.noise import estimate_from_noise_scan
from bcdm.operators import Sense, whiten_coils
from bcdm.scans import Scan, read_scan, remove_oversampling

__all__ = ["Volume", "combine", "divide_subjects", "prepare"]

SUFFIXES = (".h5", ".hdf5", ".mrd", ".npz", ".npy")
_WHOLE = 0.75  # of an axis: less is an undersampled scan, more is zero-filled at its ends
_FULL = 0.7  # of the box that holds all samples: ellipses, which leave out its corners, have .785
_WHITE = 0.998  # quantile of a volume's magnitudes that becomes 1
_MAPS = 128  # pixels a side that maps are kept with, at most: they are smooth
_SETS = 32  # subjects whose maps are kept

Settings = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Volume:
    """What became of one file.

    Attributes:
        subject: Whose it is: as the file says, else the file's name.
        images: Complex64 (slices, H, W), magnitudes up to about 1.
        scale: One in these images is so much in the file.
        maps: Of the middle slice, complex64 (coils, h, w), at most 128 pixels a side.
    """

    subject: str
    images: NDArray[np.complex64]
    scale: float
    maps: NDArray[np.complex64]


def prepare(
    folder: Path, out: Path, *, size: tuple[int, int] | None, report: Callable[[str], None]
) -> Path:
    """Reads fully sampled raw scans, and writes what `bcdm train` takes; returns the settings.

    The folder gets images.h5 (complex images with subject, split and scale), maps.npz (coil maps of
    training subjects) and train.yaml. Files that are no such scans are left out, and named.

    Args:
        folder: With files of k-space in any layout that is read: fastMRI, ISMRMRD, npz, npy.
        out: Where to write.
        size: Rows and columns of the images, cut or filled up with black around the middle; left
            out: those of the first scan.
        report: Hears a line a file.
    """
    import h5py

    if size is not None and min(size) < 1:
        raise InputError(f"images have 1 row and column or more, not {size[0]}x{size[1]}")
    out.mkdir(parents=True, exist_ok=True)
    subjects: list[str] = []
    maps: dict[str, NDArray[np.complex64]] = {}
    with replacing(out / "images.h5") as partial, h5py.File(partial, "w") as file:
        scales: list[float] = []
        images: Any = None
        for path in _list_files(folder):
            try:
                volume = combine(read_scan(path))
            except InputError as error:
                report(f"left out: {error}")
                continue
            sides = size or (volume.images.shape[1], volume.images.shape[2])
            if images is None:
                size = sides
                images = file.create_dataset(
                    "images", (0, *sides), np.complex64, maxshape=(None, *sides)
                )
            # One volume at a time is in memory.
            images.resize(len(images) + len(volume.images), 0)
            images[-len(volume.images) :] = _frame(volume.images, sides)
            subjects += [volume.subject] * len(volume.images)
            scales += [volume.scale] * len(volume.images)
            maps.setdefault(volume.subject, volume.maps)
            report(f"{path.name}: {len(volume.images)} slices, {len(volume.maps)} coils")
        if images is None:
            raise InputError(f"{folder} holds no fully sampled k-space of {', '.join(SUFFIXES)}")
        labels = divide_subjects(subjects)
        file["subject"], file["split"], file["scale"] = subjects, labels, scales
    whose = dict(zip(subjects, labels, strict=True))
    kept = [name for name in maps if whose[name] == "train"][:_SETS]
    with replacing(out / "maps.npz") as partial:
        np.savez(partial, allow_pickle=False, **{f"set{k}": maps[n] for k, n in enumerate(kept)})
    settings = _make_settings(out.resolve().name, max(len(maps[name]) for name in kept))
    parse_config(settings)
    write_text(out / "train.yaml", yaml.safe_dump(settings, sort_keys=False))
    counts = {label: len({s for s in whose if whose[s] == label}) for label in sorted(set(labels))}
    report(f"wrote {len(subjects)} images; subjects: {counts}")
    return out / "train.yaml"


def combine(scan: Scan) -> Volume:
    """One complex image of each slice, by maps from its own data; refuses undersampled scans."""
    if scan.kind != "k-space" or scan.mask is None:
        raise InputError(f"{scan.path.name} holds no k-space")
    for axis in (-2, -1):
        taken = np.flatnonzero(scan.mask.any(axis))
        gap = len(taken) and taken[-1] + 1 - taken[0] > len(taken)
        if gap or len(taken) < _WHOLE * scan.mask.shape[-1 if axis == -2 else -2]:
            raise InputError(f"{scan.path.name} is undersampled: training needs the whole image")
    box = scan.mask[np.ix_(scan.mask.any(1), scan.mask.any(0))]
    if box.mean() < _FULL:
        raise InputError(f"{scan.path.name} is undersampled: training needs the whole image")
    cropped = remove_oversampling(scan)
    assert cropped.mask is not None
    images, middle = [], len(cropped.data) // 2
    kept = np.zeros(0, np.complex64)
    for number, one in enumerate(cropped.data):
        image, maps = _combine_slice(one, cropped.mask, scan.noise)
        images.append(_frame(image[None], scan.size)[0])
        if number == middle:
            kept = _shrink(_frame(maps, scan.size))
    volume = np.stack(images)
    white = float(np.quantile(np.abs(volume), _WHITE))
    if not white > 0:
        raise InputError(f"{scan.path.name} shows no image: is its k-space centred?")
    subject = str(scan.facts.get("subject", scan.path.stem))
    return Volume(subject, (volume / white).astype(np.complex64), white, kept)


def _combine_slice(
    kspace: NDArray[np.complex64], mask: NDArray[np.bool_], noise: NDArray[np.complex64] | None
) -> tuple[NDArray[np.complex64], NDArray[np.complex64]]:
    """The image (H, W) and the maps (coils, H, W) of a slice (coils, H, W)."""
    y = torch.from_numpy(kspace)[None]
    if noise is not None:
        covariance = torch.from_numpy(estimate_from_noise_scan(noise).covariance)
        # In the units of the file: of the whitened coils only what they have in common changes.
        y, _ = whiten_coils(y, y[0], covariance / covariance.diagonal().real.mean())
    maps = estimate_maps(y[0].numpy(), mask)
    image = Sense(torch.from_numpy(maps), torch.from_numpy(mask)).adjoint(y)
    return image[0, 0].numpy(), maps


def divide_subjects(subjects: Sequence[str]) -> list[str]:
    """A tenth of the subjects for validation and one for tests, at least one each of three.

    They are chosen by a hash of their names: the same whatever the order of files.
    """
    names = sorted(set(subjects), key=lambda name: hashlib.blake2b(name.encode()).digest())
    held = max(1, round(len(names) / 10)) if len(names) > 2 else 0
    labels = dict.fromkeys(names, "train")
    labels |= dict.fromkeys(names[:held], "val")
    labels |= dict.fromkeys(names[held : 2 * held], "test")
    return [labels[name] for name in subjects]


def _list_files(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        raise InputError(f"folder {folder} does not exist: check the path")
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in SUFFIXES and path.is_file() and not path.name.startswith("."):
            yield path


def _frame(images: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """The middle of images (N, H, W): cut, or with black around it."""
    for axis, side in zip((-2, -1), size, strict=True):
        whole = images.shape[axis]
        if whole >= side:
            first = whole // 2 - side // 2
            images = np.take(images, range(first, first + side), axis)
        else:
            before = side // 2 - whole // 2
            widths = [(0, 0)] * images.ndim
            widths[axis] = (before, side - whole - before)
            images = np.pad(images, widths)
    return images


def _shrink(maps: NDArray[np.complex64]) -> NDArray[np.complex64]:
    sides = [min(side, _MAPS) for side in maps.shape[-2:]]
    parts: Tensor = torch.view_as_real(torch.from_numpy(np.ascontiguousarray(maps)))
    small = interpolate(parts.permute(0, 3, 1, 2), sides, mode="bilinear", align_corners=False)
    found: NDArray[np.complex64] = torch.view_as_complex(
        small.permute(0, 2, 3, 1).contiguous()
    ).numpy()
    return found


def _make_settings(name: str, coils: int) -> Settings:
    """Settings to start from: complex images, masks of scanners, drawn and measured coils."""
    masks = {
        "kind": "k_space",
        "acceleration": [1.0, 12.0],
        "patterns": ["random_columns", "equispaced_columns", "equispaced_rows", "poisson"],
    }
    member = {"kind": "receivers", "masks": masks, "coils": [1, min(64, coils)], "maps": "maps.npz"}
    return {
        "name": name,
        "data": {
            "path": "images.h5",
            "channels": 1,
            "source_range": [0.0, 1.0],
            "value_range": [0.0, 1.0],
            "phase": True,
            "flip": True,
            "turn": 10.0,
            "zoom": 0.1,
        },
        "operator": {"kind": "family", "nothing": 0.1, "members": [member]},
        "noise_std": [0.004, 0.2],
        "network": {
            "width": 48,
            "multipliers": [1, 1, 1, 2],
            "blocks": 2,
            "attention": [],
            "bottleneck_attention": False,
            "patch": 2,
            "progressive_input": "none",
            "progressive_output": "none",
        },
        "parameterisation": {"prior_std": 0.15, "probes": True},
        "training": {
            "steps": 16000,
            "batch": 4,
            "learning_rate": 0.0005,
            "levels": {"mean": 3.0, "std": 3.0, "end": 0.1},
        },
    }
