"""Data held out of a reconstruction are those, all of those, and only those."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.diffusion import posterior_mean
from bcdm.identity import identify
from bcdm.measurement import Measurement
from bcdm.operators import CircularBlur, FourierMask, Identity, PixelMask
from bcdm.trust.heldout import HELD, hold_out, score_held_out


def list_opposite(shape: tuple[int, int], centered: bool) -> Iterator[tuple[int, int, int, int]]:
    """Every frequency and its opposite, as places in a mask; of fft's own layout if not centred."""
    rows, columns = shape
    for row, column in np.ndindex(*shape):
        if centered:
            other = (2 * (rows // 2) - row) % rows, (2 * (columns // 2) - column) % columns
        else:
            other = -row % rows, -column % columns
        yield row, column, *other


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("shape", [(8, 8), (9, 7), (8, 11)])
@pytest.mark.parametrize("seed", [0, 1, 5])
def test_opposite_frequencies_are_held_out_together(
    shape: tuple[int, int], centered: bool, seed: int
) -> None:
    """Of a real image one of them tells the other."""
    full = torch.ones(shape, dtype=torch.bool)
    split = hold_out(FourierMask(full, real=True, centered=centered), seed)
    assert split is not None
    held = split[1]
    for row, column, other_row, other_column in list_opposite(shape, centered):
        assert held[row, column] == held[other_row, other_column]
    drawn = np.random.default_rng(seed).random(shape) < HELD
    drawn[0, 0] = False  # the mean brightness stays
    for row, column, other_row, other_column in list_opposite(shape, centered=False):
        place = (row, column)
        if centered:
            place = ((row + shape[0] // 2) % shape[0], (column + shape[1] // 2) % shape[1])
        assert held[place] == (drawn[row, column] or drawn[other_row, other_column])


@pytest.mark.parametrize("centered", [True, False])
def test_the_mean_brightness_is_never_held_out(centered: bool) -> None:
    full = FourierMask(torch.ones(6, 6, dtype=torch.bool), real=True, centered=centered)
    middle = (3, 3) if centered else (0, 0)
    for seed in range(40):
        split = hold_out(full, seed)
        assert split is not None
        assert not split[1][middle]
        brightness = split[0].forward(torch.ones(1, 1, 6, 6)).abs().sum()
        assert float(brightness) == pytest.approx(6)


@pytest.mark.parametrize("kind", [FourierMask, PixelMask])
def test_what_is_left_out_was_measured_and_the_rest_is_kept(kind) -> None:
    """Weights and shape of a mask stay, and the operator itself is not changed."""
    weights = torch.rand(2, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    weights[weights < 0.5] = 0
    before = weights.clone()
    split = hold_out(kind(weights), 3)
    assert split is not None
    less, held = split
    assert held.dtype == torch.bool
    assert held.shape == less.mask.shape == weights.shape
    assert not bool(held[weights == 0].any())
    assert torch.equal(less.mask, torch.where(held, 0.0, before))
    assert torch.equal(weights, before)
    # Drawn once for all measurements, and about a tenth: twice that where pairs go together.
    pairs = 2 if kind is FourierMask else 1
    share = float(held[weights != 0].double().mean())
    assert 0.5 * pairs * HELD < share < 1.5 * pairs * HELD


def test_pixels_are_held_out_as_drawn() -> None:
    mask = torch.ones(5, 9, dtype=torch.bool)
    mask[2] = False
    split = hold_out(PixelMask(mask), 2)
    assert split is not None
    drawn = torch.from_numpy(np.random.default_rng(2).random((5, 9)) < HELD)
    assert torch.equal(split[1], drawn & mask)


def test_what_measures_everything_at_once_cannot_be_split() -> None:
    assert hold_out(CircularBlur(torch.ones(3, 3), (8, 8))) is None
    assert hold_out(Identity()) is None


def test_held_out_data_do_not_predict_themselves(masked_model: Model, images: Tensor) -> None:
    """Moved by d both ways, they raise a mean square by the mean of d^2, if nobody saw them."""
    measured = Measurement.simulate(images[:2], masked_model.operator, 0.05, seed=1)
    split = hold_out(measured.operator)
    assert split is not None
    held = split[1].expand_as(measured.y)
    moved = torch.randn(measured.y.shape, generator=torch.Generator().manual_seed(0)) * held
    found = []
    for sign in (-1, 0, 1):
        one = Measurement(measured.y + sign * moved, measured.operator, measured.std)
        score = score_held_out(masked_model, one)
        assert score is not None
        found.append(score)
    expected = (moved.double().square().flatten(1).sum(1)) / held.flatten(1).sum(1)
    rise = (found[0] + found[2]) / 2 - found[1]
    torch.testing.assert_close(rise, expected, rtol=1e-4, atol=1e-6)


def test_data_that_are_not_held_out_are_not_counted(masked_model: Model, images: Tensor) -> None:
    """A measurement that the rest predicts to the bit has a score of nothing."""
    measured = Measurement.simulate(images[:1], masked_model.operator, 0.05, seed=1)
    split = hold_out(measured.operator)
    assert split is not None
    less, held = split
    rest = Measurement(measured.y * ~held, less, measured.std)
    mean = posterior_mean(masked_model.method.condition(rest), seed=0, items=identify(rest))
    told = torch.where(held, measured.operator.forward(mean), measured.y)
    score = score_held_out(masked_model, Measurement(told, measured.operator, measured.std))
    assert score is not None
    assert float(score) == pytest.approx(0, abs=1e-10)
