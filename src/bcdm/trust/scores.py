"""Numbers that tell whether a measurement is one that a model knows.

Each needs the measurement and at most one network call, and no reference. They mean something only
beside their distribution on measurements that are known to be right: `bcdm.checkpoint.calibration`.
"""

import math
from collections.abc import Mapping, Sequence
from functools import singledispatch

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.checkpoint.calibration import Typicality
from bcdm.checkpoint.discriminant import Discriminant
from bcdm.checkpoint.usual import CONDITIONS
from bcdm.errors import InputError
from bcdm.evaluation import chi_square
from bcdm.evaluation.signal import find_brightness
from bcdm.measurement import Measurement
from bcdm.noise import (
    NoiseEstimate,
    counts_signal,
    estimate_from_coils,
    estimate_from_image,
    estimate_from_k_space,
)
from bcdm.operators import FourierMask, LinearOperator, PixelMask, Sense
from bcdm.trust.heldout import score_held_out
from bcdm.trust.looks import look

__all__ = ["NAMES", "chi_square_of", "compare_noise", "counts_signal_as_noise", "find_scores"]

NAMES = (
    "residual",
    "held-out data",
    "typicality",
    "bright spots",
    "reconstruction",
    "grey levels",
    "noise level",
)


def chi_square_of(measurement: Measurement, x: Tensor) -> tuple[Tensor, Tensor]:
    """Chi-square per degree of freedom of images, and its two-sided p-value, (B,) each.

    A sample of the true posterior and the truth have the same law beside y, so its p-value is
    uniform; that of a mean is not.
    """
    result = chi_square(measurement.residual(x), 1.0, mask=measurement.data_mask)
    return result.reduced, result.p_value


def find_scores(
    model: Model,
    measurement: Measurement,
    looks: Mapping[str, Typicality | Discriminant],
    preview: Tensor,
    samples: Tensor | None = None,
) -> list[dict[str, float]]:
    """Scores of each measurement of a batch, and their `CONDITIONS`, by name; larger is worse.

    Those that may be too small as well (`TWO_SIDED`) are worse the further they are from 0.

    Args:
        model: The model.
        measurement: In its units.
        looks: What is typical, and what tells right from wrong; looks without one are left out.
        preview: The posterior mean by one call, (B, C, H, W).
        samples: Posterior samples (S, B, ...), for the residual; left out: no such score.
    """
    columns: dict[str, Sequence[float]] = {}
    if samples is not None:
        reduced, _ = chi_square_of(measurement, samples[0])
        columns["residual"] = reduced.log().tolist()
    held = score_held_out(model, measurement)
    if held is not None:
        linear = model.scales.estimate_linearly(measurement)
        bright = find_brightness(linear, model.config.data.value_range[0])
        columns["held-out data"] = (held / bright.cpu() ** 2).clamp_min(1e-30).log().tolist()
    for name, description in look(model, measurement, preview).items():
        if name in looks:
            columns[name] = looks[name].score(description).tolist()
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    shares = _find_shares(measurement).tolist()
    levels = measurement.std.expand(len(rows)).tolist()
    for number, row in enumerate(rows):
        row |= dict(zip(CONDITIONS, (levels[number], shares[number]), strict=True))
        ratio = compare_noise(measurement.select(torch.tensor([number])))
        if ratio is not None:
            row["noise level"] = math.log(ratio)
    return rows


def _find_shares(measurement: Measurement) -> Tensor:
    """How many numbers were measured for each pixel, (B,)."""
    y, mask = measurement.y, measurement.data_mask
    taken = torch.ones_like(y, dtype=torch.bool) if mask is None else mask.expand_as(y)
    return taken.flatten(1).sum(1).double().cpu() / measurement.back_projection[0].numel()


def counts_signal_as_noise(measurement: Measurement) -> bool:
    """Whether the noise level that data like these show is no more than an upper bound."""
    operator = measurement.operator
    if not isinstance(operator, Sense) or operator.maps.shape[-3] == 1:
        return False
    mask = operator.mask.cpu().numpy()
    return counts_signal(mask.reshape(-1, *mask.shape[-2:])[0])


def compare_noise(measurement: Measurement) -> float | None:
    """The noise that a measurement shows over the one that is stated; None where it shows none."""
    try:
        found = _estimate_noise(measurement.operator, measurement.y.cpu().numpy())
    except InputError:
        return None
    return found.std / float(measurement.std[0])


@singledispatch
def _estimate_noise(operator: LinearOperator, y: np.ndarray) -> NoiseEstimate:
    return estimate_from_image(y, None)


@_estimate_noise.register
def _(operator: PixelMask, y: np.ndarray) -> NoiseEstimate:
    return estimate_from_image(y, operator.mask.cpu().numpy() != 0)


@_estimate_noise.register
def _(operator: FourierMask, y: np.ndarray) -> NoiseEstimate:
    mask = operator.mask.cpu().numpy() != 0
    return estimate_from_k_space(y, mask.reshape(-1, *mask.shape[-2:])[0])


@_estimate_noise.register
def _(operator: Sense, y: np.ndarray) -> NoiseEstimate:
    mask = operator.mask.cpu().numpy()
    # In a batch, measurements of fewer coils than others have dark ones.
    y = y[:, y.any((0, 2, 3))]
    return estimate_from_coils(y, mask.reshape(-1, *mask.shape[-2:])[0]).estimate
