"""Guided methods of azula in bcdm's exam: an outside package, by its import path.

pip install azula
PYTHONPATH=examples/azula bcdm benchmark mixture --method azula_methods:MMPS --calls 50

azula binds data to a denoiser of (x_t, t) with a schedule of t; bcdm's denoisers take the noise
level itself. So a level is passed where azula has a time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from azula.denoise import Denoiser as Theirs
from azula.denoise import DiracPosterior
from azula.guidance import MMPSDenoiser, TMPDenoiser
from azula.linalg.covariance import IsotropicCovariance
from torch import Tensor

from bcdm.diffusion import Denoiser, NoiseLevel
from bcdm.measurement import Measurement
from bcdm.methods.base import BoundDenoiser
from bcdm.tensors import fit

__all__ = ["MMPS", "TMPD"]


class Prior(Theirs):
    """A denoiser of bcdm's as one of azula's."""

    def __init__(self, prior: Denoiser) -> None:
        super().__init__()
        self.prior = prior

    def schedule(self, t: NoiseLevel) -> list[Tensor]:
        """Alpha and sigma, one for each image of a batch."""
        return [number.reshape(-1, *[1] * len(self.prior.image.shape)) for number in t]

    def forward(self, x_t: Tensor, t: NoiseLevel, **_: object) -> DiracPosterior:
        """The mean of x_0, at a level."""
        return DiracPosterior(self.prior(x_t, t))


@dataclass(frozen=True)
class _Guided:
    prior: Denoiser

    def bind(self, y: Tensor, forward: Callable[[Tensor], Tensor], variance: Tensor) -> Theirs:
        """Azula's denoiser of one measurement."""
        raise NotImplementedError

    def condition(self, measurement: Measurement) -> Denoiser:
        """Binds measurements."""
        (variance,) = fit(measurement.y, measurement.std**2)
        theirs = self.bind(measurement.y, measurement.operator.forward, variance)

        def mean(x_t: Tensor, level: NoiseLevel) -> Tensor:
            found: Tensor = theirs(x_t, level).mean
            return found.detach()

        return BoundDenoiser(self.prior, mean, measurement)


class MMPS(_Guided):
    """Rozet et al. (2024), as its authors have it; five iterations, as bcdm's."""

    def bind(self, y: Tensor, forward: Callable[[Tensor], Tensor], variance: Tensor) -> Theirs:
        """With the noise's covariance."""
        noise = IsotropicCovariance(variance)
        return MMPSDenoiser(Prior(self.prior), y, forward, noise, iterations=5)


class TMPD(_Guided):
    """Boys et al. (2023): of the covariance only the sums of rows are taken."""

    def bind(self, y: Tensor, forward: Callable[[Tensor], Tensor], variance: Tensor) -> Theirs:
        """With the noise's variance."""
        return TMPDenoiser(Prior(self.prior), y, forward, variance)
