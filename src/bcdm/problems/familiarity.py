r"""Is this measurement one of those a model was trained for?

Operators are compared by what $G = A^\top A (A^\top A + \tau)^{-1}$ does to a few fixed images $p$,
from smooth to rough, with $A$ scaled to unit norm and its noise level with it, because only their
ratio matters. $|G p|$ is how much of them is shown; $p^\top G p - |G p|^2$ is zero for a mask and
not for a blur; $|G S p - S G p|$ with a shift $S$ is zero for what acts on frequencies and not for
what acts on pixels. That needs nothing but the operator's own calculus, so it serves any operator,
also one of a kind that training never drew.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from math import inf, pi
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bcdm.measurement import Measurement
from bcdm.operators import LinearOperator
from bcdm.problems.cloud import Cloud
from bcdm.problems.draws import DrawnProblems
from bcdm.tensors import ImageSpec

__all__ = ["Familiarity", "UnfamiliarWarning", "Verdict"]

# Draws with these counters are kept for reference: training's counters stay far below.
_FIRST = 1 << 48
_MARGIN = 0.02  # of the ranges: a norm is known to a few iterations, a range by its draws
_MORE = 0.1  # of the range's upper end: to see a little more than in training does no harm
_LOSS = 0.15  # of the samples that the sparsest operator of training takes
_ENOUGH = 1e-3  # of what probes show, where that takes iterations
_NOTHING = 1e-30  # of power: the operator is null
_CHUNK = 50  # operators described at a time, for memory
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
        stored: The cloud, if it was kept; it is used where it is that of these problems.
        any_size: Whether images of other sizes are judged by the same cloud, which holds parts of
            what was measured, not numbers of pixels.
    """

    problems: DrawnProblems
    prior_std: float
    draws: int = 400
    alarm: float = 0.01
    stored: Cloud | None = None
    any_size: bool = False

    def judge(self, measurement: Measurement) -> list[Verdict]:
        """One verdict for each measurement of the batch."""
        count = len(measurement.y)
        if measurement.operator.batch in (None, 1) and len(measurement.std) == 1:
            return [self._judge(measurement.select(torch.tensor([0])))] * count
        return [self._judge(measurement.select(torch.tensor([k]))) for k in range(count)]

    def _judge(self, one: Measurement) -> Verdict:
        shape = one.image.shape
        if len(shape) != 3 or (shape[1:] != self.problems.size and not self.any_size):
            reason = f"its images are {shape}, those of training {self.problems.size}"
            return Verdict(inf, False, reason)
        places, powers, parts = self._describe(one.operator, one.image, 1)
        if float(powers) < 2 * _NOTHING:
            known = self.problems.nothing > 0
            return Verdict(0.0 if known else inf, known, "" if known else "nothing is measured")
        cloud = self.cloud
        distance = float(cloud.find_distance(places)) / cloud.threshold
        low, high = self.problems.noise_std
        std = float(one.std) / float(powers) ** 0.5
        reasons = []
        if not low * (1 - _MARGIN) <= std <= high * (1 + _MARGIN):
            reasons.append(f"noise_std {std:.3g} is outside [{low:.3g}, {high:.3g}]")
        share = float(places[0, 0]) ** 2
        least, most = (float(v) ** 2 for v in cloud.places[:, 0].aminmax())
        if not least * (1 - _MARGIN) <= share <= most * (1 + _MORE):
            reasons.append(
                f"the operator shows {share:.1%} of white noise, those of training "
                f"{least:.1%} to {most:.1%}"
            )
        elif float(parts) < float(cloud.parts.min()) * (1 - _LOSS):
            reasons.append(
                f"the operator measures {float(parts):.1%} of white noise, those of training "
                f"{float(cloud.parts.min()):.1%} or more"
            )
        if not distance <= 1:
            reasons.append(
                f"the operator is unlike those of training: {distance:.1f} times as far from them "
                "as they are from each other"
            )
        return Verdict(distance, not reasons, "; ".join(reasons))

    def _describe(self, operator: LinearOperator, image: ImageSpec, count: int) -> "_Descriptions":
        """What each of `count` operators does to the probes."""
        low, high = self.problems.noise_std
        channels = image.shape[0]
        probes = (
            _make_probes((image.shape[1], image.shape[2]))
            .to(image.device, image.dtype)
            .expand(-1, channels, -1, -1)
            / channels**0.5
        )
        both = torch.cat([probes, probes.roll(_SHIFT, (-2, -1))])
        rows = torch.arange(count).repeat_interleave(len(both))
        # Of several coils, what they sample is described; their maps are judged by the data.
        same, images = operator.select(rows).stand_in, both.repeat(count, 1, 1, 1)
        powers, parts = _measure_power(same, images, count)
        floor = powers * low * high / self.prior_std**2
        floors = floor.repeat_interleave(len(both))[:, None, None, None]
        filtered = same.approximate(lambda e: e / (e + floors), images, _ENOUGH)
        shown, moved = filtered.unflatten(0, (count, 2, -1)).unbind(1)
        size = _measure_norm(shown)
        seen = (probes.conj() * shown).real.flatten(-3).sum(-1)
        partly = (seen - size**2).clamp_min(0)
        local = _measure_norm(moved - shown.roll(_SHIFT, (-2, -1)))
        places = torch.cat([size, partly.sqrt(), local], 1).double()
        return _Descriptions(places.cpu(), powers.cpu(), parts.cpu())

    @cached_property
    def cloud(self) -> Cloud:
        """What is stored if it fits; drawing takes seconds."""
        if self.stored is not None and self._is_current(self.stored):
            return self.stored
        return self.draw_cloud()

    def draw_cloud(self) -> Cloud:
        """Describes drawn operators, and how far others of the same law are from them."""
        drawn = self._draw(_FIRST, self.draws)
        near = Cloud(drawn.places, drawn.parts, threshold=1.0)
        distances = near.find_distance(self._draw(_FIRST + self.draws, self.draws).places)
        # Draws of a few operators coincide; a distance of nothing is none.
        return replace(near, threshold=max(1e-2, float(distances.quantile(1 - self.alarm))))

    def _is_current(self, stored: Cloud) -> bool:
        """Whether two operators of a cloud are described as they would be today."""
        places, _, parts = self._draw(_FIRST, 2)
        if len(stored.places) != self.draws or stored.places.shape[1:] != places.shape[1:]:
            return False
        pairs = ((stored.places[:2], places), (stored.parts[:2], parts))
        return all(torch.allclose(kept.to(new), new, atol=1e-3) for kept, new in pairs)

    def _draw(self, first: int, count: int) -> "_Descriptions":
        # Nothing has no neighbours: it is told by itself, and would stretch every scale.
        problems = replace(self.problems, nothing=0.0)
        operator, _ = problems.draw(range(first, first + count))
        image = ImageSpec((1, *self.problems.size), self.problems.image_dtype)
        parts = [
            self._describe(operator.select(rows), image, len(rows))
            for rows in torch.arange(count).split(_CHUNK)
        ]
        return _Descriptions(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


class _Descriptions(NamedTuple):
    r"""What operators do to the probes, and how strongly.

    Attributes:
        places: Numbers that operators are compared by, (B, 3 probes).
        powers: The largest eigenvalues of $A^\top A$, (B,).
        parts: Of the energy of white noise, how much is measured at unit norm, (B,): for a mask
            the part of all samples, whether or not some say the same.
    """

    places: Tensor
    powers: Tensor
    parts: Tensor


@lru_cache(maxsize=8)
def _make_probes(size: tuple[int, int]) -> Tensor:
    """White noise, smoothed by several scales, each of unit norm: (probes, 1, H, W)."""
    rows, columns = size
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal((rows, columns)))
    squares = (
        torch.fft.fftfreq(rows).double()[:, None] ** 2 + torch.fft.fftfreq(columns).double() ** 2
    )
    spectrum = torch.fft.fft2(noise)
    images = [
        torch.fft.ifft2(spectrum * torch.exp(-2 * (pi * scale) ** 2 * squares)).real
        for scale in _SCALES
    ]
    return torch.stack([image / image.norm() for image in images])[:, None].float()


