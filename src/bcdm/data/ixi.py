r"""Brain slices for training, from the T1 volumes that IXI publishes.

The set that models here were trained on has 26 axial slices of each of 185 subjects, 10 to 60 mm
below the top of the brain, 2 mm apart and of 2 mm pixels; a volume's 99.9th percentile inside the
brain is white. It was made of volumes that others had brought to 2 mm and 8 bits before, and the
brain was known by their segmentation. Here both are done anew, so grey levels differ slightly.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcdm.data.making import read_splits, write_set
from bcdm.errors import InputError

__all__ = ["PLACE", "cut_slices", "find_brain", "make_ixi", "resample"]

PLACE = Path("brain_ixi_t1/ixi_t1_axial128.npz")
PIXEL = 2.0  # mm
SIDE = 128
DEPTHS = range(10, 62, 2)  # mm below the top of the brain
WHITE = 99.9  # percentile inside the brain
_FILE = re.compile(r"(IXI\d+-[A-Za-z]+-\d+).*\.nii(\.gz)?")
_BRIDGE = 2  # voxels by which scalp and brain are parted, more than what joins them is thick

Volume = NDArray[np.float32]


def make_ixi(
    folder: Path, out: Path, *, masks: Path | None = None, report: Callable[[str], None] = print
) -> Path:
    """Makes the set of brain slices from a folder of NIfTI volumes; returns its file.

    Of the subjects in the folder those are taken that models here know, each in its set.

    Args:
        folder: With IXI's T1 volumes, such as IXI012-HH-1211-T1.nii.gz.
        out: A data folder; the file in it is what settings name.
        masks: With a NIfTI volume of each subject that is not 0 in its brain, such as a
            segmentation. Left out, the brain is found by its brightness, which is less precise.
        report: Hears a line a subject.
    """
    splits = read_splits("ixi")
    volumes = _list_volumes(folder)
    brains = {} if masks is None else _list_volumes(masks)
    known = [subject for subject in volumes if subject in splits]
    report(f"{len(known)} of {len(splits)} subjects; {len(volumes) - len(known)} others left out")
    taken, slices = [], []
    for subject in known:
        if masks is not None and subject not in brains:
            report(f"left out: {subject} has no mask")
            continue
        volume = resample(*_read_volume(volumes[subject]))
        if masks is None:
            brain = find_brain(volume)
        else:
            brain = resample(*_read_volume(brains[subject], mask=True)) > 0.5
        try:
            slices.append(cut_slices(volume, brain))
        except InputError as error:
            report(f"left out: {subject}: {error}")
            continue
        taken.append(subject)
        report(subject)
    if not taken:
        raise InputError(f"{folder} holds no T1 volume of a subject that models here know")
    arrays = {
        "images": np.concatenate(slices),
        "subject": np.repeat(taken, len(DEPTHS)),
        "depth_mm": np.tile(np.array(DEPTHS, np.int16), len(taken)),
        "split": np.repeat([splits[subject] for subject in taken], len(DEPTHS)),
    }
    sources = [files[subject] for files in (volumes, brains) for subject in taken if files]
    return write_set(out / PLACE, arrays, sources, report)


def resample(volume: Volume, spacing: tuple[float, ...], pixel: float = PIXEL) -> Volume:
    """Averages a volume over larger voxels, each voxel by how much of it lies inside."""
    averaged: NDArray[np.floating[Any]] = volume
    for axis, step in enumerate(spacing):
        weights = _overlap(volume.shape[axis], step, pixel)
        averaged = np.moveaxis(np.tensordot(weights, averaged, (1, axis)), 0, axis)
    return averaged.astype(np.float32)


def find_brain(volume: Volume) -> NDArray[np.bool_]:
    """The brain in a head of 2 mm voxels: the bright part around the middle, without the scalp.

    The dark skull parts them; what still joins them is thin and is opened.
    """
    bright = volume > _find_threshold(volume)
    core = ~_grow(~bright, _BRIDGE)
    places = np.argwhere(core)
    if not len(places):
        raise InputError("no brain is found: is this a T1 volume of a head?")
    apart = places - np.argwhere(bright).mean(0)
    inside = np.zeros_like(core)
    inside[tuple(places[(apart**2).sum(1).argmin()])] = True
    count = 0
    while (found := int(inside.sum())) != count:
        count, inside = found, _grow(inside, 1) & core
    return _grow(inside, _BRIDGE) & bright


def cut_slices(volume: Volume, brain: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Axial slices (26, 128, 128) of a volume of 2 mm voxels, front up, the left on the left.

    Args:
        volume: (x, y, z), to the right, to the front, up.
        brain: Where its brain is.
    """
    filled = np.flatnonzero(brain.any((0, 1)))
    if not len(filled):
        raise InputError("its brain is empty")
    levels = [int(filled[-1]) - round(depth / PIXEL) for depth in DEPTHS]
    if levels[-1] < 0:
        raise InputError(f"it ends less than {DEPTHS[-1]} mm below the top of the brain")
    white = float(np.percentile(volume[brain], WHITE))
    if not white > 0:
        raise InputError("its brain is black")
    grey = np.round(255 * np.clip(volume[:, :, levels] / white, 0, 1)).astype(np.uint8)
    # Rows from the front to the back, columns from the left to the right.
    return _frame(grey.transpose(2, 1, 0)[:, ::-1])


