"""Iterations report how they ended, and never hide a failure."""

import warnings

import pytest
import torch
from torch import Tensor

from bcdm.errors import InputError
from bcdm.operators import ConvergenceWarning, MatrixFree


def scale(x: Tensor) -> Tensor:
    """Singular values from 1 to 1e-3: badly conditioned on purpose."""
    return x * torch.logspace(0, -3, x.shape[-1], dtype=x.dtype)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_reports_iterations_and_residual() -> None:
    operator, x = MatrixFree(scale, shape=(40,), tolerance=1e-8), normal(3, 40)
    z, report = operator.solve_with_report(1e-3, 1.0, x)
    assert report.converged
    assert 1 < report.iterations <= 200
    true = (1e-3 * z + operator.gram(z) - x).norm(dim=1) / x.norm(dim=1)
    assert float(true.max()) <= 2e-8
    _, report = operator.gram_function_with_report(torch.sqrt, x)
    assert report.converged
    assert report.iterations <= 40


def test_early_stop_warns_with_figures() -> None:
    operator, x = MatrixFree(scale, shape=(40,), tolerance=1e-8, iterations=3), normal(3, 40)
    with pytest.warns(ConvergenceWarning, match="after 3 iterations"):
        operator.solve(1e-3, 1.0, x)
    with pytest.warns(ConvergenceWarning, match="Lanczos stopped early"):
        operator.gram_function(lambda s: (s + 1e-4).rsqrt(), x)
    hard = x.clone().requires_grad_()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        operator.solve(1e-3, 1.0, hard).sum().backward()
    assert sum("backward" in str(w.message) for w in caught) == 1


@pytest.mark.parametrize("where", ["input", "operator"])
def test_nan_is_not_convergence(where: str) -> None:
    x = normal(1, 4)
    if where == "input":
        operator = MatrixFree(scale, shape=(4,))
        x[0, 1] = torch.nan
    else:
        operator = MatrixFree(lambda z: z * torch.nan, shape=(4,))
    with pytest.warns(ConvergenceWarning, match="nan"):
        operator.solve(1.0, 1.0, x)


def test_zero_needs_no_iterations() -> None:
    z, report = MatrixFree(scale, shape=(4,)).solve_with_report(1.0, 1.0, torch.zeros(2, 4))
    assert report.converged
    assert report.iterations == 0
    assert torch.equal(z, torch.zeros(2, 4))


def test_a_sample_does_not_depend_on_its_companions() -> None:
    operator = MatrixFree(scale, shape=(40,), tolerance=1e-6)
    x = torch.cat([normal(1, 40), 1e3 * torch.ones(1, 40).double()])
    together = operator.solve(1e-3, 1.0, x)
    torch.testing.assert_close(operator.solve(1e-3, 1.0, x[:1]), together[:1], rtol=1e-12, atol=0)


def test_backward_memory_does_not_grow_with_iterations() -> None:
    """What autograd keeps for the backward pass: the solution and the coefficients, no iterates."""
    kept: list[int] = []

    def pack(t: Tensor) -> Tensor:
        kept.append(t.numel())
        return t

    operator = MatrixFree(scale, scale, shape=(40,), tolerance=1e-10)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        x = normal(2, 40).requires_grad_()
        operator.solve(1e-3, 1.0, x)
    _, report = operator.solve_with_report(1e-3, 1.0, x.detach())
    assert report.iterations > 20
    assert sum(kept) <= 2 * 40 + 2


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="shape"):
        MatrixFree(scale)
    with pytest.raises(InputError, match="tolerance"):
        MatrixFree(scale, shape=(4,), tolerance=0.0)


def test_a_caller_who_knows_the_noise_gets_no_more_than_asked() -> None:
    """Fewer products, and an error of the size that was allowed; strict operators give all."""
    products = []

    def measure(x: Tensor) -> Tensor:
        products.append(1)
        return x * torch.linspace(0.01, 1, 200, dtype=x.dtype)

    x = normal(2, 200)

    def apply(tolerance: float, *, adaptive: bool) -> tuple[Tensor, int]:
        operator = MatrixFree(measure, measure, shape=(200,), tolerance=1e-10, adaptive=adaptive)
        operator.forward(x)
        products.clear()
        found = operator.approximate(lambda e: (e + 1e-3).rsqrt(), x, tolerance)
        return found, len(products)

    exact, most = apply(1e-2, adaptive=False)
    rough, few = apply(1e-2, adaptive=True)
    assert few < most / 2
    away = (rough - exact).norm(dim=1) / exact.norm(dim=1)
    assert 1e-8 < float(away.max()) < 3e-2
    same, again = apply(1e-10, adaptive=True)
    assert again == most
    torch.testing.assert_close(same, exact)


def test_a_map_through_numpy_needs_its_adjoint() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(2 * x.numpy())

    y = torch.ones(1, 4)
    with pytest.raises(InputError, match=r"no adjoint can be derived .* the adjoint as back="):
        MatrixFree(double, shape=(4,)).adjoint(y)
    assert MatrixFree(double, back=double, shape=(4,)).adjoint(y).tolist() == [[2.0] * 4]
