"""Measurements: noise, whitening, batches, and one-line errors."""

import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.evaluation import chi_square
from bcdm.measurement import Measurement
from bcdm.methods import GaussianMixture
from bcdm.operators import (
    BlockMean,
    CircularBlur,
    Dense,
    FourierMask,
    Identity,
    LinearOperator,
    PixelMask,
    to_matrix,
)

SHAPE = (1, 4, 4)
MASK = torch.arange(16).reshape(4, 4) % 3 != 0


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def covariance(size: int, dtype: torch.dtype = torch.float64) -> Tensor:
    root = normal(size, size, seed=1, dtype=dtype) / size**0.5
    return root @ root.mH + 0.1 * torch.eye(size, dtype=dtype)


OPERATORS: dict[str, LinearOperator] = {
    "identity": Identity(),
    "mask": PixelMask(MASK),
    "block": BlockMean((2, 2), "mean"),
    "blur": CircularBlur(normal(3, 3, seed=2), (4, 4)),
    "dense": Dense(normal(5, 16, seed=3), SHAPE),
    "mri": FourierMask(MASK, real=True),
}
EVERY = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS.keys())


@EVERY
def test_residual_of_the_truth_is_white(operator: LinearOperator) -> None:
    x = normal(400, *SHAPE, seed=4)
    measurement = Measurement.simulate(x, operator, 0.3, seed=5)
    residual = measurement.residual(x)
    squared = residual.abs().square().flatten(1).sum(1)
    each = float(squared.mean()) / measurement.degrees_of_freedom
    # The mean of 400 chi-squares per degree of freedom, four standard errors.
    assert abs(each - 1) < 4 * (2 / (400 * measurement.degrees_of_freedom)) ** 0.5
    result = chi_square(residual, 1.0, mask=measurement.data_mask)
    assert int(result.dof[0]) == measurement.degrees_of_freedom


@EVERY
@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_covariance_is_whitened_exactly(operator: LinearOperator, kind: str) -> None:
    """The whitened posterior is the one written out with the covariance itself."""
    prior = GaussianMixture.gaussian(normal(16, seed=6), covariance(16), SHAPE)
    y = operator.forward(prior.sample(1, seed=7))
    keep = torch.ones_like(y.real, dtype=torch.bool)
    found = operator.find_data(y)
    if found is not None:
        keep = found.expand(y.shape)
    taken = keep[0].flatten()
    if kind == "diagonal":
        variance = 0.05 + torch.rand(y.shape, generator=torch.Generator().manual_seed(8)).double()
        noise = variance.flatten()[taken].diag()
        white = Measurement.with_covariance(y, operator, variance=variance[0])
    else:
        noise = covariance(int(taken.sum()))
        white = Measurement.with_covariance(y, operator, covariance=noise)
    A = to_matrix(operator, SHAPE, torch.float64)
    data = y.flatten()[taken]
    if y.is_complex():
        taken = taken.repeat(2)
        data, noise = torch.cat([data.real, data.imag]), torch.block_diag(noise, noise)
    A = A[taken]
    precision = torch.linalg.inv(prior.covariance) + A.mT @ torch.linalg.solve(noise, A)
    right = torch.linalg.solve(prior.covariance, prior.mean.flatten())
    right = right + A.mT @ torch.linalg.solve(noise, data)
    expected = torch.linalg.solve(precision, right)
    got = prior.condition(white).mean.flatten()
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
    # What samplers use of it: the back projection and the solve.
    solved = white.operator.solve(1.0, 1.0, white.back_projection).flatten()
    direct = torch.linalg.solve(
        torch.eye(16).double() + A.mT @ torch.linalg.solve(noise, A),
        A.mT @ torch.linalg.solve(noise, data),
    )
    torch.testing.assert_close(solved, direct, rtol=1e-5, atol=1e-5)


@EVERY
def test_whitened_batches_can_be_selected(operator: LinearOperator) -> None:
    """One variance per entry and measurement travels with its measurement."""
    x = normal(2, *SHAPE, seed=1)
    y = operator.forward(x)
    variance = 0.05 + torch.rand(y.shape, generator=torch.Generator().manual_seed(8)).double()
    white = Measurement.with_covariance(y, operator, variance=variance)
    for rows in ([1, 0], [1], [0, 0, 1, 1]):
        chosen = white.select(torch.tensor(rows))
        alone = Measurement.with_covariance(y[rows], operator, variance=variance[rows])
        torch.testing.assert_close(chosen.back_projection, alone.back_projection)
    torch.testing.assert_close(
        white.repeat(2).back_projection, white.back_projection.repeat_interleave(2, 0)
    )


def test_complex_covariance() -> None:
    """For complex data the covariance is Hermitian and half of E[n n^H]."""
    sigma = covariance(16, torch.complex128)
    L = torch.linalg.cholesky(sigma)
    unit = normal(20000, 16, seed=1, dtype=torch.complex128) * 2**0.5  # unit variance each part
    y = (unit @ L.mT).reshape(-1, *SHAPE)
    white = Measurement.with_covariance(y, Identity(), covariance=sigma)
    torch.testing.assert_close(white.y, unit, rtol=1e-8, atol=1e-8)