def _list_volumes(folder: Path) -> dict[str, Path]:
    """NIfTI files of a folder by subject."""
    if not folder.is_dir():
        raise InputError(f"folder {folder} does not exist: check the path")
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*.nii*")):
        if name := _FILE.fullmatch(path.name):
            if name[1] in found:
                raise InputError(f"{folder} holds two volumes of {name[1]}: keep its T1 alone")
            found[name[1]] = path
    return found


def _read_volume(path: Path, *, mask: bool = False) -> tuple[Volume, tuple[float, ...]]:
    """A volume (x, y, z), to the right, to the front, up, and its voxels' sides in mm."""
    import nibabel

    try:
        image: Any = nibabel.as_closest_canonical(nibabel.load(path))  # type: ignore[no-untyped-call]
        volume = np.asarray(image.dataobj, np.float32)
    except (OSError, EOFError, ValueError, nibabel.filebasedimages.ImageFileError) as error:
        raise InputError(f"{path} cannot be read ({error}): fetch it anew") from None
    if volume.ndim != 3 or not np.isfinite(volume).all():
        raise InputError(f"{path} is no volume of finite numbers")
    spacing = tuple(float(side) for side in image.header.get_zooms()[:3])
    return (volume != 0).astype(np.float32) if mask else volume, spacing


def _overlap(count: int, step: float, pixel: float) -> NDArray[np.float64]:
    """How much of each of `count` voxels lies in each larger one, as weights that sum to 1."""
    size = max(1, math.floor(count * step / pixel + 0.5))
    first = (count * step - size * pixel) / 2  # both grids have the same middle
    edges, larger = step * np.arange(count + 1), first + pixel * np.arange(size + 1)
    low = np.maximum(edges[None, :-1], larger[:-1, None])
    high = np.minimum(edges[None, 1:], larger[1:, None])
    shared = np.clip(high - low, 0, None)
    weights: NDArray[np.float64] = shared / shared.sum(1, keepdims=True)
    return weights


def _find_threshold(volume: Volume) -> float:
    """Between brain and skull: half of what is usual in a head."""
    air = 0.1 * float(np.percentile(volume, WHITE))
    head = volume[volume > air]
    return 0.5 * float(np.median(head)) if len(head) else 0.0


def _grow(inside: NDArray[np.bool_], steps: int) -> NDArray[np.bool_]:
    """Adds all voxels within so many steps, in any direction."""
    for axis in range(3):
        for _ in range(steps):
            grown = inside.copy()
            old, new = np.moveaxis(inside, axis, 0), np.moveaxis(grown, axis, 0)
            new[1:] |= old[:-1]
            new[:-1] |= old[1:]
            inside = grown
    return inside


def _frame(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The middle of images (N, H, W), cut or with black around it, 128 x 128."""
    for axis in (1, 2):
        spare = SIDE - images.shape[axis]
        widths = [(0, 0)] * 3
        widths[axis] = (max(spare, 0) // 2, max(spare, 0) - max(spare, 0) // 2)
        first = max(-spare, 0) // 2
        images = np.take(np.pad(images, widths), range(first, first + SIDE), axis)
    return images
