"""Several measurements bound, one image asked for: every method refuses, none stretches."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bcdm.diffusion import (
    DDIM,
    VP,
    Ancestral,
    Denoiser,
    DPMSolver,
    Heun,
    NoiseLevel,
    Sampler,
    Step,
    posterior_mean,
    sample,
)
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
    LeastSquares,
    LinearGaussian,
    Method,
    PiGDM,
    PostConditioned,
    Renewal,
    TotalVariation,
)
from bcdm.methods.view import Scales
from bcdm.operators import Identity

SHAPE = (1, 2, 4)


def least_squares(prior: Denoiser) -> Method:
    return LeastSquares()


def total_variation(prior: Denoiser) -> Method:
    return TotalVariation(0.1, iterations=2)


def bayesian(prior: Denoiser) -> Method:
    return LinearGaussian(Scales(1.0))


METHODS = (
    *(DDRM, DMPS, DPS, MMPS, Denoising, DiffPIR, PiGDM, PostConditioned),
    *(least_squares, total_variation, bayesian),
)


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


@pytest.mark.parametrize("build", METHODS[:8])  # the others have no prior
def test_data_of_other_images_are_refused(build: Callable[[Denoiser], Method]) -> None:
    """A grey measurement would count once for each channel of a prior in colour."""
    grey = Measurement(torch.zeros(1, 1, *SHAPE[1:]), Identity(), 0.3)
    mixture = GaussianMixture.gaussian(torch.zeros(24), torch.eye(24), (3, *SHAPE[1:]))
    with pytest.raises(ShapeError, match=r"the prior is over images \(3, 2, 4\)"):
        build(ExactDenoiser(mixture, VP())).condition(grey)


def test_the_mean_by_one_call_is_checked_too() -> None:
    bound = MMPS(make_prior()).condition(measure(3))
    with pytest.raises(ShapeError, match="3 measurements are bound but x_t holds 1 images"):
        posterior_mean(bound)
    assert posterior_mean(bound, count=3).shape == (3, *SHAPE)


@pytest.mark.parametrize("build", METHODS)
@pytest.mark.parametrize("count", [1, 2])
def test_a_direct_call_is_refused_in_the_same_words(
    build: Callable[[Denoiser], Method], count: int
) -> None:
    bound = build(make_prior()).condition(measure(3))
    x_t, level = torch.zeros(count, *SHAPE).double(), VP().level(torch.zeros(1).double())
    with pytest.raises(ShapeError, match=f"3 measurements are bound but x_t holds {count} images"):
        bound(x_t, level)


@pytest.mark.parametrize("sampler", [DDIM(), DPMSolver(), Heun(), Ancestral(), Renewal()])
@pytest.mark.parametrize(
    "change",
    [lambda x: x[:1], lambda x: x.mean(0), lambda x: x.repeat(2, 1, 1, 1), lambda x: x[..., :1]],
    ids=["one-of-all", "no-batch", "more", "cut"],
)
def test_the_loop_refuses_means_of_another_shape(
    change: Callable[[Tensor], Tensor], sampler: Sampler
) -> None:
    prior, calls = make_prior(), []

    def mean(x_t: Tensor, level: NoiseLevel) -> Tensor:
        calls.append(level)
        return change(prior(x_t, level))

    foreign = BoundDenoiser(prior, mean)
    with pytest.raises(ShapeError, match="the denoiser made"):
        sample(foreign, sampler, steps=4, indices=range(3), progress=False)
    assert len(calls) == 1, "refused at its first call, not after the chain"
    with pytest.raises(ShapeError, match="the denoiser made"):
        posterior_mean(foreign, count=3)


def test_samplers_see_what_else_a_denoiser_has() -> None:
    measured = measure(1)

    class Asking(DDIM):
        def advance(self, denoiser: Denoiser, x_t: Tensor, step: Step) -> tuple[Tensor, None]:
            assert isinstance(denoiser, Denoiser)
            assert denoiser.measurement is measured  # type: ignore[attr-defined]
            return super().advance(denoiser, x_t, step)

    bound = MMPS(make_prior()).condition(measured)
    assert sample(bound, Asking(), steps=3, progress=False).shape == (1, *SHAPE)
