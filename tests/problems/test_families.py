"""Families: every draw lies in its range, and a batch of them is each of them."""

import hashlib

import numpy as np
import pytest
import torch

from bcdm.errors import InputError, ShapeError
from bcdm.operators import FourierMask, Identity, PixelMask, Root
from bcdm.problems import DrawnProblems
from bcdm.problems.families import Blocks, Blurs, Family, Holes, KSpace, draw_operators
from bcdm.problems.patterns import (
    draw_box,
    draw_free_form,
    draw_gaussian_kernel,
    draw_motion_kernel,
    draw_radial,
)

SIZE = (32, 40)
ALL = (KSpace(), Holes(), Blurs(), Blocks((2, 4)))


def streams(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng([7, k]) for k in range(count)]


def test_masks_have_the_drawn_acceleration() -> None:
    family = KSpace((3.0, 6.0))
    for rng in streams(60):
        mask = family.draw(SIZE, rng).mask
        # A spoke, a line or a pair of frequencies more or less.
        assert 1 / 6.1 <= float(mask.float().mean()) <= 1 / 3 + 2 * 40 / mask.numel()
        shifted = torch.fft.ifftshift(mask)
        assert torch.equal(shifted, shifted.flip(0, 1).roll((1, 1), (0, 1)))


def test_holes_hide_the_drawn_part() -> None:
    family = Holes((0.1, 0.3))
    for rng in streams(60):
        hidden = 1 - float(family.draw(SIZE, rng).mask.float().mean())
        assert 0.07 <= hidden <= 0.33


@pytest.mark.parametrize("size", [(64, 16), (24, 80)])
def test_holes_of_long_images_hide_as_much(size: tuple[int, int]) -> None:
    family = Holes((0.4, 0.4), ("centre", "box"))
    hidden = [1 - float(family.draw(size, rng).mask.float().mean()) for rng in streams(60)]
    # A slim box ends at the image's sides; sides are whole pixels.
    assert 0.3 <= min(hidden) <= max(hidden) <= 0.45
    assert np.median(hidden) == pytest.approx(0.4, abs=0.02)


def test_kernels_sum_to_one_and_widen() -> None:
    def width(kernel: torch.Tensor) -> float:
        axis = torch.arange(len(kernel)) - len(kernel) // 2
        return float((kernel * (axis[:, None] ** 2 + axis**2)).sum() ** 0.5)

    for draw in (
        draw_gaussian_kernel,
        lambda length: draw_motion_kernel(length, seed=3),
    ):
        kernels = [draw(size) for size in (1.0, 3.0, 6.0)]
        for kernel in kernels:
            assert float(kernel.sum()) == pytest.approx(1, abs=1e-6)
            assert kernel.shape[0] % 2 == 1
        widths = [width(kernel) for kernel in kernels]
        assert widths == sorted(widths)


def test_patterns_follow_their_seed() -> None:
    for draw in (
        lambda seed: draw_radial(SIZE, 4.0, seed=seed),
        lambda seed: draw_box(SIZE, (5, 6), seed=seed),
        lambda seed: draw_free_form(SIZE, 0.2, seed=seed),
        lambda seed: draw_motion_kernel(5.0, seed=seed),
    ):
        assert torch.equal(draw(1), draw(1))
        assert not torch.equal(draw(1), draw(2))


def test_a_batch_is_each_of_its_operators() -> None:
    batch = draw_operators(ALL, SIZE, streams(12))
    assert sorted(int(k) for rows in batch.rows or () for k in rows) == list(range(12))
    x = torch.randn(12, 3, *SIZE, generator=torch.Generator().manual_seed(0))
    shift = torch.linspace(0.1, 2, 12)
    solved = batch.solve(shift, 3.0, x)
    rooted = batch.gram_function(lambda e: (shift[:, None, None, None] + e).sqrt(), x)
    for k, rng in enumerate(streams(12)):
        family: Family = ALL[int(rng.integers(len(ALL)))]
        own = family.draw(SIZE, rng)
        one = x[k : k + 1]
        torch.testing.assert_close(solved[k : k + 1], own.solve(float(shift[k]), 3.0, one))
        direct = own.gram_function(lambda e, k=k: (shift[k] + e).sqrt(), one)
        torch.testing.assert_close(rooted[k : k + 1], direct)
        torch.testing.assert_close(batch.gram(x)[k : k + 1], own.gram(one), atol=2e-6, rtol=1e-5)
    chosen = batch.select(torch.tensor([11, 3]))
    torch.testing.assert_close(chosen.solve(shift[[11, 3]], 3.0, x[[11, 3]]), solved[[11, 3]])


