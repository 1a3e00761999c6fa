"""Images of other kinds than a model's own."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from bcdm.assessment.images import choose_evenly
from bcdm.checkpoint import Model
from bcdm.checkpoint.settings import resolve_data_path

__all__ = ["STRANGERS", "Stranger", "load_strangers"]

_OPENMS = "brain_openms_raw/openms_raw_axial256.npz"
_IXI = "brain_ixi_native_samples/ixi_native_t1_t2.npz"
_HKU = "hku_3T_brain/brain_3T_6patients.npz"
# The scores of the card were chosen with a look at them.
_CHOSEN_ON = ("patient01", "patient03", "patient04")


@dataclass(frozen=True)
class Stranger:
    """A set of images.

    Attributes:
        name: In words.
        file: In the data folder, npz: `images`, or an array for each subject and value.
        label: The array that tells its images apart; "": the end of each array's name does.
        value: Of that label.
        judged: Whether a card must notice; else it is only told.
        without: Subjects that are left out.
        channels: Of the models that it is for; None: all.
    """

    name: str
    file: str
    label: str
    value: str
    judged: bool = True
    without: tuple[str, ...] = ()
    channels: int | None = 1

    @property
    def is_contrast(self) -> bool:
        """Whether it is the same body part by another contrast, which must be noticed."""
        return self.judged and self.name.startswith(("T2-weighted", "FLAIR"))


STRANGERS = (
    Stranger("T2-weighted brains (openMS)", _OPENMS, "contrast", "T2W", without=_CHOSEN_ON),
    Stranger("FLAIR brains (openMS)", _OPENMS, "contrast", "FLAIR", without=_CHOSEN_ON),
    Stranger("T2-weighted brains (HKU)", _HKU, "", "T2w"),
    Stranger("FLAIR brains (HKU)", _HKU, "", "FLAIR"),
    Stranger("T2-weighted brains (IXI)", _IXI, "contrast", "T2"),
    Stranger("faces", "faces_public_domain/faces64.npz", "split", "test"),
    Stranger("T1-weighted brains (openMS)", _OPENMS, "contrast", "T1W", False, _CHOSEN_ON),
    Stranger("T1-weighted brains (HKU)", _HKU, "", "T1w", False),
    Stranger("T1-weighted brains", "brain_ixi_t1/ixi_t1_axial128.npz", "split", "test", channels=3),
    Stranger("clothes", "natural/fashion_mnist_24k.npz", "", "test_images", channels=3),
    Stranger("photographs", "natural/kodak24_256.npz", "", "images", channels=3),
)


def load_strangers(
    model: Model, data: Path | None, limit: int
) -> Iterator[tuple[Stranger, Tensor, list[str]]]:
    """Images of each set that is there, as the model takes them, and whose they are."""
    for one in STRANGERS:
        path = resolve_data_path(one.file, data)
        if one.channels not in (None, model.shape[0]) or not path.is_file():
            continue
        arrays, subjects = _read(path, one)
        chosen = choose_evenly(len(arrays), limit)
        images = torch.stack([prepare(model, arrays[k]) for k in chosen])
        yield one, images, [subjects[k] for k in chosen]


def _read(path: Path, one: Stranger) -> tuple[list[np.ndarray], list[str]]:
    with np.load(path, allow_pickle=False) as stored:
        if not one.label:
            names = sorted(name for name in stored.files if name.endswith(one.value))
            found = [(name, image) for name in names for image in stored[name]]
            return [image for _, image in found], [name.split("_")[0] for name, _ in found]
        chosen = np.flatnonzero(stored[one.label] == one.value)
        key = next((k for k in ("subject", "person") if k in stored.files), None)
        names = [str(k) for k in (chosen if key is None else stored[key][chosen])]
        kept = [k for k, name in enumerate(names) if name not in one.without]
        images = stored["images"][chosen[kept]]
        return list(images), [names[k] for k in kept]


def prepare(model: Model, array: np.ndarray) -> Tensor:
    """An image as the model takes it, padded to a square."""
    black, white = model.preparation.source_range
    unit = {"uint8": 255.0, "uint16": 4095.0}.get(str(array.dtype), 1.0)
    image = torch.from_numpy(np.clip(array.astype(np.float32) / unit, 0, None))
    image = image[None] if image.ndim == 2 else image.movedim(-1, 0)
    gap = [max(image.shape[-2:]) - side for side in image.shape[-2:]]
    edges = (gap[1] // 2, gap[1] - gap[1] // 2, gap[0] // 2, gap[0] - gap[0] // 2)
    return replace(model.preparation, crop=None)(black + (white - black) * pad(image, edges))
