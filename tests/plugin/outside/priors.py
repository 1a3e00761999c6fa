"""A prior of our own: smooth Gaussian images, whose denoiser is a filter."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bcdm.diffusion import VP, NoiseLevel, Schedule
from bcdm.tensors import ImageSpec

SIDE = 16


@dataclass(frozen=True)
class Smooth:
    """The mean of x_0 given x_t, for independent Fourier coefficients of falling variance."""

    schedule: Schedule
    image: ImageSpec

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        alpha, sigma = (part.to(x_t).reshape(-1, 1, 1, 1) for part in level)
        power = find_power().to(x_t)
        keep = alpha * power / (alpha**2 * power + sigma**2)
        return torch.fft.ifft2(keep * torch.fft.fft2(x_t)).real


def find_power() -> Tensor:
    """The variance of each frequency; that of a pixel is .1."""
    frequency = torch.fft.fftfreq(SIDE)
    power = 1 / (0.01 + frequency[:, None] ** 2 + frequency**2) ** 2
    return 0.1 * power / power.mean()


def make_smooth() -> Smooth:
    return Smooth(VP(), ImageSpec((1, SIDE, SIDE)))
