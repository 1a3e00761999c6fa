"""A network of zeros leaves the linear Gaussian posterior."""

import torch
from experiments.zeros import silence

import bcdm
from bcdm.diffusion import posterior_mean


def test_nothing_is_left_but_the_linear_estimate() -> None:
    model = silence(bcdm.load("ixi64-mri8x"))
    image = torch.rand(1, 1, 64, 64, generator=torch.Generator().manual_seed(0)) - 0.5
    measurement = bcdm.Measurement.simulate(image, model.operator, model.noise_std, seed=0)
    linear = model.method.parameterisation.estimate_linearly(measurement)
    mean = posterior_mean(model.condition(measurement))
    # The first level has a little of x_t left in it.
    assert float((mean - linear).abs().max()) < 0.02
