"""Pictures of operators: what was measured, at a glance."""

from functools import singledispatch
from typing import NamedTuple

import numpy as np
from torch import Tensor

from bcdm.operators import (
    BlockMean,
    CircularBlur,
    FourierMask,
    LinearOperator,
    PixelMask,
    Radon,
    Sense,
)
from bcdm.report.content import Array

__all__ = ["Sketch", "sketch"]


class Sketch(NamedTuple):
    """A picture (h, w), where there is one, and what it is."""

    picture: Array | None
    label: str


@singledispatch
def sketch(operator: LinearOperator) -> Sketch:
    """Draws an operator; one that has no picture gives its name."""
    return Sketch(None, type(operator).__name__)


@sketch.register(FourierMask)
@sketch.register(Sense)
def _(operator: FourierMask | Sense) -> Sketch:
    mask = _take_first(operator.mask) != 0
    share = 1 / max(float(mask.mean()), 1e-9)
    return Sketch(mask.astype(np.float32), f"sampled k-space, {share:.1f}x accelerated")


@sketch.register
def _(operator: PixelMask) -> Sketch:
    mask = _take_first(operator.mask) != 0
    return Sketch(mask.astype(np.float32), f"known pixels, {1 - mask.mean():.0%} missing")


@sketch.register
def _(operator: CircularBlur) -> Sketch:
    return Sketch(_take_first(operator.kernel), "blur kernel")


@sketch.register
def _(operator: BlockMean) -> Sketch:
    return Sketch(None, "block means")


@sketch.register
def _(operator: Radon) -> Sketch:
    beam = "parallel" if operator.source_distance is None else "fan"
    return Sketch(None, f"{len(operator.angles)} {beam}-beam projections")


def _take_first(stack: Tensor) -> Array:
    """The first picture of a tensor (..., h, w)."""
    picture: Array = stack.reshape(-1, *stack.shape[-2:])[0].cpu().float().numpy()
    return picture
