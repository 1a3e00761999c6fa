"""One table of operators, one set of laws. A new operator is one row."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import (
    BlockMean,
    CircularBlur,
    Composed,
    Dense,
    Diagonal,
    Factored,
    FourierMask,
    Identity,
    LinearOperator,
    MatrixFree,
    Outer,
    PixelMask,
    Radon,
    Root,
    Sense,
)
from bcdm.tensors import expand, inner

SHAPE = (2, 6, 8)  # channels, rows, columns: not square on purpose
BATCH = 3


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=dtype)


def mask(*shape: int, seed: int = 1) -> Tensor:
    return torch.rand(*shape, generator=seeded(seed)) < 0.4


@dataclass
class Row:
    name: str
    build: Callable[[], LinearOperator]
    dtype: torch.dtype = torch.float64
    shape: tuple[int, ...] = SHAPE
    tolerance: float = 1e-10


def left_half() -> Tensor:
    return (torch.arange(8) < 4).expand(6, 8)


def coils(*shape: int) -> Tensor:
    return normal(*shape, seed=12, dtype=torch.complex128)


def blur(x: Tensor) -> Tensor:
    return 0.5 * x + 0.3 * x.roll(1, -1) + 0.2 * x.roll(2, -2) * (x.shape[-1] > 1)


def rows(count: int) -> Tensor:
    """Orthonormal, (count, 8)."""
    return torch.linalg.qr(normal(8, count, seed=13))[0].mT


def factored(batch: int) -> Factored:
    """Five of eight directions along the last axis."""
    right, left = rows(5), torch.linalg.qr(normal(7, 5, seed=14))[0]
    return Factored(
        lambda c: c @ left.mT.to(c),
        lambda y: y @ left.to(y),
        lambda c: c @ right.to(c),
        lambda x: x @ right.mT.to(x),
        normal(batch, 2, 6, 5, seed=15),
        SHAPE,
    )


def three() -> Tensor:
    """Not orthonormal, (3, 8)."""
    return normal(3, 8, seed=16)


def decompose_three() -> tuple[Tensor, tuple[int, ...], Tensor]:
    whole = torch.kron(torch.eye(12, dtype=torch.float64), three() @ three().mT)
    return *torch.linalg.eigh(whole)[:1], SHAPE, torch.linalg.eigh(whole)[1]


def find_powers() -> Tensor:
    """Of the filter 1, 2, 1 along rows, for each frequency."""
    gains = 2 + 2 * torch.cos(2 * torch.pi * torch.arange(6, dtype=torch.float64) / 6)
    return gains.square()[None, None, :, None].expand(1, 2, 6, 5).clone()


def radon(*angles: float, **settings: Any) -> Radon:
    return Radon(torch.tensor(angles, dtype=torch.float64), (6, 8), **settings)


TABLE = [
    Row("identity", Identity),
    Row("identity-complex", Identity, torch.complex128),
    Row("pixel-mask", lambda: PixelMask(mask(6, 8))),
    Row("pixel-mask-weights", lambda: PixelMask(normal(6, 8, seed=2))),
    Row("pixel-mask-per-sample", lambda: PixelMask(mask(BATCH, 1, 6, 8))),
    Row("pixel-mask-complex", lambda: PixelMask(mask(6, 8)), torch.complex128),
    Row("pixel-mask-vector", lambda: PixelMask(torch.tensor([True, False])), shape=(2,)),
    Row("diagonal", lambda: Diagonal(normal(BATCH, *SHAPE, seed=2))),
    Row("composed", lambda: Composed(Diagonal(normal(1, 2, 3, 2, seed=2)), BlockMean((2, 4)),
        tolerance=1e-10), tolerance=1e-6),
    Row("composed-loses-entries", lambda: Composed(BlockMean((2, 4)), PixelMask(left_half()),
        tolerance=1e-10), tolerance=1e-6),
    Row("composed-per-sample", lambda: Composed(Diagonal(normal(1, *SHAPE, seed=2)),
        PixelMask(mask(BATCH, 1, 6, 8)), tolerance=1e-10), tolerance=1e-6),
    Row("composed-fourier", lambda: Composed(FourierMask(mask(6, 8), real=True),
        CircularBlur(normal(3, 5, seed=4), (6, 8)), tolerance=1e-10), tolerance=1e-6),
    Row("block-mean-unitary", lambda: BlockMean((2, 4))),
    Row("block-mean-plain", lambda: BlockMean((3, 2), "mean")),
    Row("block-mean-complex", lambda: BlockMean((3, 2), "mean"), torch.complex128),
    Row("fourier-complex", lambda: FourierMask(mask(6, 8)), torch.complex128),
    Row("fourier-real-any-mask", lambda: FourierMask(mask(6, 8), real=True)),
    Row("fourier-real-odd", lambda: FourierMask(mask(5, 7), real=True), shape=(1, 5, 7)),
    Row("fourier-real-uncentred", lambda: FourierMask(mask(5, 8), True, False), shape=(1, 5, 8)),
    Row("fourier-complex-odd", lambda: FourierMask(mask(5, 7)), torch.complex128, (1, 5, 7)),
    Row("fourier-weights", lambda: FourierMask(normal(6, 8, seed=3), real=True)),
    Row("fourier-per-sample", lambda: FourierMask(mask(BATCH, 1, 6, 8)), torch.complex128),
    Row("blur-odd", lambda: CircularBlur(normal(3, 5, seed=4), (6, 8))),
    Row("blur-even", lambda: CircularBlur(normal(2, 4, seed=5), (6, 8))),
    Row("blur-larger-than-image", lambda: CircularBlur(normal(9, 11, seed=6), (6, 8))),
    Row("blur-odd-image", lambda: CircularBlur(normal(3, 3, seed=6), (5, 7)), shape=(1, 5, 7)),
    Row("blur-complex", lambda: CircularBlur(normal(3, 2, seed=7), (6, 8)), torch.complex128),
    Row("blur-per-channel", lambda: CircularBlur(normal(BATCH, 2, 3, 3, seed=8), (6, 8))),
    Row("dense-wide", lambda: Dense(normal(5, 12, seed=9), (1, 3, 4)), shape=(1, 3, 4)),
    Row("dense-tall", lambda: Dense(normal(20, 12, seed=10), (1, 3, 4)), shape=(1, 3, 4)),
    Row("dense-per-sample", lambda: Dense(normal(BATCH, 5, 12, seed=11)), shape=(12,)),
    Row("dense-complex", lambda: Dense(torch.complex(normal(5, 12), normal(5, 12, seed=1))),
        torch.complex128, (12,)),
    Row("dense-zero-row", lambda: Dense(normal(4, 12, seed=9) * torch.tensor([[1], [0], [1], [1]])),
        shape=(12,)),
    Row("root-of-a-mask", lambda: Root((PixelMask(mask(6, 8)),))),
    Row("root", lambda: Root((BlockMean((2, 4)),))),
    Row("root-of-several", lambda: Root(
        (FourierMask(mask(2, 1, 6, 8), real=True), CircularBlur(normal(3, 5, seed=4), (6, 8))),
        (torch.tensor([0, 2]), torch.tensor([1])))),
    Row("sense", lambda: Sense(coils(3, 6, 8), mask(6, 8), tolerance=1e-10), torch.complex128,
        (1, 6, 8), tolerance=1e-6),
    Row("sense-odd-uncentred", lambda: Sense(coils(2, 5, 7), mask(5, 7), False, tolerance=1e-10),
        torch.complex128, (1, 5, 7), tolerance=1e-6),
    Row("sense-per-sample", lambda: Sense(coils(BATCH, 2, 6, 8), mask(BATCH, 1, 6, 8),
        tolerance=1e-10), torch.complex128, (1, 6, 8), tolerance=1e-6),
    Row("factored", lambda: factored(1)),
    Row("factored-per-sample", lambda: factored(BATCH)),
    Row("outer-rows", lambda: Outer(lambda x: x @ rows(3).mT.to(x), lambda y: y @ rows(3).to(y),
        torch.ones(1, dtype=torch.float64), SHAPE)),
    Row("outer-few", lambda: Outer(lambda x: (x @ three().to(x).mT), lambda y: y @ three().to(y),
        *decompose_three())),
    Row("outer-filter", lambda: Outer(*[lambda x: 2 * x + x.roll(1, -2) + x.roll(-1, -2)] * 2,
        find_powers(), SHAPE)),
    Row("radon-wide", lambda: radon(10.0, 75.0, 140.0)),
    Row("radon-tall", lambda: radon(*range(0, 180, 12))),
    Row("radon-off-centre", lambda: radon(3.0, 50.0, 95.0, detectors=7, spacing=1.3, centre=1.4,
        rays=3, scaling="length")),
    Row("radon-fan", lambda: radon(20.0, 140.0, 260.0, source_distance=12.0,
        detector_distance=5.0)),
    Row("radon-iterative", lambda: radon(10.0, 75.0, 140.0, exact=False, tolerance=1e-10),
        tolerance=1e-6),
    Row("matrix-free", lambda: MatrixFree(blur, shape=SHAPE, tolerance=1e-10), tolerance=1e-6),
    Row("matrix-free-given-adjoint",
        lambda: MatrixFree(lambda x: x[..., ::2], lambda y: torch.stack([y, 0 * y], -1).flatten(-2),
                           shape=SHAPE, tolerance=1e-10), tolerance=1e-6),
    Row("matrix-free-mask", lambda: MatrixFree(lambda x: x * left_half(), shape=SHAPE,
        tolerance=1e-10), tolerance=1e-6),
    Row("matrix-free-complex", lambda: MatrixFree(lambda x: torch.fft.fft(x, norm="ortho")[..., :3],
        shape=SHAPE, tolerance=1e-10), torch.complex128, tolerance=1e-6),
]  # fmt: skip
ROWS = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)


def image(row: Row, seed: int = 0, batch: int = BATCH) -> Tensor:
    return normal(batch, *row.shape, seed=seed, dtype=row.dtype)


def dense_gram(operator: LinearOperator, row: Row) -> Tensor:
    """A^T A of each sample as a real symmetric matrix (B, n, n), from forward and adjoint alone."""
    parts = 2 if row.dtype.is_complex else 1
    size = parts * image(row)[0].numel()
    columns = []
    for unit in torch.eye(size, dtype=torch.float64):
        x = torch.view_as_complex(unit.reshape(*row.shape, 2)) if parts == 2 else unit
        x = x.reshape(row.shape).expand(BATCH, *row.shape)
        z = operator.adjoint(operator.forward(x))
        columns.append((torch.view_as_real(z) if parts == 2 else z).reshape(BATCH, size))
    return torch.stack(columns, -1)


def list_rows(operator: LinearOperator, row: Row) -> Tensor:
    """A of each sample as (B, n, *measured), from forward alone."""
    units = torch.eye(image(row)[0].numel(), dtype=row.dtype).reshape(-1, 1, *row.shape)
    return torch.stack([operator.forward(u.expand(BATCH, *row.shape)) for u in units], 1)


def as_vector(x: Tensor) -> Tensor:
    return (torch.view_as_real(x) if x.is_complex() else x).flatten(1)


def relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm().clamp_min(1e-300))


@ROWS
def test_adjoint(row: Row) -> None:
    operator, x = row.build(), image(row)
    y = operator.forward(x)
    other = normal(*y.shape, seed=3, dtype=y.dtype)
    torch.testing.assert_close(inner(y, other), inner(x, operator.adjoint(other)))


@ROWS
def test_linear(row: Row) -> None:
    operator, x, z = row.build(), image(row), image(row, seed=1)
    both = operator.forward(2 * x - 3 * z)
    torch.testing.assert_close(both, 2 * operator.forward(x) - 3 * operator.forward(z))


@ROWS
@pytest.mark.parametrize("power", [0.5, -0.5, -1.0])
def test_powers_match_dense_oracle(row: Row, power: float) -> None:
    operator, x = row.build(), image(row)
    a, b = torch.tensor([0.3, 1.0, 0.01]).double(), torch.tensor([2.0, 0.5, 40.0]).double()
    got = operator.gram_function(lambda s: (expand(a, x.ndim) + expand(b, x.ndim) * s) ** power, x)
    values, vectors = torch.linalg.eigh(dense_gram(operator, row))
    weights = (a[:, None] + b[:, None] * values.clamp_min(0)) ** power
    expected = (vectors @ (weights[..., None] * (vectors.mT @ as_vector(x)[..., None])))[..., 0]
    assert relative(as_vector(got), expected) <= row.tolerance


@ROWS
def test_solve_matches_dense_oracle(row: Row) -> None:
    operator, x = row.build(), image(row)
    a, b = torch.tensor([0.3, 1.0, 0.01]).double(), torch.tensor([2.0, 0.5, 40.0]).double()
    gram = dense_gram(operator, row)
    system = a[:, None, None] * torch.eye(gram.shape[-1]).double() + b[:, None, None] * gram
    expected = torch.linalg.solve(system, as_vector(x))
    assert relative(as_vector(operator.solve(a, b, x)), expected) <= row.tolerance


@ROWS
def test_spectral_calculus(row: Row) -> None:
    operator, x = row.build(), image(row)

    def f(s: Tensor) -> Tensor:
        return (1 + s).sqrt()

    def g(s: Tensor) -> Tensor:
        return 1 / (0.5 + s)

    close = {"rtol": 0.0, "atol": max(row.tolerance, 1e-10) * float(x.norm())}
    torch.testing.assert_close(operator.gram_function(torch.ones_like, x), x, **close)
    torch.testing.assert_close(operator.gram_function(lambda s: s, x), operator.gram(x), **close)
    product = operator.gram_function(lambda s: f(s) * g(s), x)
    torch.testing.assert_close(
        operator.gram_function(f, operator.gram_function(g, x)), product, **close
    )


@ROWS
def test_gradients(row: Row) -> None:
    operator, x = row.build(), image(row).requires_grad_()
    a = torch.tensor([0.7, 1.0, 2.0]).double().requires_grad_()
    b = torch.tensor([1.5, 0.2, 1.0]).double().requires_grad_()
    check = {"fast_mode": True, "atol": 1e-5}
    assert torch.autograd.gradcheck(operator.forward, x, **check)
    assert torch.autograd.gradcheck(operator.solve, (a, b, x), **check)
    assert torch.autograd.gradcheck(
        lambda z: operator.gram_function(lambda s: (1 + s).rsqrt(), z), x, **check
    )


@ROWS
def test_float32_and_moving(row: Row) -> None:
    operator, x = row.build(), image(row)
    single = operator.to(torch.float32)
    low = x.to(torch.complex64 if row.dtype.is_complex else torch.float32)
    got = single.solve(1.0, 2.0, low)
    assert got.dtype == low.dtype
    assert relative(got.to(x.dtype), operator.solve(1.0, 2.0, x)) < 1e-5


@ROWS
def test_select_gives_the_rows_of_the_batch(row: Row) -> None:
    operator, x = row.build(), image(row)
    rows = torch.tensor([2, 0])
    torch.testing.assert_close(operator.select(rows).forward(x[rows]), operator.forward(x)[rows])


@ROWS
def test_image_shape_from_measurement(row: Row) -> None:
    operator, x = row.build(), image(row)
    y = operator.forward(x)
    assert operator.image_shape(tuple(y.shape[1:])) == row.shape
    back = operator.adjoint(y)
    assert back.shape == x.shape
    assert back.dtype == x.dtype


# No row of these repeats another: all that they measure is new.
WITHOUT_REPEATS = (Identity, Diagonal, PixelMask, BlockMean)


@ROWS
def test_data_is_where_the_rows_are_not_zero(row: Row) -> None:
    """An entry whose row of A is zero says nothing of any image: no degree of freedom."""
    operator = row.build()
    written = list_rows(operator, row)
    said = operator.find_data(written[:, 0])
    said = torch.tensor(True) if said is None else said
    true = (written != 0).any(1)
    assert torch.equal(said.expand_as(true), true)
    y = operator.forward(image(row))
    for k in range(BATCH):
        rows = torch.tensor([k])
        freedom = Measurement(y[rows], operator.select(rows), 0.1).degrees_of_freedom
        assert freedom == (2 if y.is_complex() else 1) * int(true[k].sum())
        matrix = written[k].flatten(1)
        if y.is_complex() and not row.dtype.is_complex:
            matrix = torch.cat([matrix.real, matrix.imag], 1)
        rank = int(torch.linalg.matrix_rank(matrix)) * (2 if row.dtype.is_complex else 1)
        assert rank <= freedom
        if isinstance(operator, WITHOUT_REPEATS):
            assert rank == freedom


@ROWS
def test_closed_forms_are_exact(row: Row) -> None:
    """What says that it is exact is held to rounding by the laws above."""
    assert row.build().closed_form == (row.tolerance < 1e-9)


@ROWS
def test_an_operator_knows_how_many_samples_it_is_for(row: Row) -> None:
    operator, x = row.build(), image(row)
    alone = [operator.select(torch.tensor([k])).forward(x[:1]) for k in range(BATCH)]
    differ = any(not torch.equal(alone[0], one) for one in alone[1:])
    assert operator.batch == (BATCH if differ else None)


@ROWS
def test_what_is_stored_is_plain(row: Row) -> None:
    """Tensors and settings are the whole of an operator, or it refuses to be stored."""
    operator, x = row.build(), image(row)
    if isinstance(operator, MatrixFree | Composed | Root | Factored | Outer):
        with pytest.raises(InputError, match="cannot be stored"):
            operator.settings()
        return
    again = type(operator)(**operator.tensors(), **json.loads(json.dumps(operator.settings())))
    assert torch.equal(again.forward(x), operator.forward(x))


@ROWS
def test_is_told_in_one_line(row: Row) -> None:
    text = repr(row.build())
    assert "\n" not in text and "tensor" not in text and len(text) <= 120  # noqa: PT018


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 9),
    columns=st.integers(1, 9),
    channels=st.integers(1, 3),
    a=st.floats(1e-3, 1e3),
    b=st.floats(0, 1e3),
    seed=st.integers(0, 1000),
)
def test_solve_inverts_over_shapes_and_coefficients(
    rows: int, columns: int, channels: int, a: float, b: float, seed: int
) -> None:
    x = normal(2, channels, rows, columns, seed=seed)
    operators = [
        Identity(),
        PixelMask(mask(rows, columns, seed=seed)),
        FourierMask(mask(rows, columns, seed=seed), real=True),
        CircularBlur(normal(3, 2, seed=seed), (rows, columns)),
        BlockMean((rows, columns), "mean"),
    ]
    for operator in operators:
        z = operator.solve(a, b, x)
        torch.testing.assert_close(a * z + b * operator.gram(z), x, rtol=1e-8, atol=1e-8)
