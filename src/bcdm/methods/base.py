"""The method contract: a measurement in, a denoiser out."""

from typing import Protocol

from bcdm.diffusion import Denoiser
from bcdm.measurement import Measurement

__all__ = ["Method"]


class Method(Protocol):
    r"""A way to $E[x_0 \mid x_t, y]$."""

    def condition(self, measurement: Measurement) -> Denoiser:
        """Binds a measurement."""
        ...
