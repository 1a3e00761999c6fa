r"""What the network sees: sufficient statistics of $x_0$ given $x_t$ and $y$, one class each."""

from abc import ABC, abstractmethod

from torch import Tensor

from bcdm.methods.view import View
from bcdm.tensors import fit

__all__ = ["Joint", "Normalised", "Pivot", "Statistic", "Whitened", "Wiener"]


class Statistic(ABC):
    """An input of the network.

    Attributes:
        extra_images: How many images `list_extra` gives.
    """

    extra_images = 0

    @abstractmethod
    def compute(self, view: View) -> Tensor:
        """The image that the network sees first, (B, C, H, W)."""

    def list_extra(self, view: View) -> list[Tensor]:
        """More images that it sees."""
        return []


class Whitened(Statistic):
    r"""The paper's $\hat x_t = M_t^{-1/2} r_t$."""

    def compute(self, view: View) -> Tensor:
        """It."""
        return view.conditioning.whitened_statistic(view.x_t)


class Pivot(Statistic):
    r"""$M_t^{-1} r_t$, scaled to unit size where nothing is measured."""

    def compute(self, view: View) -> Tensor:
        """It."""
        size = view.scales.size(view.level)
        return fit(view.x_t, view.level.alpha / size)[0] * view.conditioning.pivot(view.x_t)


class Wiener(Statistic):
    """The best linear estimate $w$ of $x_0$, bounded at every noise level."""

    def compute(self, view: View) -> Tensor:
        """It, in units of the prior's standard deviation."""
        return view.wiener


class Normalised(Statistic):
    r"""$\hat x_t$ scaled to unit size in every direction under a white prior."""

    def compute(self, view: View) -> Tensor:
        r"""$(s^2 M_t + \sigma^2)^{-1/2} M_t^{-1/2} r_t$."""
        conditioning = view.conditioning
        natural = conditioning.natural_statistic(view.x_t)
        alpha, sigma = view.level
        flat, steep, power, noise = fit(
            natural, alpha**2, conditioning.gain**2, view.scales.prior_std**2, sigma**2
        )

        def f(eigenvalue: Tensor) -> Tensor:
            precision = flat + steep * eigenvalue
            return ((power * precision + noise) * precision).rsqrt()

        return conditioning.measurement.operator.gram_function(f, natural)


class Joint(Statistic):
    r"""The Wiener statistic, with both its parts beside it: $x_t$ and $A^\top y$."""

    extra_images = 2

    def compute(self, view: View) -> Tensor:
        """The Wiener statistic."""
        return view.wiener

    def list_extra(self, view: View) -> list[Tensor]:
        r"""$x_t$ at unit size, and $A^\top y$ in units of the prior's standard deviation."""
        back = view.conditioning.measurement.back_projection.expand_as(view.x_t)
        size = view.scales.size(view.level)
        return [view.x_t / fit(view.x_t, size)[0], back / view.scales.prior_std]
