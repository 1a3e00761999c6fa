r"""The paper: a diffused image and a measurement become one sufficient statistic of $x_0$.

With $M_t = \alpha^2 I + k^2 A^\top A$, gain $k = \sigma / \sigma_0$ and
$r_t = \alpha x_t + k^2 A^\top y$, everything here is a function of $A^\top A$ applied to $r_t$.
VP and VE are one code path.
"""

from dataclasses import dataclass

from torch import Tensor

from bcdm.diffusion import NoiseLevel, to_score
from bcdm.errors import DtypeError, ShapeError
from bcdm.measurement import NEGLIGIBLE, Measurement
from bcdm.operators.base import Spectral
from bcdm.tensors import fit, inner

__all__ = ["Conditioning"]


@dataclass(frozen=True)
class Conditioning:
    """A measurement at one noise level.

    Args:
        measurement: The data y, its operator A and noise level.
        level: The noise level of x_t, one for all or one per sample.
        near: An image near x_0, (B, ...), that iterative solves start from; where it is only sets
            how long they take. None: from what y alone says.
    """

    measurement: Measurement
    level: NoiseLevel
    near: Tensor | None = None

    @property
    def gain(self) -> Tensor:
        r"""$k = \sigma / \sigma_0$, float64 (1,) or (B,)."""
        return self.level.sigma / self.measurement.std

    def natural_statistic(self, x_t: Tensor) -> Tensor:
        r"""$r_t = \alpha x_t + k^2 A^\top y$: Gaussian observations add by precision."""
        self._check(x_t)
        alpha, precision = fit(x_t, self.level.alpha, self.gain**2)
        return alpha * x_t + precision * self.measurement.back_projection

    def whitened_statistic(self, x_t: Tensor) -> Tensor:
        r"""Merges the diffused image and the data into the paper's statistic of $x_0$.

        $$ \hat x_t = M_t^{-1/2}(\alpha x_t + k^2 A^\top y) = M_t^{1/2} x_0 + \sigma n $$

        Nothing is lost: $E[x_0 \mid x_t, y] = E[x_0 \mid \hat x_t]$ (paper, Sec. 3 and App. B).
        """
        return self.power(-0.5, self.natural_statistic(x_t))

    def pivot(self, x_t: Tensor) -> Tensor:
        r"""$\mu = M_t^{-1} r_t = x_0 + \sigma M_t^{-1/2} n$: unbiased, one solve, no root."""
        return self._solve(self.level.alpha**2, self.natural_statistic(x_t))

    def wiener_statistic(self, x_t: Tensor, prior_std: float, known_std: float = 0.0) -> Tensor:
        r"""$w = (\sigma^2 s(A^\top A)^{-2} + M_t)^{-1} r_t$; $s$ is that of `wiener_precision`.

        The best linear estimate of $x_0$ under that prior, and bounded at every level. It is
        computed as what $y$ alone says, moved by what $x_t$ adds:
        $w = z + \alpha (\sigma^2 s^{-2} + M_t)^{-1} (x_t - \alpha z)$. The sum $r_t$ would lose
        $x_t$ to rounding where the noise of $y$ is small.
        """
        self._check(x_t)
        if self.near is not None and not (known_std or self.measurement.operator.closed_form):
            return self._refine(self.near, x_t, prior_std)
        known = self.measurement.estimate_linearly(prior_std, known_std)
        alpha, sigma = self.level
        (share,) = fit(x_t, alpha)
        away = x_t - share * known
        # A relative error d of the solve costs at most d^2 (alpha s / sigma)^2 of the variance that
        # is left: a hundredth of its standard deviation is not seen.
        enough = NEGLIGIBLE * sigma / (alpha * prior_std)
        if not known_std:
            return known + share * self._solve(alpha**2 + (sigma / prior_std) ** 2, away, enough)
        precision = self.wiener_precision(x_t, prior_std, known_std)
        operator = self.measurement.operator
        return known + operator.approximate(lambda a: share / precision(a), away, enough)

    def wiener_precision(self, x: Tensor, prior_std: float, known_std: float = 0.0) -> Spectral:
        r"""$\alpha^2 + k^2 a + \sigma^2 / s(a)^2$ as a function of an eigenvalue $a$ of $A^\top A$.

        The prior's standard deviation $s$ is that of `Measurement.estimate_linearly`.

        Args:
            x: What the function will be applied to; it gives device, precision and batch.
            prior_std: $s$.
            known_std: $S$; 0 for a white prior.
        """
        alpha, sigma = self.level
        flat, steep, noise = fit(x, alpha**2, self.gain**2, sigma**2)
        unknown, known = prior_std**2, known_std**2
        if not known:
            return lambda a: flat + noise / unknown + steep * a

        def precision(a: Tensor) -> Tensor:
            told = steep * a
            both = told + noise / unknown
            return flat + told + noise * both / (unknown * both + known * told)

        return precision

    def data_consistency(self, x_d: Tensor, natural: Tensor, weight: float) -> Tensor:
        r"""Pulls a denoised image to the data (paper, Eqs. 30 and 31).

        $$ \operatorname{argmin}_x
           \tfrac12 |x - x_d|^2 + \tfrac{\lambda_t}{2} |M_t^{1/2} x - \hat x_t|^2
           = (I + \lambda_t M_t)^{-1} (x_d + \lambda_t r_t), \quad \lambda_t = \lambda / \sigma^2 $$

        Args:
            x_d: The denoised image.
            natural: $r_t$, from `natural_statistic`.
            weight: $\lambda$.
        """
        alpha, sigma = self.level
        pull = weight / sigma**2
        (scale,) = fit(natural, pull)
        return self.measurement.operator.solve(
            1 + pull * alpha**2, pull * self.gain**2, x_d + scale * natural
        )

    def power(self, exponent: float, x: Tensor) -> Tensor:
        r"""$M_t^p x$."""
        flat, steep = fit(x, self.level.alpha**2, self.gain**2)
        return self.measurement.operator.gram_function(
            lambda eigenvalue: (flat + steep * eigenvalue) ** exponent, x
        )

    def draw(self, x_0: Tensor, noise: Tensor) -> Tensor:
        r"""The whitened statistic in one stroke: $M_t^{1/2} x_0 + \sigma n$."""
        (sigma,) = fit(x_0, self.level.sigma)
        return self.power(0.5, x_0) + sigma * noise

    def score(self, mean: Tensor, x_t: Tensor) -> Tensor:
        r"""$\nabla \log q(x_t \mid y)$ from $E[x_0 \mid x_t, y]$ (paper, Cor. 1)."""
        return to_score(mean, x_t, self.level)

    def _refine(self, near: Tensor, x_t: Tensor, prior_std: float) -> Tensor:
        r"""The Wiener statistic as $v + H^{-1} (r_t - H v)$ from an image $v$: one solve."""
        alpha, sigma = self.level
        least = alpha**2 + (sigma / prior_std) ** 2
        share, doubt, precision = fit(x_t, alpha, (sigma / prior_std) ** 2, self.gain**2)
        operator, y = self.measurement.operator, self.measurement.y
        missing = precision * operator.adjoint(y - operator.forward(near))
        right = missing + share * (x_t - share * near) - doubt * near
        # A residual r is an error of at most r / least, and sigma / sqrt(least) is left there.
        size = inner(right, right).sqrt().cpu().double().clamp_min(1e-30)
        count = right[0].numel() * (2 if right.is_complex() else 1)
        enough = NEGLIGIBLE * sigma * least.sqrt() * count**0.5 / size
        return near + self._solve(least, right, enough)

    def _solve(self, shift: Tensor, x: Tensor, enough: Tensor | None = None) -> Tensor:
        return self.measurement.operator.solve(shift, self.gain**2, x, tolerance=enough)

    def _check(self, x_t: Tensor) -> None:
        back = self.measurement.back_projection
        if x_t.dtype != back.dtype:
            raise DtypeError(
                f"x_t is {x_t.dtype} but the measurement gives {back.dtype} images: convert one"
            )
        if x_t.shape[1:] != back.shape[1:] or len(back) not in (1, len(x_t)):
            raise ShapeError(
                f"x_t has shape {tuple(x_t.shape)} but the measurement gives images "
                f"{tuple(back.shape)}: use measurement.repeat for several samples of each"
            )
