"""Which pixels count as hidden."""

import pytest
import torch
from torch import Tensor

from bcdm.assessment.metrics import Scores
from bcdm.measurement import Measurement
from bcdm.operators import BlockMean, Dense, Diagonal, LinearOperator, PixelMask, Radon


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


SHOWN = draw(16, 16, seed=3) > 0
OPERATORS: dict[str, tuple[LinearOperator, bool]] = {
    "some pixels": (PixelMask(SHOWN), True),
    "some pixels, weighed": (Diagonal(SHOWN[None, None].float()), True),
    "all pixels": (PixelMask(torch.ones(16, 16, dtype=torch.bool)), False),
    "all pixels, weighed": (Diagonal(torch.ones(1, 1, 16, 16)), False),
    "as many numbers as columns": (Dense(draw(16, 256, seed=1), (1, 16, 16)), False),
    "other numbers": (Dense(draw(40, 256, seed=2), (1, 16, 16)), False),
    "projections": (Radon(torch.linspace(0, 3, 5), (16, 16)), False),
    "means": (BlockMean((2, 2)), False),
}


@pytest.mark.parametrize(("operator", "hides"), OPERATORS.values(), ids=list(OPERATORS))
def test_hidden_pixels_are_those_that_a_mask_does_not_show(
    operator: LinearOperator, hides: bool
) -> None:
    x = draw(2, 1, 16, 16, seed=4)
    samples = torch.stack([x + draw(*x.shape, seed=seed) for seed in range(5, 10)])
    scores = Scores()
    scores.judge_samples(x, samples, Measurement.simulate(x, operator, 0.1, seed=1), (0.5,))
    assert (("coverage 50%", "hidden pixels") in scores.rows) == hides
