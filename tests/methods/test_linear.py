"""The control has the moments of its posterior, and is what a network of zeros samples."""

import pytest
import torch

from bcdm.diffusion import DPMSolver, posterior_mean, sample
from bcdm.measurement import Measurement
from bcdm.methods import LinearGaussian
from bcdm.methods.view import Scales
from bcdm.operators import Dense, Sense
from bcdm.tensors import SeededNoise

SIDE, NOISE, COUNT = 6, 0.3, 4000
SCALES = [Scales(0.5), Scales(0.5, 2.0)]


def make_measurement() -> Measurement:
    seeded = torch.Generator().manual_seed(0)
    matrix = torch.randn(4, SIDE, generator=seeded, dtype=torch.float64)
    x = torch.randn(1, SIDE, generator=seeded, dtype=torch.float64)
    return Measurement.simulate(x, Dense(matrix, (SIDE,)), NOISE, seed=0)


def find_moments(measurement: Measurement, scales: Scales) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and covariance by the matrix written out."""
    operator = measurement.operator
    assert isinstance(operator, Dense)
    gram = operator.matrix.T @ operator.matrix
    values, vectors = torch.linalg.eigh(gram)
    values = values.clamp_min(0)
    s, more = scales.prior_std**2, scales.known_std**2
    prior = s + more * values / (values + NOISE**2 / s)
    covariance = (vectors / (1 / prior + values / NOISE**2)) @ vectors.T
    return covariance @ measurement.back_projection[0] / NOISE**2, covariance


@pytest.mark.parametrize("scales", SCALES)
def test_samples_have_the_moments_of_the_posterior(scales: Scales) -> None:
    measurement = make_measurement()
    mean, covariance = find_moments(measurement, scales)
    many = measurement.repeat(COUNT)
    drawn = LinearGaussian(scales).draw(many, SeededNoise(0, range(COUNT)))
    # In units of what is left, 4000 samples know a mean to .016, a variance to .022.
    white = torch.linalg.solve_triangular(
        torch.linalg.cholesky(covariance), (drawn - mean).T, upper=False
    )
    assert float(white.mean(1).abs().max()) < 0.06
    assert float((white @ white.T / COUNT - torch.eye(SIDE)).abs().max()) < 0.09


@pytest.mark.parametrize("scales", SCALES)
def test_a_sampler_of_its_denoiser_comes_to_the_same(scales: Scales) -> None:
    measurement = make_measurement()
    mean, covariance = find_moments(measurement, scales)
    denoiser = LinearGaussian(scales).condition(measurement)
    found = posterior_mean(denoiser)[0]
    assert float((found - mean).abs().max()) < 0.02  # a little of x_t is left in the first level
    drawn = sample(denoiser, DPMSolver(churn=1.0), steps=40, indices=range(1500), progress=False)
    away = (drawn - mean).square().mean(0)
    assert away.tolist() == pytest.approx(covariance.diagonal().tolist(), rel=0.15)


def test_a_sample_depends_on_its_own_noise_alone() -> None:
    measurement = make_measurement()
    control = LinearGaussian(Scales(0.5))
    both = control.draw(measurement.repeat(2), SeededNoise(0, [0, 0], ["a", "b"]))
    alone = control.draw(measurement, SeededNoise(0, [0], ["b"]))
    assert both[1].tolist() == pytest.approx(alone[0].tolist())


def test_complex_images_have_both_parts() -> None:
    """Everything is measured by one coil of unit sensitivity, so that the moments are known."""
    operator = Sense(torch.ones(1, 16, 16, dtype=torch.complex64), torch.ones(16, 16).bool())
    x = torch.zeros(1, 1, 16, 16, dtype=torch.complex64)
    measurement = Measurement.simulate(x, operator, 0.1, seed=0)
    mean = measurement.estimate_linearly(0.15)[0]
    drawn = LinearGaussian(Scales(0.15)).draw(measurement.repeat(200), SeededNoise(0, range(200)))
    left = (0.15**-2 + 0.1**-2) ** -1
    away = drawn - mean
    assert float(away.real.square().mean()) == pytest.approx(left, rel=0.03)
    assert float(away.imag.square().mean()) == pytest.approx(left, rel=0.03)
