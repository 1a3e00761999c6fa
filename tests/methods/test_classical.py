"""Classical estimates against dense solutions."""

import pytest
import torch
from torch import Tensor

from bcdm.diffusion import posterior_mean
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import LeastSquares, TotalVariation
from bcdm.operators import (
    BlockMean,
    FourierMask,
    Identity,
    LinearOperator,
    PixelMask,
    to_matrix,
)

SHAPE = (1, 6, 8)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("operator", [BlockMean((2, 2)), Identity()], ids=["block", "identity"])
def test_linear_estimates_are_dense_solutions(operator: LinearOperator) -> None:
    measurement = Measurement.simulate(normal(2, *SHAPE, seed=0), operator, 0.1, seed=1)
    matrix = to_matrix(operator, SHAPE, torch.float64)
    y = measurement.y.flatten(1)
    least = posterior_mean(LeastSquares().condition(measurement), count=2).flatten(1)
    torch.testing.assert_close(least, y @ torch.linalg.pinv(matrix).mT, rtol=1e-4, atol=1e-5)
    wiener = measurement.estimate_linearly(0.5).flatten(1)
    gain = torch.linalg.solve(matrix.mT @ matrix + 0.04 * torch.eye(48), matrix.mT)
    torch.testing.assert_close(wiener, y @ gain.mT)


def test_least_squares_in_float32_leaves_the_unmeasured_alone() -> None:
    """Rounding of A^T y, over the weak prior, would be larger than the image."""
    x = normal(2, 1, 16, 16, seed=0)
    mask = torch.rand(16, 16, generator=torch.Generator().manual_seed(1)) < 0.3
    for operator in (FourierMask(mask, real=True), BlockMean((4, 4))):
        exact = Measurement.simulate(x, operator, 0.02, seed=1)
        wanted = LeastSquares().condition(exact).estimate
        y = exact.y.to(torch.complex64 if exact.y.is_complex() else torch.float32)
        found = LeastSquares().condition(Measurement(y, operator, 0.02)).estimate
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-4)


def objective(x: Tensor, measurement: Measurement, weight: float) -> float:
    data = measurement.residual(x).square().sum() / 2
    down, right = torch.zeros_like(x), torch.zeros_like(x)
    down[..., :-1, :], right[..., :-1] = x.diff(dim=-2), x.diff(dim=-1)
    return float(data + weight * (down.square() + right.square()).sqrt().sum())


def test_total_variation_is_a_minimum() -> None:
    """No small move, flat or rough, lowers the objective; a flat hole is filled flatly."""
    pytest.importorskip("skimage")
    x = torch.zeros(1, *SHAPE).double()
    x[..., 4:] = 1.0
    mask = torch.ones(6, 8, dtype=torch.bool)
    mask[2:4, 1:3] = False
    measurement = Measurement.simulate(x, PixelMask(mask), 0.05, seed=0)
    estimate = TotalVariation(10.0, iterations=300).condition(measurement).estimate
    found = objective(estimate, measurement, 10.0)
    for seed in range(20):
        for size in (1e-2, 1e-1):
            moved = estimate + size * normal(1, *SHAPE, seed=seed)
            assert objective(moved, measurement, 10.0) > found
            lifted = estimate.clone()
            lifted[..., :4] += size * (1 if seed % 2 else -1)
            assert objective(lifted, measurement, 10.0) > found
    assert float((estimate - x).abs()[..., 2:4, 1:3].max()) < 0.1


def test_errors() -> None:
    for settings in ((0.0,), (-1.0,), (1.0, 0), (1.0, 1, 0.0)):
        with pytest.raises(InputError, match="must be > 0"):
            TotalVariation(*settings)
    assert TotalVariation(1.0) == TotalVariation(1.0, 100, 0.1)
    assert LeastSquares() == LeastSquares(100.0)
    measurement = Measurement(torch.ones(1, 1, 4, 4, dtype=torch.complex64), Identity(), 0.1)
    pytest.importorskip("skimage")
    with pytest.raises(InputError, match="real images"):
        TotalVariation(1.0).condition(measurement)


def test_total_variation_is_per_measurement() -> None:
    """Each image is smoothed by its own noise level, as if it were alone."""
    pytest.importorskip("skimage")
    x = torch.zeros(2, 2, 6, 8).double()
    x[..., 4:] = 1.0
    both = Measurement.simulate(x, Identity(), torch.tensor([0.05, 0.2]).double(), seed=0)
    found = TotalVariation(10.0, iterations=20).condition(both).estimate
    for k in range(2):
        alone = TotalVariation(10.0, iterations=20).condition(both.select(torch.tensor([k])))
        torch.testing.assert_close(alone.estimate, found[k : k + 1])


def test_an_estimate_serves_as_many_samples_as_are_asked() -> None:
    given = LeastSquares().condition(Measurement(normal(1, *SHAPE, seed=0), Identity(), 0.1))
    level = given.schedule.level(torch.zeros(1).double())
    out = given(normal(3, *SHAPE, seed=1), level)
    assert torch.equal(out, given.estimate.expand(3, *SHAPE))
    assert given.image.shape == SHAPE
