"""The phase of MR images and their shading, smooth fields drawn from seeds."""

import numpy as np
import torch
from torch import Tensor

__all__ = ["draw_local_phase", "draw_phase", "draw_shading"]

# From images with true phase: ramps of up to 1.7 turns over the field of view; after them, phases a
# quarter of the field of view apart differ by .3 to 1.9 radian.
_TURNS = 1.0
_ROUGHNESS = (0.1, 3.0)
_REACH = (0.06, 0.3)
# Places where the field is bent, in parts of the field of view, and by how many radian.
_BENT = (0.02, 0.1)
_BEND = 5.0
# The rim of the object that may have a phase of its own: pixels that say how near it is.
_RIM = 5.0


def draw_phase(size: tuple[int, int], *, rng: np.random.Generator) -> Tensor:
    """A phase in radian, float32 (H, W): a constant, a ramp and a smooth random field.

    The ramp is where the middle of an echo is missed, the field what the magnet and the tissue do.
    Its standard deviation is drawn log-uniformly from .1 to 3, its reach from 6 to 30 % of the
    field of view.
    """
    rows, columns = ((np.arange(side) + 0.5) / side - 0.5 for side in size)
    down, right = 2 * np.pi * _TURNS * rng.standard_normal(2)
    strength, reach = (np.exp(rng.uniform(*np.log(bounds))) for bounds in (_ROUGHNESS, _REACH))
    field = strength * _draw_field(size, reach, rng)
    phase = rng.uniform(-np.pi, np.pi) + down * rows[:, None] + right * columns + field
    return torch.from_numpy(phase.astype(np.float32))


def draw_local_phase(magnitude: Tensor, *, rng: np.random.Generator) -> Tensor:
    """What a real phase has beside a smooth one, in radian, float32 (H, W); half of draws: nothing.

    Air in the skull bends the field around it, so that the phase turns by several radian within a
    few pixels. Fat below the skin has another frequency than water, so that the phase jumps there.

    Args:
        magnitude: Of the image (H, W): says where its rim is.
        rng: Of the draws.
    """
    size = (magnitude.shape[0], magnitude.shape[1])
    phase = np.zeros(size)
    if rng.random() < 0.5:
        rows, columns = ((np.arange(side) + 0.5) / side for side in size)
        for _ in range(rng.integers(1, 5)):
            down, right = rng.uniform(0.1, 0.9, 2)
            # Narrower than two pixels it would be noise.
            reach = max(np.exp(rng.uniform(*np.log(_BENT))), 2 / min(size))
            away = ((rows[:, None] - down) ** 2 + (columns - right) ** 2) / reach**2
            phase += _BEND * rng.standard_normal() * np.exp(-away / 2)
        if rng.random() < 0.5:
            values = magnitude.double().numpy()
            filled = _smooth(values, 2.0) > 0.1 * values.max()
            depth = _smooth(filled.astype(float), _RIM)
            # Half of an edge's neighbourhood is outside: deep inside it is 1.
            phase += rng.uniform(-np.pi, np.pi) * (depth < rng.uniform(0.6, 0.9))
    return torch.from_numpy(phase.astype(np.float32))


def _smooth(values: np.ndarray, reach: float) -> np.ndarray:
    """Averaged by a Gaussian of `reach` pixels."""
    waves = [np.fft.fftfreq(side) for side in values.shape]
    decay = np.exp(-2 * (np.pi * reach) ** 2 * (waves[0][:, None] ** 2 + waves[1] ** 2))
    averaged: np.ndarray = np.fft.ifft2(np.fft.fft2(values) * decay).real
    return averaged


def draw_shading(size: tuple[int, int], strength: float, *, rng: np.random.Generator) -> Tensor:
    """A smooth factor of the magnitude, float32 (H, W), at most 1: coils see some places better.

    Args:
        size: Of the image.
        strength: Standard deviation of its logarithm, drawn uniformly from 0 to this.
        rng: Of the draws.
    """
    field = rng.uniform(0, strength) * _draw_field(size, rng.uniform(0.2, 0.5), rng)
    return torch.from_numpy(np.exp(field - field.max()).astype(np.float32))


def _draw_field(size: tuple[int, int], reach: float, rng: np.random.Generator) -> np.ndarray:
    """A Gaussian field of unit variance, smoothed over a fraction `reach` of the field of view."""
    # Drawn on twice the field of view, so that opposite edges know nothing of each other.
    noise = rng.standard_normal((2 * size[0], 2 * size[1]))
    spectrum = np.fft.fft2(noise)
    waves = [np.fft.fftfreq(2 * side, 1 / side) for side in size]  # per field of view
    decay = np.exp(-2 * (np.pi * reach) ** 2 * (waves[0][:, None] ** 2 + waves[1] ** 2))
    smooth: np.ndarray = np.fft.ifft2(spectrum * decay).real
    scale = np.sqrt((decay**2).mean())
    return smooth[: size[0], : size[1]] / scale
