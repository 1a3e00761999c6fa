"""Names of measurements: by content, whatever stands beside it and however it is stored."""

import pytest
import torch

from bcdm.identity import identify
from bcdm.measurement import Measurement
from bcdm.operators import CircularBlur, FourierMask, LinearOperator, MatrixFree, PixelMask, Root

GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.rand(4, 1, 8, 8, generator=GENERATOR)
MASKS = torch.rand(4, 1, 8, 8, generator=GENERATOR) < 0.5
KERNELS = torch.rand(4, 1, 3, 3, generator=GENERATOR)

OPERATORS = {
    "shared": PixelMask(MASKS[0, 0]),
    "masks": PixelMask(MASKS),
    "k-space": FourierMask(MASKS, real=True),
    "kernels": CircularBlur(KERNELS, (8, 8)),
    "mixed": Root(
        (PixelMask(MASKS[:2]), CircularBlur(KERNELS[:2], (8, 8))),
        (torch.tensor([0, 2]), torch.tensor([1, 3])),
    ),
    "code": MatrixFree(lambda x: 2 * x, lambda y: 2 * y, shape=(1, 8, 8)),
}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_a_name_is_that_of_the_content(operator: LinearOperator) -> None:
    std = torch.tensor([0.1, 0.2, 0.1, 0.3])
    whole = Measurement.simulate(IMAGES, operator, std, seed=0)
    names = identify(whole)
    assert len(set(names)) == 4
    for rows in ([2], [3, 1], [1, 1, 0]):
        assert identify(whole.select(torch.tensor(rows))) == [names[row] for row in rows]


def test_every_part_counts() -> None:
    y = torch.zeros(1, 1, 8, 8)
    mask, other = MASKS[0, 0], MASKS[1, 0]
    given = [
        Measurement(y, PixelMask(mask), 0.1),
        Measurement(y, PixelMask(mask), 0.2),
        Measurement(y, PixelMask(other), 0.1),
        Measurement(y, CircularBlur(KERNELS[0, 0], (8, 8)), 0.1),
        Measurement(y.to(torch.complex64), FourierMask(mask, real=True), 0.1),
        Measurement(y.to(torch.complex64), FourierMask(mask, real=True, centered=False), 0.1),
        Measurement(y + mask, PixelMask(mask), 0.1),
    ]
    assert len({identify(one)[0] for one in given}) == len(given)


def test_storage_does_not_count() -> None:
    y, mask = IMAGES[:1], MASKS[0, 0]
    name = identify(Measurement(y, PixelMask(mask), 0.1))
    assert identify(Measurement(y.double(), PixelMask(mask), 0.1)) == name
    assert identify(Measurement(y, PixelMask(mask.float()), 0.1)) == name
    assert identify(Measurement(y, PixelMask(mask[None, None]), 0.1)) == name
    negative = torch.where(mask, y, torch.tensor(-0.0))
    std = torch.tensor([0.1], dtype=torch.float64)
    assert identify(Measurement(negative, PixelMask(mask), std)) == name
