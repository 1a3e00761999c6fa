"""The method contract: a measurement in, a denoiser out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from bcdm.diffusion import Denoiser, NoiseLevel, Schedule
from bcdm.errors import ShapeError
from bcdm.measurement import Measurement
from bcdm.operators import LinearOperator
from bcdm.tensors import ImageSpec, fit

__all__ = [
    "BoundDenoiser",
    "Method",
    "check_batch",
    "check_count",
    "check_image",
    "solve_seen",
]


class Method(Protocol):
    r"""A way to $E[x_0 \mid x_t, y]$."""

    def condition(self, measurement: Measurement) -> Denoiser:
        """Binds a measurement."""
        ...


@dataclass(frozen=True)
class BoundDenoiser:
    """An unconditional denoiser, turned into a conditional one.

    Args:
        prior: The unconditional denoiser.
        mean: Gives the mean of x_0 with the measurement bound.
        measurement: What is bound: with several, x_t holds one image of each. Left out: whatever
            `mean` takes.
    """

    prior: Denoiser
    mean: Callable[[Tensor, NoiseLevel], Tensor]
    measurement: Measurement | None = None

    def __post_init__(self) -> None:
        if self.measurement is not None:
            check_image(self.prior.image, self.measurement)

    @property
    def schedule(self) -> Schedule:
        """The prior's."""
        return self.prior.schedule

    @property
    def image(self) -> ImageSpec:
        """The prior's."""
        return self.prior.image

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        r"""$E[x_0 \mid x_t, y]$."""
        if self.measurement is not None:
            check_batch(self.measurement, x_t)
        return self.mean(x_t, level)


def check_image(image: ImageSpec, measurement: Measurement) -> None:
    """Refuses a measurement of other images: grey data would count once for each colour."""
    if measurement.image.shape != image.shape:
        raise ShapeError(
            f"the prior is over images {image.shape}, the measurement gives "
            f"{measurement.image.shape}"
        )


def check_batch(measurement: Measurement, x_t: Tensor) -> None:
    """Refuses images that are not one of each measurement, unless there is only one.

    A batch of one would be stretched over all measurements without a word.
    """
    check_count(len(measurement.y), x_t)


def check_count(count: int, x_t: Tensor) -> None:
    """As `check_batch`, for what has only the number of measurements left."""
    if count not in (1, len(x_t)):
        raise ShapeError(
            f"{count} measurements are bound but x_t holds {len(x_t)} images: draw one of each at "
            f"a time (indices=range({count})), or bind one"
        )


def solve_seen(operator: LinearOperator, a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    r"""$(a I + b A^\top A)^{-1} x$ for an $x$ that is $A^\top$ of something.

    Only rounding of such an image lies where nothing is measured; a small $a$ must not divide it.
    """
    if not operator.closed_form:
        return operator.solve(a, b, x)
    first, second = fit(x, a, b)
    return operator.gram_function(lambda e: (e > 0) / (first + second * e), x)