def test_repeat_and_select() -> None:
    x = normal(3, *SHAPE, seed=1)
    mask = torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(0)) < 0.5
    std = torch.tensor([0.1, 0.2, 0.3])
    measurement = Measurement.simulate(x, PixelMask(mask), std, seed=0)
    twice = measurement.repeat(2)
    assert torch.equal(twice.y, measurement.y.repeat_interleave(2, 0))
    assert torch.equal(twice.std, std.double().repeat_interleave(2))
    torch.testing.assert_close(
        twice.back_projection, measurement.back_projection.repeat_interleave(2, 0)
    )
    moved = measurement.to("cpu")
    assert torch.equal(moved.y, measurement.y)
    assert torch.equal(moved.std, measurement.std)
    assert torch.equal(moved.back_projection, measurement.back_projection)
    pair = Measurement.simulate(x[:2], Identity(), std[:2], seed=0)
    assert pair.select(torch.tensor([1])).std.tolist() == std[1:2].double().tolist()
    alone = Measurement.simulate(x[1:2], PixelMask(mask[1:2]), 0.2, seed=0, indices=[1])
    torch.testing.assert_close(alone.y, measurement.y[1:2])


@pytest.mark.parametrize("count", [1, 3])
def test_degrees_of_freedom_are_those_of_one_measurement(count: int) -> None:
    x = normal(count, *SHAPE, seed=1)
    table = {"identity": 16, "mask": 10, "block": 4, "blur": 16, "dense": 5, "mri": 20}
    for name, expected in table.items():
        measurement = Measurement.simulate(x, OPERATORS[name], 0.3, seed=1)
        assert measurement.degrees_of_freedom == expected
        # In full precision, whatever number it was given as.
        assert measurement.std.tolist() == [0.3]
    uneven = PixelMask(torch.arange(32).reshape(2, 1, 4, 4) < 20)
    with pytest.raises(InputError, match="differ in size"):
        _ = Measurement(torch.zeros(2, *SHAPE), uneven, 0.1).degrees_of_freedom


@EVERY
def test_every_measurement_has_its_own_noise(operator: LinearOperator) -> None:
    """Of the size stated for it; a function of the seed and of the image's index."""
    x, std = normal(40, *SHAPE, seed=1), torch.linspace(0.1, 1.0, 40).double()
    measurement = Measurement.simulate(x, operator, std, seed=3)
    noise = measurement.residual(x).flatten(1)
    squared = noise.abs().square().sum(1)
    each = squared / measurement.degrees_of_freedom
    for rows in (each[:20], each[20:]):
        error = (2 / (20 * measurement.degrees_of_freedom)) ** 0.5
        assert abs(float(rows.mean()) - 1) < 4 * error
    alike = (noise @ noise.mH).real / (squared[:, None] * squared).sqrt()
    # 780 pairs of unrelated vectors; the fewest entries are four.
    assert float((alike - torch.eye(40)).abs().mean()) < 0.5
    order = [7, 30, 2]
    again = Measurement.simulate(x[order], operator, std[order], seed=3, indices=order)
    torch.testing.assert_close(again.y, measurement.y[order])
    other = Measurement.simulate(x, operator, std, seed=4)
    assert float((other.y - measurement.y).abs().max()) > 0.1


@pytest.mark.parametrize("known_std", [0.0, 3.0])
@pytest.mark.parametrize(("noise_std", "limit"), [(1e-2, 1e-4), (1e-3, 1e-3)])
def test_linear_estimates_hold_in_float32_where_eigenvalues_are_small(
    known_std: float, noise_std: float, limit: float
) -> None:
    """A blur that all but removes fine detail: without refinement, rounding is 20 times as much."""
    place = torch.arange(-4, 5).double() / 1.5
    kernel = torch.exp(-(place[:, None] ** 2 + place**2) / 2)
    blur = CircularBlur(kernel / kernel.sum(), (16, 16))
    x = 3 + normal(1, 1, 16, 16, seed=1)
    y = Measurement.simulate(x, blur, noise_std, seed=2).y.float()
    exact = Measurement(y.double(), blur, noise_std).estimate_linearly(0.7, known_std)
    found = Measurement(y, blur.to(torch.float32), noise_std).estimate_linearly(0.7, known_std)
    assert float((found - exact).abs().max()) < limit


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("noise", ["std", "variance", "covariance"])
def test_what_the_mask_leaves_out_may_be_anything(value: float, noise: str) -> None:
    mask = torch.tensor([True, False, True])
    y = torch.tensor([[1.0, value, 3.0]])
    if noise == "std":
        found = Measurement(y, PixelMask(mask), 0.1)
    elif noise == "variance":
        found = Measurement.with_covariance(y, PixelMask(mask), variance=torch.ones(3))
    else:
        found = Measurement.with_covariance(y, PixelMask(mask), covariance=torch.eye(2))
    torch.testing.assert_close(found.back_projection, torch.tensor([[1.0, 0.0, 3.0]]))
    with pytest.raises(InputError, match="1 non-finite values"):
        Measurement(torch.tensor([[value, 0.0, 3.0]]), PixelMask(mask), 0.1)


