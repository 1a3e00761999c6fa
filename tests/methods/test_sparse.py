import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.diffusion import VP
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import LeastSquares, RootSumOfSquares, SparseGradients, SparseWavelets
from bcdm.operators import Identity, Sense
from bcdm.problems.coils import draw_birdcage

SIZE = (24, 32)
LEVEL = VP().level(torch.tensor([0.0]).double())


def make_image(count: int = 1) -> Tensor:
    """Discs with a phase: sparse in wavelets and in gradients."""
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]]
    discs = [np.hypot(rows - 12, columns - 14 - k) < 7 + k for k in range(count)]
    phase = np.exp(1j * 0.05 * (rows + columns))
    return torch.from_numpy(np.stack(discs)[:, None] * phase).to(torch.complex64)


def measure(x: Tensor, std: float = 0.05, step: int = 3, *, full: bool = False) -> Measurement:
    mask = torch.zeros(SIZE, dtype=torch.bool)
    mask[:, :: 1 if full else step] = True
    mask[:, 13:19] = True
    maps = draw_birdcage(SIZE, 4, rng=np.random.default_rng(0))
    return Measurement.simulate(x, Sense(maps, mask), std, seed=0)


def find(method, measurement: Measurement) -> Tensor:
    denoiser = method.condition(measurement)
    return denoiser(torch.zeros(denoiser.image.shape, dtype=torch.complex64)[None], LEVEL)


def find_error(x: Tensor, truth: Tensor) -> float:
    return float((x - truth).abs().square().mean().sqrt())


def test_root_sum_of_squares_of_everything_is_the_magnitude() -> None:
    x = make_image()
    found = find(RootSumOfSquares(), measure(x, 1e-5, full=True))
    torch.testing.assert_close(found, x.abs().to(found), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("kind", "more"), [(SparseWavelets, 600), (SparseGradients, 80)])
def test_as_many_iterations_as_by_default_are_enough(kind, more: int) -> None:
    """Four times as many change the image by little beside its error."""
    x = make_image()
    measurement = measure(x, 0.02, step=4)
    found, better = (find(kind(10.0, *given), measurement) for given in ((), (more,)))
    assert find_error(found, better) < 0.25 * find_error(better, x)


@pytest.mark.parametrize("kind", [SparseWavelets, SparseGradients])
def test_hardly_any_weight_leaves_least_squares(kind) -> None:
    """Two independent solvers, sigpy's and ours, find the same image from complete data."""
    measurement = measure(make_image(), full=True)
    found = find(kind(1e-4), measurement)
    torch.testing.assert_close(found, find(LeastSquares(), measurement), atol=1e-3, rtol=0)


@pytest.mark.parametrize("kind", [SparseWavelets, SparseGradients])
def test_sparsity_helps_where_data_are_missing(kind) -> None:
    x = make_image()
    measurement = measure(x, 0.15)
    best = min(find_error(find(LeastSquares(std), measurement), x) for std in (0.2, 0.5, 1.0))
    assert find_error(find(kind(5.0), measurement), x) < 0.8 * best


@pytest.mark.parametrize("kind", [SparseWavelets, SparseGradients])
def test_a_batch_is_solved_as_its_measurements_are(kind) -> None:
    x = make_image(2)
    both = measure(x)
    alone = both.select(torch.tensor([1]))
    whole = kind(3.0).condition(both).estimate
    torch.testing.assert_close(whole[1:], kind(3.0).condition(alone).estimate)
    torch.testing.assert_close(whole, kind(3.0).condition(both).estimate, rtol=0, atol=0)


def test_refuses() -> None:
    single = Measurement(torch.zeros(1, 1, 8, 8), Identity(), 0.1)
    for method in (RootSumOfSquares(), SparseWavelets(1.0), SparseGradients(1.0)):
        with pytest.raises(InputError, match="several coils"):
            method.condition(single)
    for kind in (SparseWavelets, SparseGradients):
        with pytest.raises(InputError, match="weight is > 0"):
            kind(0.0)
