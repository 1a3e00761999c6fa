"""A noise level with its error, and where it comes from."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

from bcdm.errors import InputError

__all__ = ["NoiseEstimate", "choose"]


@dataclass(frozen=True)
class NoiseEstimate:
    """The standard deviation of white noise, measured.

    Attributes:
        std: In the units of the data; for complex data, of the real and of the imaginary part each.
        standard_error: Of `std`.
        source: What it was measured on, in words.
        samples: How many real numbers it rests on: so many of pure noise have this error.
    """

    std: float
    standard_error: float
    source: str
    samples: int

    def __post_init__(self) -> None:
        if not (isfinite(self.std) and self.std > 0):
            raise InputError("no noise is seen in the data: give noise_std (--noise-std)")


def choose(estimates: Sequence[NoiseEstimate | None], reason: str) -> NoiseEstimate:
    """The estimate of the lowest upper bound; `reason` says why there may be none.

    What goes wrong is signal taken for noise, and that makes an estimate too high.
    """
    found = [each for each in estimates if each is not None and each.standard_error < inf]
    if not found:
        raise InputError(f"{reason}: give noise_std (--noise-std)")
    return min(found, key=lambda each: each.std + 2 * each.standard_error)
