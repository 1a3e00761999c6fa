r"""Inputs and outputs of other people's conditional networks, trained and sampled as ours are."""

from torch import Tensor

from bcdm.diffusion import NoiseLevel
from bcdm.methods.outputs import Output, Projection
from bcdm.methods.statistics import Statistic
from bcdm.methods.view import Scales, View
from bcdm.tensors import fit

__all__ = ["BridgePlace", "BridgeStep", "Denoised", "Dual", "DualWiener", "Noise"]


class Dual(Statistic):
    r"""No statistic: both parts side by side, $x_t$ and $A^\top y$."""

    extra_images = 1

    def compute(self, view: View) -> Tensor:
        """x_t at unit size."""
        return view.x_t / fit(view.x_t, view.scales.size(view.level))[0]

    def list_extra(self, view: View) -> list[Tensor]:
        r"""$A^\top y$ in units of the prior's standard deviation."""
        back = view.conditioning.measurement.back_projection.expand_as(view.x_t)
        return [back / view.scales.prior_std]


class DualWiener(Dual):
    r"""The same with the best linear estimate of $x_0$ by $y$ instead of $A^\top y$.

    That is the fairer rival: it has not to learn to undo a blur that $A^\top y$ holds twice.
    """

    def list_extra(self, view: View) -> list[Tensor]:
        """The estimate in units of the prior's standard deviation."""
        found = view.scales.estimate_linearly(view.conditioning.measurement)
        return [found.expand_as(view.x_t) / view.scales.prior_std]


class BridgePlace(Statistic):
    r"""$x_t + (1 - \alpha) x_1$: on the way from $x_0$ to the linear estimate $x_1$ of $y$."""

    def compute(self, view: View) -> Tensor:
        """It, under the schedule `Bridge`."""
        (share,) = fit(view.x_t, 1 - view.level.alpha)
        return view.x_t + share * view.scales.estimate_linearly(view.conditioning.measurement)


class Denoised(Output):
    r"""`Residual` with $y$ left out of $w$ and $C$: $y$ enters through the input alone.

    That is the usual preconditioning of a diffusion model.
    """

    def explain(
        self, view: View, seen: Tensor, left: Tensor | None = None
    ) -> tuple[Projection, float]:
        """A share of x_t, moved by the output."""
        (alpha, sigma), x_t, scales = view.level, view.x_t, view.scales
        size = scales.size(view.level)
        skip, scale = fit(x_t, scales.prior_std * alpha / size**2, sigma / size)
        return lambda f: skip * x_t + scale * f, scales.prior_std

    def weigh(self, level: NoiseLevel, scales: Scales) -> Tensor:
        """Errors are relative to what is unknown."""
        return scales.unknown(level) ** -2


class Noise(Output):
    """The older one of diffusion models: the network gives the noise of x_t."""

    def explain(
        self, view: View, seen: Tensor, left: Tensor | None = None
    ) -> tuple[Projection, float]:
        """x_t without that noise."""
        (alpha, sigma), x_t = view.level, view.x_t
        grown, noise = fit(x_t, 1 / alpha, sigma / alpha)
        return lambda f: grown * x_t - noise * f, 1.0

    def weigh(self, level: NoiseLevel, scales: Scales) -> Tensor:
        """The loss of the network's own output."""
        return (level.alpha / level.sigma) ** 2


class BridgeStep(Output):
    """That of I2SB: what the bridge has moved so far over its standard deviation."""

    def explain(
        self, view: View, seen: Tensor, left: Tensor | None = None
    ) -> tuple[Projection, float]:
        """What was seen, moved back."""
        (alpha, sigma) = view.level
        (moved,) = fit(view.x_t, sigma / alpha.sqrt())
        return lambda f: seen - moved * f, 1.0

    def weigh(self, level: NoiseLevel, scales: Scales) -> Tensor:
        """The loss of the network's own output."""
        return level.alpha / level.sigma**2
