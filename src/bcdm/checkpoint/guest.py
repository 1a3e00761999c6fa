"""A method in the place of a trained model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bcdm.checkpoint.model import Model
from bcdm.checkpoint.widths import LocalFactors
from bcdm.diffusion import Denoiser
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import Method
from bcdm.methods.view import Scales

__all__ = ["Guest", "welcome"]


@dataclass(frozen=True, eq=False)
class Guest:
    """Any method, and what reports say of it beside what it draws.

    `bcdm.reconstruct` makes one of every method that is no trained model. Make it yourself where
    more is known than the method tells.

    Args:
        method: Turns measurements into denoisers.
        name: Of the method, for reports; that of its class when left out.
        value_range: Black and white of its images. Left out, figures and PSNR take the range of
            what they show.
        scales: The prior of the linear estimate that is shown beside the result. Left out, one
            whose pixels are as large as those of the samples.
        remark: What a trust card says of the method, in a sentence.
        widths: By how much its intervals are wider than those of its samples; None: they are those.
    """

    method: Method
    name: str = ""
    value_range: tuple[float, float] | None = None
    scales: Scales | None = None
    remark: str = ""
    widths: LocalFactors | None = None

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", type(self.method).__name__)

    def condition(self, measurement: Measurement) -> Denoiser:
        """Binds measurements."""
        return self.method.condition(measurement)


def welcome(method: Any) -> Model | Guest:
    """A trained model as it is, any other method as a guest."""
    if isinstance(method, Model | Guest):
        return method
    if isinstance(method, str | Path):
        raise InputError(f"{str(method)!r} is no method: give bcdm.load({str(method)!r})")
    if not callable(getattr(method, "condition", None)):
        raise InputError(
            f"{type(method).__name__} is no method: it has no condition(measurement) that gives a "
            "denoiser (docs/methods.md)"
        )
    return Guest(method)