def test_problems_are_functions_of_the_counter() -> None:
    problems = DrawnProblems(ALL, SIZE, (0.005, 0.2), seed=3)
    x = torch.randn(6, 1, *SIZE, generator=torch.Generator().manual_seed(0))
    whole, stds = problems.draw(range(6))
    part, some = problems.draw([4, 2])
    assert torch.equal(some, stds[[4, 2]])
    torch.testing.assert_close(part.forward(x[[4, 2]]), whole.forward(x)[[4, 2]])
    many = problems.draw(range(2000))[1].log()
    assert float(many.exp().min()) >= 0.005
    assert float(many.exp().max()) <= 0.2
    assert float(many.mean()) == pytest.approx(np.log(0.001) / 2, abs=0.1)


def test_one_operator_serves_many_samples_and_no_batch_is_half_filled() -> None:
    problems = DrawnProblems(ALL, SIZE, (0.01, 0.1), seed=3)
    x = torch.randn(4, 1, *SIZE, generator=torch.Generator().manual_seed(0))
    one, _ = problems.draw([9])
    torch.testing.assert_close(
        one.forward(x), torch.cat([one.forward(part) for part in x.split(1)])
    )
    three, _ = problems.draw([7, 8, 9])
    with pytest.raises(ShapeError, match="3 samples"):
        three.forward(x)


def hash_draws(problems: DrawnProblems) -> str:
    operator, std = problems.draw(range(64))
    parts = [o.mask for o in operator.operators if isinstance(o, FourierMask)]
    content = b"".join(t.numpy().tobytes() for t in [std, *parts, *(operator.rows or ())])
    return hashlib.sha256(content).hexdigest()[:16]


def test_draws_of_shipped_models_stay_the_same_to_the_bit() -> None:
    """The settings of ixi64-mri; the hash was taken before scanners' masks were added."""
    problems = DrawnProblems((KSpace((2.0, 12.0)),), (64, 64), (0.005, 0.2), seed=0)
    assert hash_draws(problems) == "56fb8bd3aee38f5c"


def test_nothing_is_measured_in_a_stated_fraction() -> None:
    problems = DrawnProblems(ALL, SIZE, (0.01, 0.1), seed=3, nothing=0.1)
    operator, _ = problems.draw(range(600))
    x = torch.ones(600, 1, *SIZE)
    x[..., ::2] = 0
    blind = operator.forward(x).flatten(1).abs().amax(1) == 0
    # 10 % of 600; four standard errors.
    assert 0.05 < float(blind.double().mean()) < 0.15
    row = int(blind.nonzero()[0])
    alone, _ = problems.draw([row])
    assert not alone.forward(x[:1]).any()
    assert torch.equal(alone.solve(0.5, 3.0, x[:1]), 2 * x[:1])
    with pytest.raises(InputError, match="nothing"):
        DrawnProblems(ALL, SIZE, (0.01, 0.1), seed=3, nothing=1.0)


def test_errors() -> None:
    with pytest.raises(InputError, match="divide"):
        DrawnProblems((Blocks((3,)),), SIZE, (0.01, 0.1), seed=0)
    with pytest.raises(InputError, match="lines"):
        DrawnProblems((KSpace((2.0, 30.0)),), SIZE, (0.01, 0.1), seed=0)
    with pytest.raises(InputError, match="noise_std"):
        DrawnProblems(ALL, SIZE, (0.2, 0.1), seed=0)
    with pytest.raises(InputError, match="exactly one"):
        Root((Identity(), Identity()), (torch.tensor([0]), torch.tensor([2])))
    with pytest.raises(InputError, match="spokes"):
        draw_radial(SIZE, 1.2, seed=0)
    with pytest.raises(InputError, match="acceleration"):
        KSpace((0.5, 3.0))
    with pytest.raises(InputError, match="points, lines, radial"):
        KSpace(patterns=("spiral",))
    with pytest.raises(InputError, match="hidden"):
        Holes((0.5, 0.2))
    with pytest.raises(InputError, match="shapes"):
        Holes(shapes=())
    with pytest.raises(InputError, match="rows"):
        Root((FourierMask(torch.ones(4, 4)), PixelMask(torch.ones(4, 4))))
    with pytest.raises(InputError, match="fit"):
        draw_box((4, 4), (5, 2), seed=0)
    with pytest.raises(InputError, match="hidden"):
        draw_free_form((4, 4), 1.0, seed=0)
