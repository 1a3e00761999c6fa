"""Data left out of a reconstruction, and how well the rest predicts them."""

from dataclasses import replace
from functools import singledispatch

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.diffusion import posterior_mean
from bcdm.identity import identify
from bcdm.measurement import Measurement
from bcdm.operators import FourierMask, LinearOperator, PixelMask, Sense

__all__ = ["hold_out", "score_held_out"]

HELD = 0.1


@singledispatch
def hold_out(operator: LinearOperator, seed: int = 0) -> tuple[LinearOperator, Tensor] | None:
    """An operator that measures a tenth less, and what it leaves out: bool, like its mask.

    Of a real image a frequency goes with the opposite one: a fifth less there. None where single
    data cannot be left out (a blur measures everything at once).
    """
    return None


@hold_out.register
def _(operator: PixelMask, seed: int = 0) -> tuple[LinearOperator, Tensor]:
    return _leave_out(operator, _draw(operator.mask, seed))


@hold_out.register
def _(operator: FourierMask, seed: int = 0) -> tuple[LinearOperator, Tensor]:
    drawn = _draw(operator.mask, seed)
    # Of a real image the opposite frequency says the same; the mean brightness stays.
    drawn |= np.roll(drawn[::-1, ::-1], 1, (0, 1))
    drawn[0, 0] = False
    return _leave_out(operator, np.fft.fftshift(drawn) if operator.centered else drawn)


@hold_out.register
def _(operator: Sense, seed: int = 0) -> tuple[LinearOperator, Tensor]:
    drawn = _draw(operator.mask, seed)
    drawn[0, 0] = False
    return _leave_out(operator, np.fft.fftshift(drawn) if operator.centered else drawn)


def _draw(mask: Tensor, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(tuple(mask.shape[-2:])) < HELD


def _leave_out(
    operator: FourierMask | PixelMask | Sense, drawn: np.ndarray
) -> tuple[LinearOperator, Tensor]:
    mask = operator.mask
    held = mask.to(torch.bool) & torch.from_numpy(drawn.copy()).to(mask.device)
    return replace(operator, mask=torch.where(held, torch.zeros_like(mask), mask)), held


@torch.no_grad()
def score_held_out(model: Model, measurement: Measurement, seed: int = 0) -> Tensor | None:
    """How far data are from what the rest of the data predict by one network call.

    Mean square over the held-out data of each measurement, (B,), on the processor; None where none
    can be held out.
    """
    split = hold_out(measurement.operator, seed)
    if split is None:
        return None
    less, held = split[0], split[1].to(measurement.y.device)
    rest = Measurement(measurement.y * ~held, less, measurement.std)
    denoiser = model.method.condition(rest)
    mean = posterior_mean(denoiser, seed=seed, items=identify(rest))
    away = (measurement.y - measurement.operator.forward(mean)).abs().square()
    counted = held.expand_as(away).double()
    squares = (away.double() * counted).flatten(1).sum(1)
    return (squares / counted.flatten(1).sum(1).clamp_min(1)).cpu()
