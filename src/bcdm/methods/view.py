r"""What is known of an image at one noise level before any network: the scales of a prior."""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from bcdm.conditioning import Conditioning
from bcdm.diffusion import NoiseLevel
from bcdm.measurement import Measurement
from bcdm.operators import LinearOperator
from bcdm.tensors import fit

__all__ = ["Scales", "View"]


@dataclass(frozen=True)
class Scales:
    r"""A prior of uncorrelated pixels: what linear estimates are made with.

    Args:
        prior_std: $s$, the standard deviation of a pixel in what $y$ leaves unknown.
        known_std: $S$, how much more there is in what $y$ fixes.
    """

    prior_std: float
    known_std: float = 0.0

    def size(self, level: NoiseLevel) -> Tensor:
        """The standard deviation of a pixel of x_t."""
        return (self.prior_std**2 * level.alpha**2 + level.sigma**2).sqrt()

    def unknown(self, level: NoiseLevel) -> Tensor:
        r"""$s \sigma (s^2 \alpha^2 + \sigma^2)^{-1/2}$: what $x_t$ alone leaves unknown."""
        return self.prior_std * level.sigma / self.size(level)

    def spread(
        self,
        conditioning: Conditioning,
        operator: LinearOperator,
        f: Tensor,
        model_std: float = 0.0,
    ) -> Tensor:
        r"""$C f$, or $K C f$, in units of the prior's standard deviation; see `Residual`.

        Any positive map would do, as long as it is known: the network learns what is left. So an
        operator without closed form has another one stand in for it here, and only here.

        Args:
            conditioning: The measurement at a level.
            operator: Its operator, or what stands in for it.
            f: What C is applied to.
            model_std: Of K.
        """
        noise = conditioning.measurement.std
        size, doubt = fit(f, conditioning.level.sigma / self.prior_std, (model_std / noise) ** 2)
        precision = conditioning.wiener_precision(f, self.prior_std, self.known_std)
        return size * operator.gram_function(lambda a: precision(a).rsqrt() / (1 + doubt * a), f)

    def estimate_linearly(self, measurement: Measurement) -> Tensor:
        """The Wiener estimate of x_0 from y alone."""
        return measurement.estimate_linearly(self.prior_std, self.known_std)


@dataclass(frozen=True, eq=False)
class View:
    """One diffused image with its measurement, as statistics and outputs look at it."""

    conditioning: Conditioning
    x_t: Tensor
    scales: Scales

    @property
    def level(self) -> NoiseLevel:
        """The noise level of x_t."""
        return self.conditioning.level

    @cached_property
    def wiener(self) -> Tensor:
        """The Wiener statistic in units of the prior's standard deviation; computed once."""
        s = self.scales
        return self.conditioning.wiener_statistic(self.x_t, s.prior_std, s.known_std) / s.prior_std
