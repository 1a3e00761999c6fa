"""Several measurements bound, one image asked for: every method refuses, none stretches."""

from collections.abc import Callable

import pytest
import torch

from bcdm.diffusion import VP, Denoiser, DPMSolver, posterior_mean, sample
from bcdm.errors import ShapeError
from bcdm.measurement import Measurement
from bcdm.methods import (
    DDRM,
    DMPS,
    DPS,
    MMPS,
    BoundDenoiser,
    Denoising,
    DiffPIR,
    ExactDenoiser,
    GaussianMixture,
    Method,
    PiGDM,
    PostConditioned,
)
from bcdm.operators import Identity

SHAPE = (1, 2, 4)
METHODS = (DDRM, DMPS, DPS, MMPS, Denoising, DiffPIR, PiGDM, PostConditioned)


def make_prior() -> ExactDenoiser:
    mixture = GaussianMixture(
        torch.zeros(1).double(), torch.zeros(1, 8).double(), torch.eye(8)[None].double(), SHAPE
    )
    return ExactDenoiser(mixture, VP())


def measure(count: int) -> Measurement:
    images = make_prior().prior.sample(count, seed=1)
    return Measurement.simulate(images, Identity(), 0.3, seed=2)


class Stretched:
    """A method of somebody who did not think of batches."""

    def __init__(self, prior: Denoiser) -> None:
        self.prior = prior

    def condition(self, measurement: Measurement) -> Denoiser:
        return BoundDenoiser(self.prior, lambda x, level: self.prior(x, level) + measurement.y)


@pytest.mark.parametrize("build", [*METHODS, Stretched])
def test_one_image_of_three_measurements_is_refused(build: Callable[[Denoiser], Method]) -> None:
    bound = build(make_prior()).condition(measure(3))
    sampler = None if build is DDRM else DPMSolver()
    with pytest.raises(ShapeError, match=r"one (sample )?of each at a time"):
        sample(bound, sampler, steps=3, progress=False)
    if build is not Stretched:
        with pytest.raises(ShapeError, match="holds 2 images"):
            sample(bound, sampler, steps=3, indices=range(2), progress=False)


@pytest.mark.parametrize("build", METHODS)
@pytest.mark.parametrize("measured", [1, 3])
def test_one_image_of_each_and_several_of_one(
    build: Callable[[Denoiser], Method], measured: int
) -> None:
    bound = build(make_prior()).condition(measure(measured))
    sampler = None if build is DDRM else DPMSolver()
    drawn = sample(bound, sampler, steps=3, indices=range(3), progress=False)
    assert drawn.shape == (3, *SHAPE)


def test_the_mean_by_one_call_is_checked_too() -> None:
    bound = MMPS(make_prior()).condition(measure(3))
    with pytest.raises(ShapeError, match="3 measurements are bound but x_t holds 1 images"):
        posterior_mean(bound)
    assert posterior_mean(bound, count=3).shape == (3, *SHAPE)
