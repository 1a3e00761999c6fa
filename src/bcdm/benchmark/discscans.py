"""How images with discs are measured: by one coil, or, for models of scans, by eight."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from bcdm.assessment.images import choose_images
from bcdm.benchmark.coilsets import HELD_OUT, draw_mask, read_images, simulate_slices
from bcdm.checkpoint import Model
from bcdm.data import open_images
from bcdm.measurement import Measurement
from bcdm.operators import FourierMask
from bcdm.problems.patterns import draw_variable_density

__all__ = ["choose_slices", "count_together", "list_masks", "scan"]

_MASKS = {
    "points 4x": (4.0, 0.1, False),
    "points 8x": (8.0, 0.1, False),
    "columns 4x": (4.0, 0.06, True),
    "columns 8x": (8.0, 0.06, True),
}
_COIL_MASKS = ("equispaced 4x", "equispaced 8x", "poisson 4x", "poisson 8x")
_SIDE = 128  # pixels of about 2 mm, as IXI has them
_FOREIGN = {name for held in HELD_OUT.values() for name in held}
Read = Callable[[], Tensor]


def list_masks(model: Model) -> tuple[str, ...]:
    """Names of what a model is examined with."""
    return _COIL_MASKS if model.config.data.phase else tuple(_MASKS)


def count_together(model: Model) -> int:
    """How many images are reconstructed at once: coils see one."""
    return 1 if model.config.data.phase else 8


def scan(model: Model, images: Tensor, mask: str, noise_std: float, seed: int) -> Measurement:
    """What a scan of images (B, 1, H, W) gives.

    Coils are drawn, and a phase; maps of coils come from the data, as everybody has to take them.

    Args:
        model: Whose kind of images.
        images: As the model has them; without a phase.
        mask: One of `list_masks`.
        noise_std: In the model's units.
        seed: Of noise, coils and phase. The mask of one coil is always the same.
    """
    if not model.config.data.phase:
        acceleration, centre, lines = _MASKS[mask]
        size = (images.shape[-2], images.shape[-1])
        drawn = draw_variable_density(size, acceleration, centre=centre, seed=0, lines=lines)
        return Measurement.simulate(images, FourierMask(drawn, real=True), noise_std, seed=seed)
    ((image,),) = images.numpy()
    # Smooth coils see the first of two, a birdcage the second.
    one = simulate_slices([("", image)] * 2, 2, seed, noise_std=noise_std)[seed % 2]
    pattern, factor = mask.removesuffix("x").split()
    return one.undersample(draw_mask(pattern, float(factor), one, seed)).measurement


def choose_slices(
    model: Model, data: Path | None, others: Path | None, seed: int
) -> dict[str, Tensor]:
    """One prepared image (1, H, W) of each subject that was not trained on, by "set: name".

    Args:
        model: Whose data.
        data: The data folder; None takes BCDM_DATA.
        others: Images of further subjects, stored as the model's data are. Models of scans have the
            held-out patients of two other hospitals instead.
        seed: Of the slices.
    """
    chosen: dict[str, Tensor] = {}
    for split in ("test", "val"):
        subjects = (
            _list_scans(split, data) if model.config.data.phase else _list(model, split, data)
        )
        for number, name in enumerate(sorted(subjects)):
            own = subjects[name]
            # The outer slices of a head show little of it.
            own = own[len(own) // 4 : -(len(own) // 4) or None]
            rng = np.random.default_rng([seed, 1, number])
            image = own[int(rng.integers(len(own)))]()
            chosen[f"{'others' if name in _FOREIGN else split}: {name}"] = image
    if others is not None:
        more = open_images(others, None, model.config.data.source_range)
        for k in range(len(more)):
            name = str(k) if more.subjects is None else more.subjects[k]
            chosen[f"others: {name}"] = model.preparation(more[k])
    return chosen


def _list(model: Model, split: str, data: Path | None) -> dict[str, list[Read]]:
    """Slices of each subject of a model's data."""
    source, rows = choose_images(model, data, split, None)
    found: dict[str, list[Read]] = {}
    for k in rows:
        name = str(k) if source.subjects is None else source.subjects[k]
        found.setdefault(name, []).append(lambda k=k: model.preparation(source[k]))  # type: ignore[misc]
    return found


def _list_scans(split: str, data: Path | None) -> dict[str, list[Read]]:
    """Slices of each subject as a scan has them; with the test split come held-out patients."""
    found: dict[str, list[Read]] = {}
    for name in ("ixi", "openms", "hku") if split == "test" else ("ixi",):
        for title, image in read_images(name, data, split):
            subject = re.split("[ _]", title)[0]
            found.setdefault(subject, []).append(partial(_shrink, image))
    return found


def _shrink(image: NDArray[Any]) -> Tensor:
    """An image (H, W) as (1, H, W), at most 128 pixels a side."""
    whole = torch.from_numpy(image).float()[None]
    factor = min(1.0, _SIDE / max(whole.shape))
    size = [round(factor * side) for side in whole.shape[1:]]
    return interpolate(whole[None], size=size, mode="bilinear", antialias=True)[0].clamp(0, 1)
