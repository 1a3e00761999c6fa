r"""Is this measurement one of those a model was trained for?

Operators are compared by what $G = A^\top A (A^\top A + \tau)^{-1}$ does to a few fixed images $p$,
from smooth to rough, with $A$ scaled to unit norm and its noise level with it, because only their
ratio matters. $|G p|$ is how much of them is shown; $p^\top G p - |G p|^2$ is zero for a mask and
not for a blur; $|G S p - S G p|$ with a shift $S$ is zero for what acts on frequencies and not for
what acts on pixels. That needs nothing but the operator's own calculus, so it serves any operator,
also one of a kind that training never drew.
"""

from dataclasses import dataclass
from functools import cached_property
from math import inf, pi

import numpy as np
import torch
from torch import Tensor

from bcdm.measurement import Measurement
from bcdm.operators import LinearOperator
from bcdm.problems.draws import DrawnProblems
from bcdm.tensors import ImageSpec

__all__ = ["Familiarity", "UnfamiliarWarning", "Verdict"]

# Draws with these counters are kept for reference: training's counters stay far below.
_FIRST = 1 << 48
_NEIGHBOURS = 3
_MARGIN = 0.02  # of the ranges: a norm is known to a few iterations, a range by its draws
_LEAST = 1e-2  # a difference that matters, of probes of unit norm
_SHIFT = (5, 3)  # pixels
_SCALES = (0.0, 1.0, 2.0, 4.0, 8.0)  # of smoothing, in pixels


class UnfamiliarWarning(UserWarning):
    """A measurement lies outside what a model was trained for; the message says how."""


@dataclass(frozen=True)
class Verdict:
    """What is known of one measurement's place in a family.

    Attributes:
        distance: From the nearest operators that training may draw, over the distance that they
            keep from each other: below 1 for the fraction `1 - alarm` of them.
        familiar: Whether operator and noise level are inside.
        reason: Why not, in words; empty if familiar.
    """

    distance: float
    familiar: bool
    reason: str


@dataclass(frozen=True)
class Familiarity:
    """Judges measurements by a cloud of problems drawn from the same law as training's.

    Args:
        problems: What the model was trained for.
        prior_std: The model's.
        draws: Size of the cloud.
        alarm: Accepted fraction of false alarms.
    """

    problems: DrawnProblems
    prior_std: float
    draws: int = 400
    alarm: float = 0.01

    def judge(self, measurement: Measurement) -> list[Verdict]:
        """One verdict for each measurement of the batch."""
        count = len(measurement.y)
        if measurement.operator.batch in (None, 1) and len(measurement.std) == 1:
            return [self._judge(measurement.select(torch.tensor([0])))] * count
        return [self._judge(measurement.select(torch.tensor([k]))) for k in range(count)]

    def _judge(self, one: Measurement) -> Verdict:
        shape = one.image.shape
        if len(shape) != 3 or shape[1:] != self.problems.size:
            reason = f"its images are {shape}, those of training {self.problems.size}"
            return Verdict(inf, False, reason)
        place, norm = self._describe(one.operator, one.image)
        distance = float(self._measure(place[None])) / self._threshold
        low, high = self.problems.noise_std
        std = float(one.std) / norm
        reasons = []
        if not low * (1 - _MARGIN) <= std <= high * (1 + _MARGIN):
            reasons.append(f"noise_std {std:.3g} is outside [{low:.3g}, {high:.3g}]")
        share = float(place[0]) ** 2
        least, most = (float(v) ** 2 for v in self._cloud[0][:, 0].aminmax())
        if not least * (1 - _MARGIN) <= share <= most * (1 + _MARGIN):
            reasons.append(
                f"the operator shows {share:.1%} of white noise, those of training "
                f"{least:.1%} to {most:.1%}"
            )
        if not distance <= 1:
            reasons.append(
                f"the operator is unlike those of training: {distance:.1f} times as far from them "
                "as they are from each other"
            )
        return Verdict(distance, not reasons, "; ".join(reasons))

    def _describe(self, operator: LinearOperator, image: ImageSpec) -> tuple[Tensor, float]:
        """What the operator does to the probes, (3 probes,), and its norm."""
        low, high = self.problems.noise_std
        channels = image.shape[0]
        probes = self._probes.to(image.dtype).expand(-1, channels, -1, -1) / channels**0.5
        both = torch.cat([probes, probes.roll(_SHIFT, (-2, -1))])
        same = operator.select(torch.zeros(len(both), dtype=torch.long))
        power = _measure_power(same, both)
        floor = power * low * high / self.prior_std**2
        shown, moved = same.gram_function(lambda e: e / (e + floor), both).chunk(2)
        size = _measure_norm(shown)
        partly = ((probes.conj() * shown).real.flatten(1).sum(1) - size**2).clamp_min(0)
        local = _measure_norm(moved - shown.roll(_SHIFT, (-2, -1)))
        return torch.cat([size, partly.sqrt(), local]).double(), power**0.5

    @cached_property
    def _probes(self) -> Tensor:
        """White noise, smoothed by several scales, each of unit norm: (probes, 1, H, W)."""
        rows, columns = self.problems.size
        noise = torch.from_numpy(np.random.default_rng(0).standard_normal((rows, columns)))
        squares = (
            torch.fft.fftfreq(rows).double()[:, None] ** 2
            + torch.fft.fftfreq(columns).double() ** 2
        )
        spectrum = torch.fft.fft2(noise)
        images = [
            torch.fft.ifft2(spectrum * torch.exp(-2 * (pi * scale) ** 2 * squares)).real
            for scale in _SCALES
        ]
        return torch.stack([image / image.norm() for image in images])[:, None].float()

    @cached_property
    def _cloud(self) -> tuple[Tensor, Tensor]:
        """Descriptions of drawn operators, and the scale of each number."""
        cloud = self._draw(_FIRST)
        return cloud, cloud.std(0).clamp_min(_LEAST)

    @cached_property
    def _threshold(self) -> float:
        """The distance that other draws keep within, but for the fraction `alarm` of them."""
        fresh = self._draw(_FIRST + self.draws)
        # Draws of a few operators coincide; a distance of nothing is none.
        return max(1e-2, float(torch.quantile(self._measure(fresh), 1 - self.alarm)))

    def _draw(self, first: int) -> Tensor:
        operator, _ = self.problems.draw(range(first, first + self.draws))
        image = ImageSpec((1, *self.problems.size))
        return torch.stack([
            self._describe(operator.select(torch.tensor([k])), image)[0] for k in range(self.draws)
        ])  # fmt: skip

    def _measure(self, places: Tensor) -> Tensor:
        """The mean distance to the nearest draws of the cloud, (B,)."""
        cloud, scale = self._cloud
        distances = torch.cdist(places / scale, cloud / scale)
        return distances.topk(_NEIGHBOURS, largest=False).values.mean(1)


def _measure_norm(x: Tensor) -> Tensor:
    return x.abs().square().flatten(1).sum(1).sqrt()


def _measure_power(operator: LinearOperator, x: Tensor) -> float:
    r"""The largest eigenvalue of $A^\top A$, by a few power iterations."""
    for _ in range(4):
        x = operator.gram_function(lambda e: e, x)
        x = x / x.abs().square().sum().sqrt().clamp_min(1e-30)
    grown = operator.gram_function(lambda e: e, x)
    return max(float((x.conj() * grown).real.sum()), 1e-30)