def bad(y: Tensor, operator: LinearOperator, std: float | Tensor = 0.1) -> Measurement:
    return Measurement(y, operator, std)


def whiten(**noise: Tensor) -> Measurement:
    return Measurement.with_covariance(torch.zeros(1, 3), Identity(), **noise)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: bad(torch.zeros(1, 1, 4, 5), PixelMask(MASK)), ShapeError, "mask"),
        (lambda: bad(torch.zeros(1, 1, 5, 4), CircularBlur(torch.ones(3, 3), (4, 4))),
         ShapeError, "build the operator for its size"),
        (lambda: bad(torch.zeros(4), Identity()), ShapeError, "batch axis"),
        (lambda: bad(torch.zeros(1, *SHAPE), Identity(), 0.0), InputError, "noise_std must be > 0"),
        (lambda: bad(torch.zeros(1, *SHAPE), Identity(), -1.0), InputError, "noise_std"),
        (lambda: bad(torch.zeros(1, *SHAPE), Identity(), float("nan")), InputError, "noise_std"),
        (lambda: bad(torch.zeros(2, *SHAPE), Identity(), torch.ones(3)), ShapeError, "noise_std"),
        (lambda: bad(torch.full((1, *SHAPE), torch.nan), Identity()), InputError, "16 non-finite"),
        (lambda: bad(torch.zeros(1, *SHAPE, dtype=torch.int64), Identity()), DtypeError, "float32"),
        (lambda: bad(torch.zeros(1, *SHAPE), CircularBlur(normal(3, 3, seed=0), (4, 4))),
         DtypeError, "operator.to"),
        (lambda: bad(torch.zeros(1, 5), Dense(normal(5, 16, seed=0), SHAPE)), DtypeError, "to"),
        (lambda: bad(torch.zeros(1, *SHAPE), FourierMask(MASK)), DtypeError, "complex k-space"),
        (lambda: FourierMask(MASK, real=True).forward(torch.zeros(1, *SHAPE, dtype=torch.cfloat)),
         DtypeError, "real=False"),
        (lambda: FourierMask(MASK).forward(torch.zeros(1, *SHAPE)), DtypeError, "real=True"),
        (lambda: BlockMean((3, 3)).forward(torch.zeros(1, *SHAPE)), ShapeError, "divisible"),
        (lambda: BlockMean((0, 1)), InputError, ">= 1"),
        (lambda: FourierMask(torch.ones(3)), InputError, "axes"),
        (lambda: Dense(torch.ones(2, 3), (2, 2)), ShapeError, "columns"),
        (lambda: whiten(variance=-torch.ones(3)), InputError, "> 0"),
        (lambda: Measurement.with_covariance(torch.zeros(1, 3, dtype=torch.int64), Identity(),
                                             variance=torch.ones(3)), DtypeError, "float32"),
        (lambda: Measurement.with_covariance(torch.zeros(3), Identity(), variance=torch.ones(3)),
         ShapeError, "batch axis"),
        (lambda: whiten(variance=torch.tensor([1.0, 0.0, 1.0])), InputError, "> 0"),
        (lambda: whiten(variance=torch.ones(2)), ShapeError, "one number per entry"),
        (lambda: whiten(covariance=torch.ones(2, 2)), ShapeError, "covariance"),
        (lambda: whiten(covariance=-torch.eye(3)), InputError, "positive definite"),
        (lambda: whiten(), InputError, "either"),
        (lambda: bad(torch.zeros(1, *SHAPE), PixelMask(torch.ones(1, 3, 4, 4) > 0)), ShapeError,
         "mask"),
        (lambda: bad(torch.zeros(5, 4, 4), PixelMask(torch.ones(1, 1, 4, 4) > 0)), ShapeError,
         "mask"),
        (lambda: bad(torch.zeros(1, 4), Dense(torch.ones(5, 16))), ShapeError, "end in"),
        (lambda: FourierMask(MASK).solve(1, 1, torch.zeros(1, *SHAPE)), DtypeError, "real=True"),
        (lambda: FourierMask(MASK, True).solve(1, 1, torch.zeros(2, 4, 4)), ShapeError, "axes"),
        (lambda: Measurement.simulate(torch.zeros(3, *SHAPE), Identity(), 0.1, seed=0, indices=[5]),
         ShapeError, "one each"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_that_names_the_fix(build, error, words) -> None:
    with pytest.raises(error, match=words) as caught:
        build()
    assert "\n" not in str(caught.value)


def test_arrays_of_numpy_are_refused_in_words() -> None:
    with pytest.raises(DtypeError, match="y is ndarray, not a tensor"):
        Measurement(np.zeros((1, 1, 4, 4)), Identity(), 0.1)  # type: ignore[arg-type]
