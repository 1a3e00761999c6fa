"""A clean image in the place of a scan: degraded, and marked as such everywhere."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.data import Preparation
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.noise import NoiseEstimate
from bcdm.operators import LinearOperator
from bcdm.reconstruction.fitting import Fitted, check_noise
from bcdm.reconstruction.units import choose_units
from bcdm.scans import Scan
from bcdm.trust.matching import check_operator

__all__ = ["simulate_scan"]


def simulate_scan(
    scan: Scan,
    model: Model,
    *,
    seed: int,
    noise_std: float | None = None,
    operator: LinearOperator | None = None,
) -> tuple[Fitted, Tensor]:
    """Measures clean images as the model expects.

    Args:
        scan: Of images.
        model: Prepares them, and says how to measure if nothing else does.
        seed: Of the noise.
        noise_std: In the file's units; that of its training when left out.
        operator: What to measure with; that of its training when left out.

    Returns:
        The scan that would have been measured, and the images behind it in the model's units.
    """
    check_noise(noise_std)
    if scan.kind != "image":
        raise InputError(f"{scan.path.name} holds k-space: --simulate takes clean images")
    if model.config.data.phase:
        raise InputError(
            f"{model.config.name} makes complex images; --simulate knows no phase and no coils: "
            "give k-space"
        )
    preparation = model.preparation
    if preparation.crop is not None and scan.format in ("DICOM", "NIfTI"):
        raise InputError(
            f"{model.config.name} crops images, and {scan.format} could not say where: give PNG"
        )
    native = torch.stack([preparation.arrange(torch.from_numpy(one)) for one in scan.data])
    if tuple(native.shape[1:]) != tuple(model.shape):
        raise InputError(f"{model.config.name} makes {model.shape}, not {tuple(native.shape[1:])}")
    if operator is None:
        operator = model.operator
    else:
        check_operator(operator, model)
    units = choose_units(scan, model, native)
    std = noise_std if noise_std is not None else model.noise_std / units.gain
    simulated = Measurement.simulate(native, operator, std, seed=seed)
    carries = simulated.data_mask
    measured = replace(
        scan,
        kind="k-space" if simulated.y.is_complex() else "image",
        data=np.ascontiguousarray(simulated.y.cpu().numpy()),
        mask=None if carries is None else _take_first(carries),
        size=(model.shape[-2], model.shape[-1]),
        facts=dict(scan.facts) | {"simulated": True} | _name_changes(scan, preparation),
    )
    noise = NoiseEstimate(std, 0.0, "stated, the measurement is simulated", 0)
    return Fitted(measured, operator, noise, units), units.gain * native + units.offset


def _name_changes(scan: Scan, preparation: Preparation) -> dict[str, str]:
    """What a model's preparation did to images before they were measured, in words.

    Fine detail that a smaller image cannot hold is no part of the truth beside the result.
    """
    stored = (scan.data.shape[-2], scan.data.shape[-1])
    kept = stored if preparation.crop is None else preparation.crop[2:]
    size = kept if preparation.size is None else preparation.size
    steps = []
    if kept != stored:
        steps.append(f"cut from {_show(stored)} to {_show(kept)} pixels")
    if size != kept:
        uneven = "" if size[0] * kept[1] == size[1] * kept[0] else ", which stretches it"
        steps.append(f"resized from {_show(kept)} to {_show(size)} pixels{uneven}")
    return {"changed": "; ".join(steps) + ", before it was measured"} if steps else {}


def _show(size: tuple[int, ...]) -> str:
    return " x ".join(str(side) for side in size)


def _take_first(mask: Tensor) -> np.ndarray:
    """The mask (H, W) of the first channel of the first slice: those of a scan share it."""
    first: np.ndarray = mask.reshape(-1, *mask.shape[-2:])[0].cpu().numpy()
    return first
