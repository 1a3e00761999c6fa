"""Physics of other libraries: a closed form where there is one, and never a wrong one."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from bcdm.errors import InputError
from bcdm.operators import (
    CircularBlur,
    Factored,
    LinearOperator,
    MatrixFree,
    Outer,
    PixelMask,
    from_deepinv,
)

SHAPE = (1, 8, 12)
SIZE = 96


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(measure: Callable[[Tensor], Tensor], back: Callable[[Tensor], Tensor], **more: Any) -> Any:
    return SimpleNamespace(A=measure, A_adjoint=back, **more)


def transform(rows: int, seed: int = 0) -> Tensor:
    """Orthonormal rows."""
    return torch.linalg.qr(normal(SIZE, rows, seed=seed))[0].mT


def decomposable(thin: bool = False, batch: int = 1) -> Any:
    """U S V^T by functions, as deepinv's DecomposablePhysics has them."""
    rows = 40 if thin else SIZE
    right, left = transform(rows), transform(rows, seed=1)
    mask = normal(batch, rows, seed=2).abs()

    def V_adjoint(x: Tensor) -> Tensor:  # noqa: N802
        return x.flatten(1) @ right.mT

    def V(c: Tensor) -> Tensor:  # noqa: N802
        return (c @ right).reshape(-1, *SHAPE)

    def U(c: Tensor) -> Tensor:  # noqa: N802
        return c @ left

    def U_adjoint(y: Tensor) -> Tensor:  # noqa: N802
        return y @ left.mT

    return make(
        lambda x: U(mask * V_adjoint(x)),
        lambda y: V(mask * U_adjoint(y)),
        mask=mask, V=V, V_adjoint=V_adjoint, U=U, U_adjoint=U_adjoint,
    )  # fmt: skip


def filtered(x: Tensor) -> Tensor:
    return 0.6 * x + 0.3 * x.roll(1, -1) - 0.2 * x.roll(2, -2)


def unfiltered(x: Tensor) -> Tensor:
    return 0.6 * x + 0.3 * x.roll(-1, -1) - 0.2 * x.roll(-2, -2)


def spread(y: Tensor) -> Tensor:
    wide = torch.zeros(*y.shape[:-2], 2 * y.shape[-2], 2 * y.shape[-1], dtype=y.dtype)
    wide[..., ::2, ::2] = y
    return wide


def sensing() -> Any:
    rows = 1.5 * transform(30, seed=3)
    return make(lambda x: x.flatten(1) @ rows.mT, lambda y: (y @ rows).reshape(-1, *SHAPE))


def sums() -> Any:
    pad = torch.nn.functional.pad
    return make(lambda x: x[..., 1:] + x[..., :-1], lambda y: pad(y, (0, 1)) + pad(y, (1, 0)))


CASES: dict[str, tuple[Callable[[], Any], type[LinearOperator], float]] = {
    "pixels": (lambda: make(*[lambda x: x * (normal(8, 12, seed=4) > 0)] * 2,
                            mask=(normal(8, 12, seed=4) > 0).double()), PixelMask, 1e-12),
    "periodic blur": (lambda: make(filtered, unfiltered), CircularBlur, 1e-10),
    "decomposed": (decomposable, Factored, 1e-10),
    "decomposed, thin": (lambda: decomposable(thin=True), Factored, 1e-10),
    "sampled after a filter": (lambda: make(lambda x: filtered(x)[..., ::2, ::2],
                                            lambda y: unfiltered(spread(y))), Outer, 1e-8),
    "orthonormal rows": (sensing, Outer, 1e-10),
    "few numbers": (sums, Outer, 1e-8),
}  # fmt: skip


def measure_error(operator: LinearOperator, physics: Any, power: float) -> float:
    """Of (0.1 + A^T A)^power of random images, beside the matrix of the physics written out."""
    rows = physics.A(torch.eye(SIZE, dtype=torch.float64).reshape(SIZE, *SHAPE)).flatten(1)
    eigenvalues, vectors = torch.linalg.eigh(rows @ rows.mT)
    x = normal(3, *SHAPE, seed=9)
    gains = (0.1 + eigenvalues) ** power
    exact = (vectors @ (gains[:, None] * (vectors.mT @ x.flatten(1).mT))).mT
    found = operator.gram_function(lambda e: (0.1 + e) ** power, x).flatten(1)
    return float((found - exact).norm() / exact.norm())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("power", [-1.0, -0.5])
