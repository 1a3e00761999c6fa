"""Faces for training, from a folder of aligned portraits.

The set that models here were trained on was aligned by the eyes and mouths that a face detector
found, which is no part of this package: align pictures first, or give square crops of heads.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import adaptive_avg_pool2d

from bcdm.data.images import ImageFolder
from bcdm.data.making import hash_name, read_splits, write_set
from bcdm.data.splits import DEFAULT_FRACTIONS, split_by_subject
from bcdm.errors import InputError

__all__ = ["PLACE", "make_faces", "shrink_face"]

PLACE = Path("faces_public_domain/faces64.npz")
SIDE = 64


def make_faces(folder: Path, out: Path, *, report: Callable[[str], None] = print) -> Path:
    """Makes the set of faces from a folder of portraits; returns its file.

    Portraits of a person lie in a folder of the person's name; others are of one person each. Whom
    models here know keeps the set, train, val or test; others are divided by a hash of the name.

    Args:
        folder: With pictures of 8 bits and 64 pixels a side or more; of an oblong one the square
            in the middle is taken.
        out: A data folder; the file in it is what settings name.
        report: Hears what was made.
    """
    pictures = ImageFolder(folder)
    if pictures.value_range != (0.0, 255.0):
        raise InputError(f"{folder} holds pictures of more than 8 bits: save them with 8")
    people = list(pictures.subjects)
    names = [file.relative_to(folder).as_posix() for file in pictures.files]
    images = [shrink_face(pictures[k].numpy(), name) for k, name in enumerate(names)]
    known = read_splits("faces")
    others = split_by_subject(people, DEFAULT_FRACTIONS, seed=0)
    labels = [known.get(hash_name(who), other) for who, other in zip(people, others, strict=True)]
    found = sum(hash_name(who) in known for who in set(people))
    report(f"{len(set(people))} people, {found} of them known to models here")
    arrays = {
        "images": np.stack(images),
        "person": np.array(people),
        "filename": np.array(names),
        "split": np.array(labels),
    }
    return write_set(out / PLACE, arrays, list(pictures.files), report)


def shrink_face(picture: NDArray[np.float32], name: str = "the picture") -> NDArray[np.uint8]:
    """The square in the middle of a picture (C, H, W), averaged to 64 x 64 pixels (H, W, 3)."""
    channels, height, width = picture.shape
    side = min(height, width)
    if side < SIDE:
        raise InputError(f"{name} has {height} x {width} pixels: {SIDE} a side are needed")
    top, left = (height - side) // 2, (width - side) // 2
    square = torch.from_numpy(picture[:, top : top + side, left : left + side])
    mean = adaptive_avg_pool2d(square.expand(3, -1, -1) if channels == 1 else square, SIDE)
    small: NDArray[np.uint8] = mean.round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).numpy()
    return np.ascontiguousarray(small)
