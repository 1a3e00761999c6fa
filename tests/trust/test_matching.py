"""Is a measurement one of those that a model was trained for?"""

from dataclasses import replace
from math import nan

import pytest
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.checkpoint.settings import ScopeConfig
from bcdm.measurement import Measurement
from bcdm.operators import BlockMean, FourierMask, LinearOperator, PixelMask
from bcdm.trust import UnfitError, check_operator, find_unfamiliar
from bcdm.trust.matching import fits_size, is_near


def scale(model: Model, factor: float) -> PixelMask:
    assert isinstance(model.operator, PixelMask)
    return PixelMask(model.operator.mask.float() * factor)


@pytest.mark.parametrize("factor", [1.0, 1 + 5e-5, 1 - 5e-5])
def test_rounding_makes_no_other_operator(masked_model: Model, factor: float) -> None:
    check_operator(scale(masked_model, factor), masked_model)


@pytest.mark.parametrize(
    "other",
    [
        PixelMask(torch.ones(16, 16)),
        BlockMean((2, 2)),
        FourierMask(torch.ones(16, 16, dtype=torch.bool), real=True),
    ],
)
def test_another_operator_is_refused(masked_model: Model, other: LinearOperator) -> None:
    with pytest.raises(UnfitError, match="masked is made for one operator, PixelMask, and"):
        check_operator(other, masked_model)
    # Nothing is known where training's operator is not.
    check_operator(other, replace(masked_model, trained_operator=None))


@pytest.mark.parametrize("factor", [1 + 2e-4, 1 - 2e-4, -1.0, nan])
def test_more_than_rounding_is_refused(masked_model: Model, factor: float) -> None:
    with pytest.raises(UnfitError, match="measures something else"):
        check_operator(scale(masked_model, factor), masked_model)


def test_an_operator_of_complex_data_is_matched_too(masked_model: Model) -> None:
    mask = torch.arange(256).reshape(16, 16) % 3 == 0
    model = replace(masked_model, trained_operator=FourierMask(mask, real=True))
    check_operator(FourierMask(mask.clone(), real=True), model)
    with pytest.raises(UnfitError, match="measures something else"):
        check_operator(FourierMask(mask.roll(1, 0), real=True), model)


def test_sizes_that_a_model_makes(masked_model: Model) -> None:
    """Its own, or with a scope any other of as many channels."""
    scope = ScopeConfig(sides=(16, 32), spacing=(1.0, 2.0))
    config = masked_model.config.model_copy(update={"scope": scope})
    shapes = [(1, 16, 16), (1, 24, 20), (2, 24, 20), (24, 20)]
    for model, expected in (
        (masked_model, [True, False, False, False]),
        (replace(masked_model, config=config), [True, True, False, False]),
    ):
        assert [fits_size(model, shape) for shape in shapes] == expected


@pytest.mark.parametrize(
    ("sides", "reason"),
    [
        ((16, 32), ""),
        ((8, 16), ""),
        ((17, 32), "images of 16 x 16 pixels, and it is for sides of 17 to 32"),
        ((8, 15), "images of 16 x 16 pixels, and it is for sides of 8 to 15"),
    ],
)
def test_sizes_that_a_model_was_not_trained_for(
    masked_model: Model, images: Tensor, sides: tuple[int, int], reason: str
) -> None:
    scope = ScopeConfig(sides=sides, spacing=(1.0, 2.0))
    config = masked_model.config.model_copy(update={"scope": scope})
    measurement = Measurement.simulate(images, scale(masked_model, 1), 0.05, seed=0)
    found = find_unfamiliar(replace(masked_model, config=config), measurement)
    assert found == [reason] * len(images)


def test_each_measurement_is_matched_alone(masked_model: Model, images: Tensor) -> None:
    own = scale(masked_model, 1).mask.reshape(1, 1, 16, 16)
    masks = torch.cat([own, torch.ones_like(own), own])
    measurement = Measurement.simulate(images, PixelMask(masks), 0.05, seed=0)
    reasons = find_unfamiliar(masked_model, measurement)
    assert [bool(reason) for reason in reasons] == [False, True, False]
    assert "made for one operator" in reasons[1]


@pytest.mark.parametrize(
    ("one", "expected"), [(0.9, False), (1.0, True), (1.5, True), (2.25, True), (2.3, False)]
)
def test_noise_levels_that_count_as_the_same(one: float, expected: bool) -> None:
    assert is_near(one, 1.5) == expected


def test_matching_leaves_the_global_generator_alone(masked_model: Model) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    check_operator(scale(masked_model, 1.0), masked_model)
    assert torch.equal(torch.get_rng_state(), before)
