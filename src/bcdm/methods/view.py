r"""What is known of an image at one noise level before any network: the scales of a prior."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from bcdm.conditioning import Conditioning
from bcdm.diffusion import NoiseLevel
from bcdm.measurement import Measurement
from bcdm.operators import LinearOperator
from bcdm.tensors import fit

__all__ = ["Scales", "View", "make_probes"]

# Of C: any positive map would do, so that of an iteration need not be exact.
_ROUGHLY = 0.01
# A map of what is left unknown: the error of its solve, pixels that are averaged, its floor.
_MAP_ROUGHLY, _AROUND, _SMALLEST = 0.02, 7, 1e-6
# An image is settled by a solve with this error, in parts of its right side, and taken to be off by
# this share of the variance that data leave: less, and what is measured counts for little; more,
# and its noise comes back.
_SETTLED, _OFF = 0.01, 0.2


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
        left: Tensor | None = None,
    ) -> Tensor:
        r"""$C f$, or $K C f$, in units of the prior's standard deviation; see `Residual`.

        Any positive map would do, as long as it is known: the network learns what is left. So an
        operator without closed form has another one stand in for it here, and only here.

        Args:
            conditioning: The measurement at a level.
            operator: Its operator, or what stands in for it.
            f: What C is applied to.
            model_std: Of K.
            left: The share of the variance where nothing is measured that is left all the same,
                (B,): of an operator that fixes more than what stands in for it. None: all of it.
        """
        noise = conditioning.measurement.std
        size, doubt = fit(f, conditioning.level.sigma / self.prior_std, (model_std / noise) ** 2)
        precision = conditioning.wiener_precision(f, self.prior_std, self.known_std)
        (more,) = fit(f, torch.zeros(1) if left is None else (1 - left) / left)

        def root(a: Tensor) -> Tensor:
            return (precision(a) + more * precision(torch.zeros_like(a))).rsqrt()

        return size * operator.approximate(lambda a: root(a) / (1 + doubt * a), f, _ROUGHLY)

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

    @cached_property
    def left(self) -> Tensor:
        r"""The share of the variance that $x_t$ leaves and $y$ leaves, too, around each pixel.

        That is $\mathrm{diag}\, C^2$ over its value without a measurement, (B, 1, H, W), of the
        operator itself: estimated by an image of random signs $p$, as the local mean of
        $\bar p \cdot C^2 p$, by one rough solve.
        """
        x_t, conditioning = self.x_t, self.conditioning
        alpha, sigma = self.level
        least = alpha**2 + (sigma / self.scales.prior_std) ** 2
        operator, gain = conditioning.measurement.operator, conditioning.gain
        # Samples of one measurement at one level share it.
        shared = operator.select(torch.zeros(1, dtype=torch.long)) is operator
        count = 1 if shared and len(least) == len(gain) == 1 else len(x_t)
        signs = make_probes((x_t.shape[-2], x_t.shape[-1]))[1].to(x_t)
        signs = signs.expand(count, *x_t.shape[1:])
        with torch.no_grad():
            solved = operator.solve(least, gain**2, signs, tolerance=_MAP_ROUGHLY)
            (unit,) = fit(solved, least)
            share = (unit * signs * solved).real.mean(1, keepdim=True)
            around = avg_pool2d(share, _AROUND, 1, _AROUND // 2, count_include_pad=False)
            return around.clamp(_SMALLEST, 1.0).expand(len(x_t), -1, -1, -1)

    def disagree(self, moved: Tensor, left: Tensor | None) -> Tensor:
        r"""How much data and prior object to the Wiener statistic being moved, as an image.

        $C^2 (H v - r_t) / \sigma^2$ for an image $w + v$, with $H w = r_t$; $C$ is that of what
        stands in for the operator. Of an operator that stands for itself this is $v$.

        Args:
            moved: $v$, in any unit.
            left: See `Scales.spread`.
        """
        conditioning, prior_std = self.conditioning, self.scales.prior_std
        alpha, sigma = self.level
        ratio = (sigma / prior_std) ** 2
        least, steep, size = fit(moved, alpha**2 + ratio, conditioning.gain**2, ratio)
        operator = conditioning.measurement.operator
        found = least * moved + steep * operator.gram(moved)
        for _ in range(2):
            found = self.scales.spread(conditioning, operator.stand_in, found, left=left)
        return found / size

    def settle(self, image: Tensor, left: Tensor | None) -> Tensor:
        r"""Leaves of an image what the data do not know better, by the operator itself.

        It is taken for an observation of $x_0$ that is off by a part of what $y$ and $x_t$ leave
        unknown, in place of the prior: $w + (q + M_t)^{-1} (q v + \sigma^2 s^{-2} w)$ for an image
        $w + v$ with $q = \sigma^2 s^{-2}$ over that part. The Wiener statistic's pull to zero goes
        with the prior.

        Args:
            image: $w + v$, in units of the prior's standard deviation.
            left: See `Scales.spread`.
        """
        conditioning = self.conditioning
        alpha, sigma = self.level
        pull = (sigma / self.scales.prior_std) ** 2
        trust = (pull if left is None else pull.to(left.device) / left) / _OFF
        own, doubt = fit(image, trust, pull)
        right = own * (image - self.wiener) + doubt * self.wiener
        shift = alpha.to(trust.device) ** 2 + trust
        operator = conditioning.measurement.operator
        return self.wiener + operator.solve(shift, conditioning.gain**2, right, tolerance=_SETTLED)


@lru_cache(maxsize=8)
def make_probes(size: tuple[int, int]) -> Tensor:
    """A flat image and one of random signs, (2, 1, 1, *size)."""
    signs = np.random.default_rng(0).integers(0, 2, size) * 2.0 - 1.0
    return torch.from_numpy(np.stack([np.ones(size), signs]))[:, None, None].float()
