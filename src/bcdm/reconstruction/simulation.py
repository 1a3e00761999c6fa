"""A clean image in the place of a scan: degraded, and marked as such everywhere."""

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.data import Preparation
from bcdm.data.phase import draw_phase
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.noise import NoiseEstimate
from bcdm.operators import LinearOperator, Sense
from bcdm.problems.coils import draw_birdcage
from bcdm.problems.scanner import draw_equispaced
from bcdm.reconstruction.fitting import Fitted, check_noise
from bcdm.reconstruction.units import choose_units
from bcdm.scans import Scan
from bcdm.trust.matching import check_operator, fits_size

__all__ = ["simulate_scan"]

_COILS, _ACCELERATION, _MIDDLE = 8, 4.0, 0.08


def simulate_scan(
    scan: Scan,
    model: Model,
    *,
    seed: int,
    noise_std: float | None = None,
    operator: LinearOperator | None = None,
) -> tuple[Fitted, Tensor]:
    """Measures clean images as the model expects.

    Models of complex images have no operator of their own: images get a drawn phase, and coils that
    are drawn once measure a quarter of the columns, with a middle as fastMRI has it.

    Args:
        scan: Of images.
        model: Prepares them, and says how to measure if nothing else does.
        seed: Of the noise.
        noise_std: In the file's units; that of its training when left out.
        operator: What to measure with; that of its training, or as above, when left out.

    Returns:
        The scan that would have been measured, and the images behind it in the model's units.
    """
    check_noise(noise_std)
    if scan.kind != "image":
        raise InputError(f"{scan.path.name} holds k-space: --simulate takes clean images")
    preparation = model.preparation
    if preparation.crop is not None and scan.format in ("DICOM", "NIfTI"):
        raise InputError(
            f"{model.config.name} crops images, and {scan.format} could not say where: give PNG"
        )
    native = torch.stack([preparation.arrange(torch.from_numpy(one)) for one in scan.data])
    size = (native.shape[-2], native.shape[-1])
    if not fits_size(model, tuple(native.shape[1:])):
        raise InputError(f"{model.config.name} makes {model.shape}, not {tuple(native.shape[1:])}")
    images = native
    if model.config.data.phase:
        images = _add_phases(native, seed)
        operator = operator or _draw_receivers(size, seed)
    if operator is None:
        operator = model.operator
    elif not model.is_prior:
        check_operator(operator, model)
    units = choose_units(scan, model, native)
    std = noise_std if noise_std is not None else _find_noise(model) / units.gain
    simulated = Measurement.simulate(images, operator, std, seed=seed)
    carries = simulated.data_mask
    measured = replace(
        scan,
        kind="k-space" if simulated.y.is_complex() else "image",
        data=np.ascontiguousarray(simulated.y.cpu().numpy()),
        mask=None if carries is None else _take_first(carries),
        size=size,
        facts=dict(scan.facts) | {"simulated": True} | _name_changes(scan, preparation),
    )
    noise = NoiseEstimate(std, 0.0, "stated, the measurement is simulated", 0)
    return Fitted(measured, operator, noise, units), units.gain * images + units.offset


def _add_phases(images: Tensor, seed: int) -> Tensor:
    """Complex images of these magnitudes, (N, 1, H, W)."""
    size = (images.shape[-2], images.shape[-1])
    drawn = [draw_phase(size, rng=np.random.default_rng([seed, k])) for k in range(len(images))]
    return torch.polar(images.clamp_min(0), torch.stack(drawn)[:, None])


def _draw_receivers(size: tuple[int, int], seed: int) -> Sense:
    """Coils around the object, and every fourth column about."""
    maps = draw_birdcage(size, _COILS, rng=np.random.default_rng([seed, _COILS]))
    mask = draw_equispaced(size, _ACCELERATION, centre=_MIDDLE, seed=seed)
    return Sense(maps, mask)


def _find_noise(model: Model) -> float:
    """The level of training; of complex models, which have a range, its geometric middle."""
    levels = model.config.noise_std
    if model.config.data.phase and isinstance(levels, tuple):
        return math.sqrt(levels[0] * levels[1])
    return model.noise_std


def _name_changes(scan: Scan, preparation: Preparation) -> dict[str, str]:
    """What a model's preparation did to images before they were measured, in words.

    Fine detail that a smaller image cannot hold is no part of the truth beside the result.
    """
    steps = preparation.list_changes(*scan.data.shape[-2:])
    return {"changed": "; ".join(steps) + ", before it was measured"} if steps else {}


def _take_first(mask: Tensor) -> np.ndarray:
    """The mask (H, W) of the first channel of the first slice: those of a scan share it."""
    first: np.ndarray = mask.reshape(-1, *mask.shape[-2:])[0].cpu().numpy()
    return first
