"""What is given in a wrong kind is told of in a sentence, by its name."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import bcdm
from bcdm.checkpoint import Model
from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.operators import CircularBlur, Dense, Diagonal, FourierMask, PixelMask, Sense
from bcdm.reconstruction.features import find_support

MASK = np.ones((4, 4), bool)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: FourierMask(MASK), "mask"),
        (lambda: PixelMask(MASK), "mask"),
        (lambda: Diagonal(np.ones((4, 4))), "weights"),
        (lambda: Dense(np.eye(4)), "matrix"),
        (lambda: CircularBlur(np.ones((3, 3)), (4, 4)), "kernel"),
        (lambda: Sense(mask=MASK, maps=torch.ones(2, 4, 4, dtype=torch.complex64)), "mask"),
        (lambda: Sense(mask=torch.from_numpy(MASK), maps=np.ones((2, 4, 4), complex)), "maps"),
        (lambda: find_support(torch.ones(9, 1, 4, 4), MASK), "region"),
    ],
)
def test_arrays_of_numpy(make: Callable[[], object], name: str) -> None:
    with pytest.raises(DtypeError, match=rf"^{name} is ndarray.*give torch.as_tensor\({name}\)"):
        make()


def test_a_batch_axis_is_asked_for() -> None:
    image = torch.ones(4, 4)
    with pytest.raises(ShapeError, match=r"give axes \(batch, channels, rows, columns\)"):
        PixelMask(torch.from_numpy(MASK)).forward(image)
    with pytest.raises(ShapeError, match=r"give x\[None\]"):
        Dense(torch.eye(16), (1, 4, 4)).forward(image[None])


def test_half_precision_is_refused() -> None:
    with pytest.raises(DtypeError, match=r"y holds torch.float16: convert it to float32"):
        bcdm.Measurement(torch.ones(1, 1, 4, 4).half(), PixelMask(torch.from_numpy(MASK)), 0.1)


def test_what_reconstruct_is_given(masked_model: Model) -> None:
    y = torch.zeros(1, 1, 16, 16)
    measurement = bcdm.Measurement(y, masked_model.operator, 0.05)
    with pytest.raises(InputError, match=r"Tensor is no measurement: give bcdm.Measurement"):
        bcdm.reconstruct(masked_model, y)
    with pytest.raises(InputError, match=r"'ddim' is no sampler: give one such as bcdm.DPMS"):
        bcdm.reconstruct(masked_model, measurement, samples=2, sampler="ddim", force=True)
    with pytest.raises(InputError, match=r"'mine' is no method: give bcdm.load\('mine'\)"):
        bcdm.reconstruct("mine", measurement)