def _measure_norm(x: Tensor) -> Tensor:
    """Of each image (..., C, H, W)."""
    return x.abs().square().flatten(-3).sum(-1).sqrt()


def _measure_power(operator: LinearOperator, x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    r"""The largest eigenvalues of $A^\top A$, by a few power iterations; parts.

    Args:
        operator: `count` operators, each as often as there are images for it.
        x: Those images (count * images, C, H, W), the first of each of unit norm.
        count: How many operators.
    """
    # What an iteration would make of the identity function is two products.
    apply = partial(operator.gram_function, lambda e: e) if operator.closed_form else operator.gram
    first = x.unflatten(0, (count, -1))[:, 0]
    part = torch.zeros(())
    for number in range(4):
        x = apply(x)
        each = x.unflatten(0, (count, -1))
        if number == 0:
            part = (first.conj() * each[:, 0]).real.flatten(1).sum(1)
        norms = each.abs().square().flatten(1).sum(1).sqrt().clamp_min(_NOTHING)
        x = (each / norms[:, None, None, None, None]).flatten(0, 1)
    grown = apply(x)
    powers = (x.conj() * grown).real.unflatten(0, (count, -1)).flatten(1).sum(1)
    powers = powers.clamp_min(_NOTHING)
    return powers, part / powers
