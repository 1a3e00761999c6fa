"""Denoising with an unconditional model, in closed form (the paper's VE section)."""

from dataclasses import dataclass

from torch import Tensor

from bcdm.conditioning import Conditioning
from bcdm.diffusion import Denoiser, NoiseLevel
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods.base import BoundDenoiser
from bcdm.operators import Identity
from bcdm.tensors import fit

__all__ = ["Denoising"]


@dataclass(frozen=True)
class Denoising:
    r"""The exact posterior for $A = I$ from any unconditional denoiser; no training, no weight.

    For the identity the pivot is white: $\mu = x_0 + \frac{\sigma}{\sqrt{\alpha^2 + k^2}} n$.
    That is the denoiser's own problem at another noise level, for VP and VE alike.
    """

    prior: Denoiser

    def condition(self, measurement: Measurement) -> Denoiser:
        """Binds noisy images."""
        if not isinstance(measurement.operator, Identity):
            raise InputError("Denoising takes measurements of the Identity operator only")

        def mean(x_t: Tensor, level: NoiseLevel) -> Tensor:
            conditioning = Conditioning(measurement, level)
            log_snr = (level.alpha**2 + conditioning.gain**2).log() - 2 * level.sigma.log()
            own = self.prior.schedule.level(log_snr)
            (alpha,) = fit(x_t, own.alpha)
            return self.prior(alpha * conditioning.pivot(x_t), own)

        return BoundDenoiser(self.prior, mean, measurement)
