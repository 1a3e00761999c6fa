"""Operators of mri-nufft: maps, adjoint, derivative; without it a matrix stands for one."""

import math

import numpy as np
import pytest
import torch

import bcdm
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import from_mri_nufft
from bcdm.problems.coils import draw_birdcage

SIZE = (12, 10)


def draw_spokes(count: int = 9, samples: int = 24) -> np.ndarray:
    """Radial lines through the middle of k-space, in cycles a pixel."""
    angles = np.arange(count)[:, None] * math.pi / count
    along = np.linspace(-0.5, 0.5, samples, endpoint=False)[None]
    points = np.stack([along * np.cos(angles), along * np.sin(angles)], -1)
    return points.reshape(-1, 2).astype(np.float32)


def write_matrix(points: np.ndarray) -> np.ndarray:
    """The transform at these points, written out."""
    rows, columns = (np.arange(n) - n // 2 for n in SIZE)
    turns = points[:, :1, None] * rows[None, :, None] + points[:, 1:, None] * columns[None, None]
    scale = math.sqrt(SIZE[0] * SIZE[1] * 4)
    return (np.exp(-2j * math.pi * turns) / scale).reshape(len(points), -1).astype(np.complex64)


class Written:
    """What mri-nufft does, by a matrix."""

    def __init__(self, maps: np.ndarray | None = None, weights: float = 1.0) -> None:
        self.shape, self.smaps, self.n_samples = SIZE, maps, 9 * 24
        self.n_coils = 1 if maps is None else len(maps)
        self._matrix, self._weights = write_matrix(draw_spokes()), weights

    def op(self, data: np.ndarray) -> np.ndarray:
        images = data[None] if self.smaps is None else self.smaps * data
        return images.reshape(self.n_coils, -1) @ self._matrix.T

    def adj_op(self, coeffs: np.ndarray) -> np.ndarray:
        images = (self._weights * coeffs @ self._matrix.conj()).reshape(-1, *SIZE)
        return images.sum(0) if self.smaps is None else (self.smaps.conj() * images).sum(0)


def draw_maps() -> np.ndarray:
    return draw_birdcage(SIZE, 4, rng=np.random.default_rng(0)).numpy().astype(np.complex64)


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("coils", [1, 4])
def test_it_is_a_linear_operator_with_its_adjoint(coils: int, real: bool) -> None:
    operator = from_mri_nufft(Written(draw_maps() if coils > 1 else None), real=real)
    kind = torch.float32 if real else torch.complex64
    x = torch.randn(2, 1, *SIZE, dtype=kind, generator=torch.Generator().manual_seed(0))
    assert bcdm.check_operator(operator, dtype=kind).right
    y = operator.forward(x)
    assert y.shape == (2, coils, 9 * 24)
    assert operator.adjoint(y).dtype == kind
    solved = operator.solve(0.1, 1.0, 0.1 * x + operator.gram(x))
    assert torch.allclose(solved, x, atol=1e-4)


def test_its_derivative_is_its_adjoint() -> None:
    operator = from_mri_nufft(Written(draw_maps()), real=True)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 1, *SIZE, generator=generator).requires_grad_()
    y = torch.randn(1, 4, 9 * 24, dtype=torch.complex64, generator=generator)
    (operator.forward(x) - y).abs().square().sum().backward()
    expected = 2 * operator.adjoint(operator.forward(x.detach()) - y)
    assert x.grad is not None
    assert torch.allclose(x.grad, expected, rtol=1e-3, atol=1e-4)


def test_density_compensation_and_coils_without_maps_are_refused() -> None:
    with pytest.raises(InputError, match="without density compensation"):
        from_mri_nufft(Written(weights=2.0))
    several = Written()
    several.n_coils = 3
    with pytest.raises(InputError, match="3 coils and no maps"):
        from_mri_nufft(several)
    volume = Written()
    volume.shape = (4, 4, 4)
    with pytest.raises(InputError, match="one slice"):
        from_mri_nufft(volume)


@pytest.mark.parametrize("coils", [1, 4])
def test_the_transform_of_the_library_is_that_of_the_matrix(coils: int) -> None:
    mrinufft = pytest.importorskip("mrinufft")
    pytest.importorskip("finufft")
    maps = draw_maps() if coils > 1 else None
    theirs = mrinufft.get_operator("finufft")(
        2 * math.pi * draw_spokes(), SIZE, n_coils=coils, smaps=maps
    )
    x = torch.randn(2, 1, *SIZE, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    found, expected = (from_mri_nufft(one).forward(x) for one in (theirs, Written(maps)))
    assert torch.allclose(found, expected, atol=1e-4)
    assert bcdm.check_operator(from_mri_nufft(theirs), dtype=x.dtype).right
    measured = Measurement.simulate(x, from_mri_nufft(theirs), 0.01, seed=0)
    assert measured.y.shape == (2, coils, 9 * 24)
