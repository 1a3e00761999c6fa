"""Distances between sample sets against scipy and closed forms."""

import math

import pytest
import torch
from scipy import linalg, stats
from torch import Tensor

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.evaluation import frechet_distance, sliced_wasserstein, wasserstein_1d


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 5), (7, 3), (1, 20), (200, 333)])
def test_wasserstein_equals_scipy(n: int, m: int) -> None:
    a, b = normal(n, seed=1), 2 * normal(m, seed=2) + 0.5
    expected = stats.wasserstein_distance(a.numpy(), b.numpy())
    assert wasserstein_1d(a, b).item() == pytest.approx(expected, abs=1e-12)


def test_wasserstein_with_repeated_values() -> None:
    a, b = torch.tensor([0.0, 0.0, 1.0, 1.0]), torch.tensor([0.0, 1.0, 1.0])
    assert wasserstein_1d(a, b).item() == pytest.approx(1 / 6)
    assert wasserstein_1d(a, a[[0, 2]]).item() == pytest.approx(0, abs=1e-7)


def test_wasserstein_of_a_shift_and_a_batch() -> None:
    a = normal(3, 50)
    shift = torch.tensor([[0.0], [-1.5], [40.0]], dtype=torch.float64)
    torch.testing.assert_close(wasserstein_1d(a, a + shift), shift.abs().squeeze(1))
    b = normal(3, 20, seed=9)
    alone = torch.stack([wasserstein_1d(x, y) for x, y in zip(a, b, strict=True)])
    torch.testing.assert_close(wasserstein_1d(a, b), alone)


def test_wasserstein_of_two_gaussians() -> None:
    # Equal means, scales 1 and 3: W1 = 2 E|z|; quantile midpoints leave an error below 1 %.
    grid = (torch.arange(20000, dtype=torch.float64) + 0.5) / 20000
    z = torch.special.ndtri(grid)
    assert wasserstein_1d(z, 3 * z[::2]).item() == pytest.approx(
        2 * math.sqrt(2 / math.pi), rel=1e-2
    )


@pytest.mark.parametrize("dimension", [2, 5, 64])
def test_sliced_distance_of_a_shift(dimension: int) -> None:
    a, shift = normal(40, dimension), normal(dimension, seed=4)
    ratio = math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2))
    expected = shift.norm().item() * ratio / math.sqrt(math.pi)
    value = sliced_wasserstein(a, a + shift, directions=20000).item()
    # |u . v| has a relative spread below 0.8, hence 4 x 0.8 / sqrt(20000) = 2.3 %.
    assert value == pytest.approx(expected, rel=0.023)


def test_sliced_distance_in_one_dimension_is_the_distance() -> None:
    a, b = normal(30, 1), 2 * normal(21, 1, seed=3)
    expected = wasserstein_1d(a[:, 0], b[:, 0])
    torch.testing.assert_close(sliced_wasserstein(a, b, directions=7), expected)


def test_sliced_distance_repeats_by_seed_and_leaves_the_global_state() -> None:
    a, b = normal(30, 4).float(), normal(25, 4, seed=3).float()
    state = torch.get_rng_state()
    first, again, other = (sliced_wasserstein(a, b, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(state, torch.get_rng_state())
    assert first == again
    assert first != other
    assert first.dtype == torch.float32


def test_frechet_distance_of_fitted_gaussians() -> None:
    a = normal(300, 6) @ normal(6, 6, seed=1) + 1
    b = normal(200, 6, seed=2) @ normal(6, 6, seed=3)
    ca, cb = torch.cov(a.T), torch.cov(b.T)
    root = linalg.sqrtm((ca @ cb).numpy()).real.trace()
    expected = (a.mean(0) - b.mean(0)).square().sum() + (ca + cb).trace() - 2 * root
    assert frechet_distance(a, b).item() == pytest.approx(expected.item(), rel=1e-9)
    assert frechet_distance(b, a).item() == pytest.approx(expected.item(), rel=1e-9)
    assert frechet_distance(a, a).item() == pytest.approx(0, abs=1e-9)


def test_frechet_distance_of_scaled_and_shifted_features() -> None:
    # Commuting covariances: |shift|^2 + sum (std_a - std_b)^2, with exactly white samples.
    white = torch.linalg.qr(normal(50, 4) - normal(50, 4).mean(0)).Q
    white = (white - white.mean(0)) * math.sqrt(49)
    white = white @ torch.linalg.inv(torch.linalg.cholesky(torch.cov(white.T))).T
    scale = torch.tensor([1.0, 2.0, 0.5, 3.0], dtype=torch.float64)
    shift = torch.tensor([0.0, 1.0, -2.0, 0.5], dtype=torch.float64)
    expected = shift.square().sum() + (scale - 1).square().sum()
    torch.testing.assert_close(frechet_distance(white, white * scale + shift), expected)


def test_frechet_distance_with_fewer_samples_than_dimensions() -> None:
    a = normal(10, 40)
    assert frechet_distance(a, a).item() == pytest.approx(0, abs=1e-10)
    shift = normal(40, seed=7)
    torch.testing.assert_close(frechet_distance(a, a + shift), shift.square().sum())
    # tr (Ca Cb)^1/2 from the two centred data matrices, which needs no covariance root.
    b = normal(60, 40, seed=8)
    x, y = (a - a.mean(0)) / 3, (b - b.mean(0)) / math.sqrt(59)
    cross = torch.linalg.svdvals(x @ y.T).sum()
    expected = (a.mean(0) - b.mean(0)).square().sum() + x.square().sum() + y.square().sum()
    torch.testing.assert_close(frechet_distance(a, b), expected - 2 * cross, rtol=1e-9, atol=0)


def test_bad_input_is_refused() -> None:
    a = normal(5, 3)
    with pytest.raises(ShapeError, match="leading axes"):
        wasserstein_1d(a, normal(4, 3))
    with pytest.raises(ShapeError, match="flatten"):
        sliced_wasserstein(a, normal(5, 2))
    with pytest.raises(ShapeError, match="flatten"):
        frechet_distance(normal(5, 3, 2), normal(5, 3, 2))
    with pytest.raises(ShapeError, match="two feature vectors"):
        frechet_distance(a, a[:1])
    with pytest.raises(DtypeError, match="one type"):
        wasserstein_1d(a, a.float())
    with pytest.raises(InputError, match="directions"):
        sliced_wasserstein(a, a, directions=0)