def test_functions_are_those_of_the_matrix(name: str, power: float) -> None:
    build, kind, tolerance = CASES[name]
    physics = build()
    y = physics.A(normal(2, *SHAPE, seed=5))
    data, operator = from_deepinv(physics, y, SHAPE)
    assert type(operator) is kind
    assert torch.equal(data, y)
    assert measure_error(operator, physics, power) < tolerance


def test_what_has_no_closed_form_is_iterative() -> None:
    physics = sums()
    y = physics.A(normal(2, *SHAPE, seed=5))
    _, operator = from_deepinv(physics, y, SHAPE, few=10)
    assert isinstance(operator, MatrixFree)
    assert measure_error(operator, physics, -1.0) < 1e-4


def test_each_sample_has_its_own_coefficients_and_singular_values() -> None:
    physics = decomposable(batch=3)
    x = normal(3, *SHAPE, seed=5)
    _, operator = from_deepinv(physics, physics.A(x), SHAPE)
    assert isinstance(operator, Factored)
    assert operator.batch == 3
    a = torch.tensor([0.1, 0.2, 0.4], dtype=torch.float64)
    solved = operator.solve(a, 1.0, x)
    torch.testing.assert_close(a[:, None, None, None] * solved + operator.gram(solved), x)
    one = operator.select(torch.tensor([2]))
    torch.testing.assert_close(one.forward(x[2:]), physics.A(x)[2:])
    torch.testing.assert_close(one.solve(0.4, 1.0, x[2:]), solved[2:])


def test_a_decomposition_that_is_none_is_not_taken() -> None:
    """V is not orthonormal: its squares are no eigenvalues, and iterations take over."""
    true = decomposable()
    wrong = make(true.A, true.A_adjoint, mask=2 * true.mask, U=true.U, U_adjoint=true.U_adjoint,
                 V=lambda c: 2 * true.V(c), V_adjoint=lambda x: true.V_adjoint(x) / 2)  # fmt: skip
    y = wrong.A(normal(1, *SHAPE, seed=5))
    _, operator = from_deepinv(wrong, y, SHAPE, few=10)
    assert isinstance(operator, MatrixFree)
    assert measure_error(operator, wrong, -1.0) < 1e-4


def test_physics_of_deepinv() -> None:
    """Kinds and precision of the exam's physics; time and quality are its own."""
    pytest.importorskip("deepinv", reason="deepinv is not installed")
    from bcdm.benchmark.physics import SMALL, compare_with_dense, make_physics

    expected = {
        "MRI": "FourierMask",
        "Inpainting": "PixelMask",
        "BlurFFT": "CircularBlur",
        "Downsampling": "Outer",
        "CompressedSensing": "Outer",
        "SinglePixelCamera": "Factored",
        "Blur, valid": "MatrixFree",
        "Tomography": "MatrixFree",
        "MultiCoilMRI": "MatrixFree",
    }
    for name, physics in make_physics(SMALL).items():
        error, kind = compare_with_dense(physics)
        assert error < 1e-5, name
        assert expected[name] == kind, name


def test_a_wrong_adjoint_is_refused_however_large_the_image() -> None:
    side = 256
    shape = (1, side, side)

    def measure(x: Tensor) -> Tensor:
        return x[..., ::2, ::2]

    def back(y: Tensor) -> Tensor:
        x = torch.zeros(len(y), *shape, dtype=y.dtype)
        x[..., ::2, ::2] = y
        return x

    y = torch.zeros(1, 1, side // 2, side // 2)
    from_deepinv(make(measure, back), y, shape)
    with pytest.raises(InputError, match="not the adjoint"):
        from_deepinv(make(measure, lambda y: 2 * back(y)), y, shape)
