"""Masks of scanners: what they promise about number, middle, spacing, symmetry and seed."""

import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.errors import InputError
from bcdm.operators import FourierMask, to_matrix
from bcdm.problems.families import SCANNER, SYMMETRIC, KSpace
from bcdm.problems.patterns import draw_variable_density
from bcdm.problems.scanner import draw_equispaced, draw_poisson_disc, draw_random_lines

SIZE = (64, 48)


def draw(pattern: str, acceleration: float = 4.0, seed: int = 0) -> Tensor:
    return KSpace().draw_pattern(pattern, SIZE, acceleration, np.random.default_rng(seed))


def mirror(mask: Tensor) -> Tensor:
    return torch.fft.fftshift(torch.fft.ifftshift(mask).flip(0, 1).roll((1, 1), (0, 1)))


@pytest.mark.parametrize("pattern", SCANNER)
@pytest.mark.parametrize("acceleration", [2.0, 5.0, 12.0])
def test_as_many_samples_as_the_acceleration_says(pattern: str, acceleration: float) -> None:
    for seed in range(3):
        mask = draw(pattern, acceleration, seed)
        whole = mask.numel()
        if pattern.endswith(("columns", "rows")):
            whole = SIZE[0] if pattern.endswith("rows") else SIZE[1]
        taken = float(mask.float().mean()) * whole
        # Lines at equal distances may meet the middle, or miss it, once or twice.
        slack = 2 if pattern.startswith("equispaced") else 0
        assert abs(taken - round(whole / acceleration)) <= slack + 1e-3


@pytest.mark.parametrize("pattern", SCANNER)
def test_the_middle_is_full_and_a_seed_gives_one_mask(pattern: str) -> None:
    mask = draw(pattern)
    centre = mask[SIZE[0] // 2 - 1 : SIZE[0] // 2 + 1, SIZE[1] // 2 - 1 : SIZE[1] // 2 + 1]
    assert centre.all()
    assert torch.equal(mask, draw(pattern))
    assert not torch.equal(mask, draw(pattern, seed=1))


def test_only_the_old_patterns_are_symmetric() -> None:
    for pattern in SYMMETRIC:
        mask = draw(pattern)
        assert torch.equal(mask, mirror(mask))
    for pattern in SCANNER:
        alone = [draw(pattern, seed=s) & ~mirror(draw(pattern, seed=s)) for s in range(5)]
        assert np.mean([float(a.float().mean()) for a in alone]) > 0.02


def test_rows_are_columns_turned() -> None:
    for pattern in ("free", "random", "equispaced"):
        columns, rows = draw(f"{pattern}_columns"), draw(f"{pattern}_rows")
        assert torch.equal(columns, columns[:1].expand(SIZE))
        assert torch.equal(rows, rows[:, :1].expand(SIZE))


def test_the_middle_has_the_stated_width() -> None:
    for make in (draw_random_lines, draw_equispaced):
        lines = make((8, 100), 4.0, centre=0.08, seed=0)[0]
        assert lines[46:54].all()
        with pytest.raises(InputError, match="shrink"):
            make((8, 100), 4.0, centre=0.5, seed=0)
    square = draw_poisson_disc((64, 64), 8.0, centre=0.125, seed=0)[28:36, 28:36]
    assert square.all()
    with pytest.raises(InputError, match="shrink"):
        draw_poisson_disc((64, 64), 8.0, centre=0.5, seed=0)


def test_random_lines_are_equally_likely_outside_of_the_middle() -> None:
    masks = [draw_random_lines((2, 40), 4.0, centre=0.1, seed=s)[0] for s in range(2000)]
    often = torch.stack(masks).double().mean(0)
    outer = torch.cat([often[:18], often[22:]])
    # 6 of 36; five standard errors of 2,000 draws.
    assert float((outer - 6 / 36).abs().max()) < 5 * (6 / 36 * 30 / 36 / 2000) ** 0.5


def test_equal_distances_are_equal() -> None:
    starts = set()
    for seed in range(20):
        lines = draw_equispaced((2, 128), 4.0, centre=0.08, seed=seed)[0]
        below = lines[:55].nonzero()[:, 0]
        gaps = set((below[1:] - below[:-1]).tolist())
        assert max(gaps) - min(gaps) <= 1
        starts.add(int(below[0]))
    assert len(starts) > 3


def test_discs_keep_their_distance() -> None:
    """Points of the same number without that rule have neighbours side by side."""

    def find_nearest(mask: Tensor) -> float:
        places = mask.nonzero().double()
        outer = places[(places - 32).norm(dim=1) > 20]
        distances = torch.cdist(outer, outer).fill_diagonal_(99)
        return float(distances.min())

    for seed in range(3):
        assert find_nearest(draw_poisson_disc((64, 64), 8.0, centre=0.06, seed=seed)) > 2
        assert find_nearest(draw_poisson_disc((64, 64), 4.0, centre=0.06, seed=seed)) > 1
        free = draw_variable_density((64, 64), 8.0, centre=0.06, seed=seed, symmetric=False)
        assert find_nearest(free) == 1
    near, far = (
        draw_poisson_disc((64, 64), 8.0, centre=0.06, seed=0)[part].float().mean()
        for part in (slice(24, 40), slice(0, 16))
    )
    assert float(near) > 1.5 * float(far)


@pytest.mark.parametrize("pattern", ["free_points", "random_columns", "equispaced_rows", "poisson"])
def test_masks_without_symmetry_are_exact_for_real_images(pattern: str) -> None:
    """Gram matrix, its functions and the adjoint, against the dense matrix of Re and Im parts."""
    size = (8, 10)
    mask = KSpace().draw_pattern(pattern, size, 2.5, np.random.default_rng(1))
    operator = FourierMask(mask, real=True)
    dense = to_matrix(operator, (1, *size), torch.float64)
    gram = dense.T @ dense
    basis = torch.eye(80, dtype=torch.float64).reshape(80, 1, *size)
    filtered = operator.gram_function(lambda e: e, basis)
    torch.testing.assert_close(filtered.reshape(80, 80), gram)
    torch.testing.assert_close(operator.adjoint(operator.forward(basis)).reshape(80, 80), gram)
    x = torch.randn(3, 1, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    solved = torch.linalg.solve(0.3 * torch.eye(80).double() + 2 * gram, x.reshape(3, 80).T).T
    torch.testing.assert_close(operator.solve(0.3, 2.0, x).reshape(3, 80), solved)
    # Half of the information of a pair where one of the two is measured.
    values = torch.linalg.eigvalsh(gram)
    nearest = (values[:, None] - torch.tensor([0, 0.5, 1]).double()).abs().min(1).values
    assert float(nearest.max()) < 1e-9
    assert int(((values - 0.5).abs() < 1e-9).sum()) > 0
