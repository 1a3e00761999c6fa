"""Scores of measurements: what each rests on."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.checkpoint.calibration import Calibration
from bcdm.checkpoint.usual import CONDITIONS
from bcdm.evaluation.signal import find_brightness
from bcdm.measurement import Measurement
from bcdm.operators import FourierMask, Identity, LinearOperator, PixelMask
from bcdm.reconstruction.contrasts import change_contrast
from bcdm.trust.greys import describe_greys
from bcdm.trust.heldout import score_held_out
from bcdm.trust.looks import describe, find_spots
from bcdm.trust.scores import NAMES, chi_square_of, compare_noise, find_scores

HOLE = torch.rand(64, 64, generator=torch.Generator().manual_seed(1)) < 0.8


def test_noise_is_compared_whatever_the_shape_of_the_mask() -> None:
    """Masks of families have axes for the batch and the channel."""
    mask = torch.rand(32, 32, generator=torch.Generator().manual_seed(0)) < 0.5
    x = torch.zeros(1, 1, 32, 32)
    ratios = [
        compare_noise(Measurement.simulate(x, FourierMask(one, real=True), 0.1, seed=0))
        for one in (mask, mask[None, None])
    ]
    assert ratios[0] == ratios[1] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("operator", [Identity(), PixelMask(HOLE)])
@pytest.mark.parametrize("times", [0.5, 1.0, 3.0])
def test_noise_is_compared_with_the_one_stated(operator: LinearOperator, times: float) -> None:
    """Where nothing was measured the data are zero, which is no sign of little noise."""
    made = Measurement.simulate(torch.zeros(1, 1, 64, 64), operator, times * 0.1, seed=0)
    ratio = compare_noise(Measurement(made.y, operator, 0.1))
    assert ratio == pytest.approx(times, rel=0.15)


def test_data_that_show_no_noise_are_not_compared() -> None:
    assert compare_noise(Measurement(torch.zeros(1, 1, 64, 64), Identity(), 0.1)) is None


def test_chi_square_counts_what_was_measured() -> None:
    mask = torch.zeros(8, 8, dtype=torch.bool)
    mask[:4] = True
    y = torch.zeros(2, 1, 8, 8)
    y[1, 0, :4] = 0.2
    measurement = Measurement(y, PixelMask(mask), 0.1)
    reduced, p_values = chi_square_of(measurement, torch.ones(2, 1, 8, 8) * 0.1)
    assert reduced.tolist() == pytest.approx([1, 1], rel=1e-5)
    assert p_values.tolist() == pytest.approx([p_values[0].item()] * 2, rel=1e-3)
    assert chi_square_of(measurement, y)[0].tolist() == pytest.approx([0, 0], abs=1e-9)


def test_scores_are_logarithms_of_what_is_measured(masked_model: Model, images: Tensor) -> None:
    calibration = Calibration.of(masked_model)
    assert calibration is not None
    looks = calibration.looks
    measured = Measurement.simulate(images, masked_model.operator, 0.05, seed=1)
    preview = images + 0.1 * measured.y
    rows = find_scores(masked_model, measured, looks, preview, images[None] * 0.9)
    linear = masked_model.scales.estimate_linearly(measured)
    held = score_held_out(masked_model, measured)
    assert held is not None
    expected = {
        "residual": chi_square_of(measured, images * 0.9)[0].log(),
        "held-out data": (held / find_brightness(linear, -1.0).square()).log(),
        "typicality": looks["typicality"].score(describe(linear, -1.0)),
        "bright spots": looks["bright spots"].score(find_spots(linear, -1.0)),
        "reconstruction": looks["reconstruction"].score(describe(preview, -1.0)),
        "grey levels": looks["grey levels"].score(
            torch.cat([describe_greys(linear, -1.0), describe_greys(preview, -1.0)], 1)
        ),
    }
    for number, row in enumerate(rows):
        for name, column in expected.items():
            assert row[name] == pytest.approx(float(column[number]), rel=1e-4, abs=1e-4)
        ratio = compare_noise(measured.select(torch.tensor([number])))
        assert row.get("noise level") == (None if ratio is None else math.log(ratio))
        # A corner of 4 x 4 of 16 x 16 pixels is not measured.
        assert (row["noise_std"], row["share"]) == (0.05, 0.9375)
    assert set().union(*rows) <= {*NAMES, *CONDITIONS}
    without = find_scores(masked_model, measured, looks, preview)
    assert [set(row) for row in without] == [set(row) - {"residual"} for row in rows]
    # Calibrations of earlier versions know nothing of grey levels.
    earlier = {name: look for name, look in looks.items() if name != "grey levels"}
    fewer = find_scores(masked_model, measured, earlier, preview)
    assert [set(row) for row in fewer] == [set(row) - {"grey levels"} for row in without]


def test_another_contrast_scores_worse(masked_model: Model, images: Tensor) -> None:
    """The tiny network knows nothing; what the data show is enough here."""
    calibration = Calibration.of(masked_model)
    assert calibration is not None
    medians = []
    for shown in (images, change_contrast(images, (-1.0, 1.0), 5)):
        measured = Measurement.simulate(shown, masked_model.operator, 0.05, seed=1)
        rows = find_scores(masked_model, measured, calibration.looks, shown)
        medians.append(float(np.median([row["grey levels"] for row in rows])))
    assert medians[1] > medians[0] + 1
