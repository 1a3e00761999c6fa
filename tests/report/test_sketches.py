"""Every operator has a label, and a picture where one helps."""

import numpy as np
import torch

from bcdm.operators import (
    BlockMean,
    CircularBlur,
    FourierMask,
    Identity,
    PixelMask,
    Radon,
    Sense,
    space_angles,
)
from bcdm.report.sketches import sketch


def test_masks_are_shown_with_what_they_leave_out() -> None:
    mask = torch.zeros(2, 1, 4, 8)
    mask[:, :, ::2] = 1
    maps = torch.ones(3, 4, 8, dtype=torch.complex64)
    for operator, label in (
        (FourierMask(mask, real=True), "sampled k-space, 2.0x accelerated"),
        (Sense(maps, mask.bool()), "sampled k-space, 2.0x accelerated"),
        (PixelMask(mask), "known pixels, 50% missing"),
    ):
        picture, said = sketch(operator)
        assert said == label
        np.testing.assert_array_equal(picture, mask[0, 0])


def test_a_kernel_is_shown_and_what_has_no_picture_is_named() -> None:
    kernel = torch.full((3, 3), 1 / 9)
    picture, said = sketch(CircularBlur(kernel, (8, 8)))
    np.testing.assert_allclose(picture, kernel)
    assert said == "blur kernel"
    assert sketch(BlockMean((2, 2))) == (None, "block means")
    assert sketch(Radon(space_angles(30), (8, 8))) == (None, "30 parallel-beam projections")
    fan = Radon(space_angles(9, 360), (8, 8), source_distance=20.0)
    assert sketch(fan) == (None, "9 fan-beam projections")
    assert sketch(Identity()) == (None, "Identity")
