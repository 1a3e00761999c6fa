"""Scores of measurements: what each rests on."""

import pytest
import torch

from bcdm.measurement import Measurement
from bcdm.operators import FourierMask
from bcdm.trust.scores import compare_noise


def test_noise_is_compared_whatever_the_shape_of_the_mask() -> None:
    """Masks of families have axes for the batch and the channel."""
    mask = torch.rand(32, 32, generator=torch.Generator().manual_seed(0)) < 0.5
    x = torch.zeros(1, 1, 32, 32)
    ratios = [
        compare_noise(Measurement.simulate(x, FourierMask(one, real=True), 0.1, seed=0))
        for one in (mask, mask[None, None])
    ]
    assert ratios[0] == ratios[1] == pytest.approx(1, abs=0.1)
