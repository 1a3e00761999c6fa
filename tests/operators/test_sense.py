"""Several coils: what the laws of the table do not say."""

import pytest
import torch
from torch import Tensor

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.measurement import Measurement
from bcdm.operators import ConvergenceWarning, FourierMask, Sense, whiten_coils
from bcdm.tensors import ImageSpec, SeededNoise


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.complex64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def draw_mask(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1)) < 0.4


def test_one_even_coil_is_a_fourier_mask() -> None:
    mask, x = draw_mask(6, 8), normal(2, 1, 6, 8)
    one, mri = Sense(torch.ones(1, 6, 8, dtype=torch.complex64), mask), FourierMask(mask)
    torch.testing.assert_close(one.forward(x), mri.forward(x))
    torch.testing.assert_close(one.solve(0.3, 2.0, x), mri.solve(0.3, 2.0, x), rtol=0, atol=1e-5)
    torch.testing.assert_close(one.stand_in.gram(x), mri.gram(x))


def test_the_gram_needs_no_shifts() -> None:
    operator, x = Sense(normal(3, 5, 8, seed=2), draw_mask(5, 8)), normal(2, 1, 5, 8)
    torch.testing.assert_close(operator.gram(x), operator.adjoint(operator.forward(x)))


def test_degrees_of_freedom_leave_out_dead_coils() -> None:
    maps = normal(3, 6, 8, seed=2)
    maps[1] = 0
    operator = Sense(maps, draw_mask(6, 8))
    measurement = Measurement(operator.forward(normal(1, 1, 6, 8)), operator, 0.1)
    assert measurement.degrees_of_freedom == 2 * 2 * int(operator.mask.sum())


def test_a_caller_who_knows_the_noise_pays_for_no_more() -> None:
    """Each sample reaches the tolerance asked for it, and a strict operator its own."""
    x = normal(2, 1, 16, 16)
    maps, mask = normal(4, 16, 16, seed=2), draw_mask(16, 16)
    enough = torch.tensor([0.3, 1e-4])
    residuals = []
    for adaptive in (True, False):
        operator = Sense(maps, mask, adaptive=adaptive)
        z = operator.solve(0.01, 1.0, x, tolerance=enough)
        away = 0.01 * z + operator.gram(z) - x
        residuals.append(away.flatten(1).norm(dim=1) / x.flatten(1).norm(dim=1))
    assert 1e-3 < float(residuals[0][0]) <= 0.3
    assert 1e-6 < float(residuals[0][1]) <= 1.01e-4
    assert float(residuals[1].max()) <= 1e-5


def test_where_nothing_is_measured_nothing_is_solved() -> None:
    """A measurement of nothing beside one of something: its estimate is zero, without a warning."""
    masks = torch.stack([draw_mask(8, 8), torch.zeros(8, 8, dtype=torch.bool)])[:, None]
    operator = Sense(normal(2, 8, 8, seed=2), masks)
    y = operator.forward(normal(2, 1, 8, 8))
    estimate = Measurement(y, operator, torch.tensor([0.1, 0.1])).estimate_linearly(0.3)
    assert not bool(estimate[1].abs().any())
    assert bool(estimate[0].abs().any())


def test_what_does_not_converge_says_so() -> None:
    operator = Sense(normal(4, 16, 16, seed=2), draw_mask(16, 16), iterations=2)
    with pytest.warns(ConvergenceWarning, match="after 2 iterations"):
        operator.solve(1e-3, 1.0, normal(1, 1, 16, 16), tolerance=1e-3)


def test_whitened_coils_have_unit_noise_and_the_same_image() -> None:
    mix, x = normal(3, 3, seed=3), normal(1, 1, 6, 8)
    maps, mask = normal(3, 6, 8, seed=2), torch.ones(6, 8, dtype=torch.bool)
    clean = Sense(maps, mask).forward(x)
    white, coils = whiten_coils(clean, maps, mix @ mix.conj().mT)
    torch.testing.assert_close(Sense(coils, mask).forward(x), white)
    noise = SeededNoise(0, [0]).normal(ImageSpec((3, 200, 200), torch.complex64), step=0)
    coloured = torch.einsum("kc,bchw->bkhw", mix, noise)
    plain, _ = whiten_coils(coloured, torch.zeros_like(coloured), mix @ mix.conj().mT)
    flat = plain[0].flatten(1)
    found = flat @ flat.conj().mT / (2 * flat.shape[1])
    torch.testing.assert_close(found, torch.eye(3, dtype=found.dtype), rtol=0, atol=0.02)


def test_refuses() -> None:
    maps, mask = normal(3, 6, 8), draw_mask(6, 8)
    with pytest.raises(InputError, match="maps of Sense are complex"):
        Sense(maps.real, mask)
    with pytest.raises(InputError, match="mask of Sense is boolean"):
        Sense(maps, mask.float())
    with pytest.raises(ShapeError, match="resize the maps"):
        Sense(maps, draw_mask(8, 8))
    with pytest.raises(ShapeError, match="Sense acts on"):
        Sense(maps, mask).forward(normal(1, 2, 6, 8))
    with pytest.raises(DtypeError, match="complex"):
        Sense(maps, mask).forward(torch.zeros(1, 1, 6, 8))
    with pytest.raises(InputError, match="not positive definite"):
        whiten_coils(normal(1, 3, 6, 8), maps, -torch.eye(3))
    with pytest.raises(ShapeError, match="covariance has shape"):
        whiten_coils(normal(1, 3, 6, 8), maps, torch.eye(2))


@pytest.mark.parametrize("lines", ["columns", "rows"])
def test_whole_lines_need_no_transform_along_them(lines: str) -> None:
    flags = torch.tensor([True, False, True, True, False, True, False, True])
    mask = flags.expand(6, 8) if lines == "columns" else flags[:6, None].expand(6, 8)
    operator, x = Sense(normal(3, 6, 8, seed=2), mask), normal(2, 1, 6, 8)
    assert operator._sampled == ((-1,) if lines == "columns" else (-2,))
    torch.testing.assert_close(operator.gram(x), operator.adjoint(operator.forward(x)))


def test_images_with_maps_of_their_own_are_solved_one_by_one() -> None:
    """To the bit as alone, whatever the others are, and as many dark coils as there may be."""
    maps, x = normal(3, 4, 8, 8, seed=2), normal(3, 1, 8, 8)
    maps[1, 2:] = 0
    masks = torch.stack([draw_mask(8, 8), torch.ones(8, 8).bool(), draw_mask(8, 8).T])[:, None]
    a, b = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([3.0, 2.0, 1.0])
    both = Sense(maps, masks).solve(a, b, x, tolerance=torch.tensor([1e-3, 1e-5, 1e-2]))
    for k, coils in enumerate((4, 2, 4)):
        one = Sense(maps[k, :coils], masks[k, 0])
        tolerance = torch.tensor([1e-3, 1e-5, 1e-2])[k : k + 1]
        alone = one.solve(a[k : k + 1], b[k : k + 1], x[k : k + 1], tolerance=tolerance)
        assert torch.equal(both[k : k + 1], alone)
