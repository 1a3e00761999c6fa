"""What a model's scores are on measurements that are right, and how its intervals must be scaled.

Only the numbers and where they are stored: `bcdm.reconstruction.calibrating` fits them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from pydantic import TypeAdapter
from torch import Tensor

from bcdm.checkpoint.discriminant import Discriminant
from bcdm.checkpoint.facts import read_facts, write_facts
from bcdm.checkpoint.guest import Guest
from bcdm.checkpoint.model import Model
from bcdm.checkpoint.regions import RegionFactors
from bcdm.checkpoint.tensorfile import UNUSABLE, shorten
from bcdm.checkpoint.usual import Usual
from bcdm.checkpoint.widths import LocalFactors
from bcdm.errors import ModelError
from bcdm.evaluation.signal import find_signal

__all__ = [
    "Calibration",
    "Typicality",
    "describe_factors",
    "find_factors",
    "find_region_factors",
    "store_calibration",
]

_NUMBERS: TypeAdapter[list[float]] = TypeAdapter(list[float])


@dataclass(frozen=True)
class Typicality:
    """What is typical of descriptions, numbers (n,) each: their mean and inverse covariance."""

    centre: Tensor
    precision: Tensor

    @classmethod
    def fit(cls, descriptions: Tensor) -> Self:
        """From descriptions (N, n) of measurements that are right."""
        away = descriptions - descriptions.mean(0)
        covariance = away.T @ away / max(1, len(away) - 1)
        # As if a few more had been seen that differ by a hundredth of the usual.
        ridge = 1e-4 * covariance.diagonal().clamp_min(1e-8)
        return cls(descriptions.mean(0), torch.linalg.inv(covariance + ridge.diag()))

    def find_distance(self, descriptions: Tensor) -> Tensor:
        """The squared distance from what is typical, per number (Mahalanobis), (B,)."""
        away = descriptions - self.centre
        return torch.einsum("bi,ij,bj->b", away, self.precision, away) / away.shape[1]

    def score(self, descriptions: Tensor) -> Tensor:
        """The logarithm of the distance, (B,); larger is worse."""
        return self.find_distance(descriptions).clamp_min(1e-30).log()

    def to_plain(self) -> dict[str, Any]:
        """As lists of numbers."""
        return {"centre": self.centre.tolist(), "precision": self.precision.tolist()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """From `to_plain`."""
        return cls(*(torch.tensor(plain[k], dtype=torch.float64) for k in ("centre", "precision")))


@dataclass(frozen=True)
class Calibration:
    """What to compare a measurement with.

    Attributes:
        looks: What is typical, or what tells right from wrong, by the names of looks.
        usual: Scores of right measurements in the model's own units.
        factors: By which intervals of each level are widened to hold what they promise, over all
            pixels.
        brightness: How much of the model's range the 99 % quantile of a linear estimate is: the
            1, 50 and 99 % quantiles over images. The scale of data in units that nobody stated.
        on: What it was fitted on, in words.
        local: The factors by the local signal; None in calibrations of earlier versions.
        regions: Those of contrasts of regions; None in calibrations of earlier versions.
        taken: Scores of right measurements whose scale was taken from the data; None where none
            comes so, and in calibrations of earlier versions.
        fallback: Those by the local signal where MMPS draws the samples with the model's network
            as its prior; None where that was not fitted.
        calls: Network calls per sample that its scores rest on; None in calibrations of earlier
            versions.
    """

    looks: dict[str, Typicality | Discriminant]
    usual: Usual
    factors: dict[float, float]
    brightness: tuple[float, float, float]
    on: str
    local: LocalFactors | None = None
    regions: RegionFactors | None = None
    taken: Usual | None = None
    fallback: LocalFactors | None = None
    calls: int | None = None

    def find_usual(self, *, scale_taken: bool) -> Usual:
        """What to compare with; where nothing is known of taken scales, as if it were stated."""
        return self.taken if scale_taken and self.taken is not None else self.usual

    def to_plain(self) -> dict[str, Any]:
        """As numbers that JSON can hold."""
        # Apart from each other: earlier versions read what they know of a newer model.
        typical, telling = (
            {name: look.to_plain() for name, look in self.looks.items() if isinstance(look, kind)}
            for kind in (Typicality, Discriminant)
        )
        plain: dict[str, Any] = {
            "looks": typical,
            **self.usual.to_plain(),
            "factors": {str(level): factor for level, factor in self.factors.items()},
            "brightness": list(self.brightness),
            "on": self.on,
        }
        if telling:
            plain["discriminants"] = telling
        if self.taken is not None:
            plain["taken"] = self.taken.to_plain()
        if self.local is not None:
            plain["local"] = self.local.to_plain()
        if self.regions is not None:
            plain["regions"] = self.regions.to_plain()
        if self.fallback is not None:
            plain["fallback"] = self.fallback.to_plain()
        if self.calls is not None:
            plain["calls"] = self.calls
        return plain

    @classmethod
    def of(cls, model: Model | Guest) -> Self | None:
        """The one stored with a model; None if it has none."""
        if isinstance(model, Guest) or model.facts.get("calibration") is None:
            return None
        plain = model.facts["calibration"]
        try:
            # Scores of an earlier kind cannot be compared with today's.
            current = isinstance(plain.get("brightness"), list)
            return cls._from_plain(plain) if current else None
        except UNUSABLE as error:
            name, line = model.facts.get("name"), shorten(error)
            raise ModelError(f"the calibration of {name} cannot be used: {line}") from None

    @classmethod
    def _from_plain(cls, plain: Mapping[str, Any]) -> Self:
        low, middle, high = _NUMBERS.validate_python(plain["brightness"])
        looks: dict[str, Typicality | Discriminant] = {
            name: Typicality.from_plain(look) for name, look in plain["looks"].items()
        }
        telling = plain.get("discriminants", {})
        looks |= {name: Discriminant.from_plain(look) for name, look in telling.items()}
        return cls(
            looks=looks,
            usual=Usual.from_plain(plain),
            factors={float(level): float(factor) for level, factor in plain["factors"].items()},
            brightness=(low, middle, high),
            on=str(plain["on"]),
            local=LocalFactors.from_plain(plain["local"]) if "local" in plain else None,
            regions=RegionFactors.from_plain(plain["regions"]) if "regions" in plain else None,
            taken=Usual.from_plain(plain["taken"]) if "taken" in plain else None,
            fallback=LocalFactors.from_plain(plain["fallback"]) if "fallback" in plain else None,
            calls=plain.get("calls"),
        )


def find_factors(model: Model | Guest, level: float, mean: Tensor) -> Tensor:
    """How many times as wide the interval of each pixel should be as that of the samples.

    By the local signal where the model's calibration knows it; else one factor for all, 1 if
    nothing is known.

    Args:
        model: The model.
        level: Of the intervals.
        mean: The average of the samples, (B, C, H, W).

    Returns:
        (B, 1, H, W), or a single number.
    """
    local = _find_local(model)
    if local is None or model.value_range is None:
        return torch.tensor(_find_factor(Calibration.of(model), level))
    return local.find(level, find_signal(mean, model.value_range[0]))


def find_region_factors(model: Model | Guest) -> RegionFactors | None:
    """By how much intervals of contrasts of regions must be wider, if the model knows."""
    calibration = Calibration.of(model)
    return None if calibration is None else calibration.regions


def describe_factors(model: Model | Guest, level: float) -> float | dict[str, list[float]]:
    """By how much intervals are wider: one number, or one for each bin of the local signal."""
    local = _find_local(model)
    if local is None:
        return _find_factor(Calibration.of(model), level)
    return {"signal": list(local.edges), "factors": local.list_factors(level)}


def _find_local(model: Model | Guest) -> LocalFactors | None:
    if isinstance(model, Guest):
        return model.widths
    calibration = Calibration.of(model)
    return None if calibration is None else calibration.local


def _find_factor(calibration: Calibration | None, level: float) -> float:
    """Between levels that were fitted it is interpolated, beyond them that of the nearest."""
    if calibration is None or not calibration.factors:
        return 1.0
    levels = sorted(calibration.factors)
    return float(np.interp(level, levels, [calibration.factors[one] for one in levels]))


def store_calibration(folder: Path, calibration: Calibration) -> None:
    """Writes a calibration into the facts and the card of a model."""
    content = read_facts(folder)
    content["facts"]["calibration"] = calibration.to_plain()
    write_facts(folder, content)
