"""Intervals that hold what they promise in the air and in the object, each."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.checkpoint.calibration import Calibration
from bcdm.checkpoint.usual import Usual
from bcdm.checkpoint.widths import LocalFactors
from bcdm.measurement import Measurement
from bcdm.reconstruction import Posterior
from bcdm.reconstruction.widths import LEAST, _choose, fit_factor, fit_widths

SPREAD = {"air": 0.8, "object": 1.5}  # of the truth, over that of the samples


def make_posteriors(
    model: Model, count: int, seed: int, samples: int = 20, size: int = 48
) -> Iterator[tuple[Posterior, Tensor, Tensor]]:
    """A bright disc in the air whose samples vary too little, and in the air too much.

    Posteriors, the truth behind each, and where the object is.
    """
    generator = torch.Generator().manual_seed(seed)
    axis = torch.arange(size) - size / 2 + 0.5
    inside = torch.hypot(axis[:, None], axis) < size / 4
    middle = torch.where(inside, 0.5, -1.0).expand(1, 1, size, size)
    spread = torch.where(inside, SPREAD["object"], SPREAD["air"])
    nothing = Measurement(torch.zeros(1, *model.shape), model.operator, 1.0)
    for _ in range(count):
        drawn = middle + 0.02 * torch.randn(samples, *middle.shape, generator=generator)
        truth = middle + 0.02 * spread * torch.randn(middle.shape, generator=generator)
        yield Posterior(model, nothing, middle, drawn), truth, inside


def find_coverage(model: Model, level: float) -> dict[str, float]:
    """On fresh images, by part."""
    held: dict[str, list[Tensor]] = {"air": [], "object": []}
    for posterior, truth, inside in make_posteriors(model, 40, seed=1):
        low, high = posterior.interval(level)
        right = ((truth >= low) & (truth <= high))[0, 0]
        held["object"].append(right[inside])
        held["air"].append(right[~inside])
    return {name: float(torch.cat(parts).double().mean()) for name, parts in held.items()}


def calibrate(model: Model, *, local: bool) -> Model:
    known = ((posterior, truth) for posterior, truth, _ in make_posteriors(model, 40, seed=0))
    factors, found = fit_widths(known, (0.5, 0.8))
    kept = found if local else None
    calibration = Calibration({}, Usual(), factors, (0.0, 0.5, 1.0), "discs", kept)
    return replace(model, facts=model.facts | {"calibration": calibration.to_plain()})


@pytest.mark.parametrize("level", [0.5, 0.8])
def test_air_does_not_pay_for_the_object(masked_model: Model, level: float) -> None:
    """18,000 pixels of the disc, so that two standard errors are below a point."""
    alike = find_coverage(calibrate(masked_model, local=False), level)
    # One factor for all: right on average, and wrong everywhere.
    assert alike["air"] > level + 0.03
    assert alike["object"] < level - 0.1
    found = find_coverage(calibrate(masked_model, local=True), level)
    assert found == pytest.approx({"air": level, "object": level}, abs=0.02)


@pytest.mark.parametrize(
    ("number", "bins"),
    [(0, {0}), (1, {0, 1}), (2, {0, 1}), (3, {1, 5}), (4, {5}), (5, {5})],
)
def test_a_bin_of_few_pixels_is_fitted_with_its_neighbours(number: int, bins: set[int]) -> None:
    place = torch.tensor([0] * LEAST + [1] * (LEAST - 1) + [5] * LEAST)
    assert set(place[_choose(place, number)].tolist()) == bins


def test_too_few_pixels_are_taken_all() -> None:
    assert int(_choose(torch.tensor([0, 0, 5]), 0).sum()) == 3


def test_no_level_means_no_factors(masked_model: Model) -> None:
    known = ((posterior, truth) for posterior, truth, _ in make_posteriors(masked_model, 1, 0))
    assert fit_widths(known, ()) == ({}, None)


def test_a_factor_is_a_quantile() -> None:
    assert fit_factor(torch.arange(101.0), 0.8) == pytest.approx(80)


def test_each_pixel_has_the_factor_of_its_signal(masked_model: Model) -> None:
    local = LocalFactors((0.1, 0.5), {0.5: [1.0, 2.0, 3.0], 0.9: [2.0, 2.0, 5.0]})
    signal = torch.tensor([-1.0, 0.0, 0.0999, 0.1, 0.4, 0.5, 7.0])
    assert local.find(0.5, signal).tolist() == [1, 1, 1, 2, 2, 3, 3]
    assert local.find(0.7, signal).tolist() == pytest.approx([1.5, 1.5, 1.5, 2, 2, 4, 4])
    assert local.list_factors(0.99) == [2, 2, 5]
    again = LocalFactors.from_plain(local.to_plain())
    assert again == local
