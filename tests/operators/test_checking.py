"""A map that is not linear, a wrong adjoint, a wrong solve: each is found."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import bcdm
from bcdm.errors import InputError, ShapeError
from bcdm.operators import (
    CircularBlur,
    Dense,
    FourierMask,
    LinearOperator,
    MatrixFree,
    PixelMask,
    Radon,
    Sense,
    Spectral,
    check_operator,
)

SHAPE = (1, 6, 5)
MASK = torch.arange(30).reshape(6, 5) % 3 > 0


def smear(x: Tensor) -> Tensor:
    return x[..., 1:] + 0.5 * x[..., :-1]


def smear_back(y: Tensor) -> Tensor:
    pad = torch.nn.functional.pad
    return pad(y, (1, 0)) + 0.5 * pad(y, (0, 1))


@pytest.mark.parametrize(
    "operator",
    [
        PixelMask(MASK),
        FourierMask(MASK, real=True),
        Dense(torch.randn(7, 30, generator=torch.Generator().manual_seed(0)), SHAPE),
        MatrixFree(smear, smear_back, shape=SHAPE),
        MatrixFree(smear, shape=SHAPE),
        MatrixFree(lambda x: torch.fft.fft(x)[..., :2], shape=SHAPE, real=True),
    ],
    ids=lambda one: type(one).__name__,
)
def test_operators_are_what_they_say(operator: bcdm.operators.LinearOperator) -> None:
    found = bcdm.check_operator(operator, SHAPE)
    assert found.right, found
    assert max(found.linearity, found.adjoint) < 1e-4


@dataclass(frozen=True, eq=False)
class Wrong(PixelMask):
    """Says that its only eigenvalue is 2."""

    def gram_function(self, f: Spectral, x: Tensor) -> Tensor:
        return f(2 * self.mask.to(x)) * x


def test_each_mistake_is_named() -> None:
    assert check_operator(Wrong(MASK), SHAPE).wrong == ("solve",)

    @dataclass(frozen=True, eq=False)
    class Solved(Wrong):
        def solve(self, a: float, b: float, x: Tensor, *, tolerance: object = None) -> Tensor:
            return x / (a + b * self.mask.to(x))

    assert check_operator(Solved(MASK), SHAPE).wrong == ("posterior",)
    with pytest.raises(InputError, match="shape"):
        check_operator(PixelMask(MASK))


@pytest.mark.parametrize(
    ("measure", "back", "words"),
    [
        (lambda x: x.abs(), None, "not linear"),
        (lambda x: x + 1, None, "not linear"),
        (lambda x: x.clamp(-1, 1), None, "not linear"),
        (smear, lambda y: 0.9 * smear_back(y), "not the adjoint"),
        (lambda x: x.roll(1, -1), lambda y: y.roll(1, -1), "not the adjoint"),
    ],
)
def test_a_function_is_looked_at_once(measure, back, words: str) -> None:
    operator = MatrixFree(measure, back, shape=SHAPE)
    with pytest.raises(InputError, match=words):
        operator.forward(torch.zeros(2, *SHAPE))
    operator = MatrixFree(measure, back, shape=SHAPE)
    for _ in range(2):
        with pytest.raises(InputError, match=words):
            operator.adjoint(torch.zeros(2, *measure(torch.zeros(1, *SHAPE)).shape[1:]))


def test_a_right_one_is_not_looked_at_again() -> None:
    calls = []

    def measure(x: Tensor) -> Tensor:
        calls.append(len(x))
        return smear(x)

    operator = MatrixFree(measure, smear_back, shape=SHAPE)
    x = torch.zeros(4, *SHAPE)
    operator.forward(x)
    assert calls == [1, 1, 1, 1, 4]
    operator.forward(x)
    operator.select(torch.tensor([0])).forward(x[:1])
    assert calls == [1, 1, 1, 1, 4, 4, 1]


def test_precision_and_device_are_those_of_the_images() -> None:
    weights = torch.rand(5, dtype=torch.float64)
    operator = MatrixFree(lambda x: x * weights, shape=SHAPE)
    assert operator.forward(torch.zeros(1, *SHAPE).double()).dtype == torch.float64


def test_a_wrong_operator_is_refused_again_and_again() -> None:
    wrong = MatrixFree(lambda x: 2 * x, lambda y: y, shape=SHAPE)
    for _ in range(2):
        with pytest.raises(InputError, match="adjoint"):
            wrong.forward(torch.ones(1, *SHAPE))


@pytest.mark.parametrize("shape", [(4, 8, 8), (1, 4, 8, 8)])
def test_masks_do_not_multiply_channels(shape: tuple[int, ...]) -> None:
    x = torch.ones(4, 1, 8, 8)
    with pytest.raises(ShapeError, match="has 4 channels"):
        PixelMask(torch.ones(shape)).forward(x)
    assert PixelMask(torch.ones(shape)).forward(x.expand(4, 4, 8, 8)).shape == (4, 4, 8, 8)
    with pytest.raises(ShapeError, match="has 4 channels"):
        FourierMask(torch.ones(1, 4, 8, 8), real=True).forward(x)


def test_real_images_of_complex_data_are_looked_at_as_real() -> None:
    """A measurement calls the adjoint first; what comes back says that images are real."""
    operator = MatrixFree(
        lambda x: torch.fft.fft(x, norm="ortho") * (1 + 0j),
        lambda y: torch.fft.ifft(y, norm="ortho").real,
        shape=SHAPE,
    )
    y = operator.forward(torch.ones(1, *SHAPE))
    fresh = MatrixFree(operator.measure, operator.back, shape=SHAPE)
    assert not fresh.adjoint(y).is_complex()
    derived = MatrixFree(operator.measure, shape=SHAPE, real=True)
    torch.testing.assert_close(derived.adjoint(y), fresh.adjoint(y))


@pytest.mark.parametrize(
    ("operator", "dtype"),
    [
        (CircularBlur(torch.ones(3, 3) / 9, (6, 8)), torch.float32),
        (Radon(torch.tensor([10.0, 75.0]), (6, 8)), torch.float32),
        (FourierMask(torch.ones(6, 8), real=True), torch.float32),
        (Sense(torch.ones(2, 6, 8, dtype=torch.complex64), torch.ones(6, 8) > 0), torch.complex64),
    ],
)
def test_operators_that_know_their_size_are_not_asked_for_it(
    operator: LinearOperator, dtype: torch.dtype
) -> None:
    assert check_operator(operator, dtype=dtype).right


@dataclass(frozen=True, eq=False)
class Mixed(PixelMask):
    """Right for one image; of several it shifts each by its place in the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.stack([one.roll(k, -1) for k, one in enumerate(x)]))


@dataclass(frozen=True, eq=False)
class Single(PixelMask):
    """Takes one image only."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.reshape(1, *SHAPE))


@pytest.mark.parametrize("kind", [Mixed, Single])
def test_what_is_right_for_one_image_alone_is_found(kind: type[PixelMask]) -> None:
    assert check_operator(kind(MASK), SHAPE).wrong == ("batches",)


def test_operators_of_one_image_each_know_no_batches() -> None:
    masks = torch.stack([MASK, ~MASK])[:, None]
    assert check_operator(PixelMask(masks[:1]), SHAPE).right
    assert check_operator(PixelMask(masks).select(torch.tensor([1])), SHAPE).right
