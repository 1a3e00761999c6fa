"""What scores of right measurements are: what a measurement's own are compared with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from pydantic import TypeAdapter

from bcdm.checkpoint.trend import Trend

__all__ = ["CONDITIONS", "TWO_SIDED", "Usual"]

CONDITIONS = ("noise_std", "share")
"""What scores may depend on though a measurement is right: its noise, and how much it measures."""
TWO_SIDED = ("residual", "noise level")
"""Scores that may be too small as well as too large."""

_NUMBERS: TypeAdapter[list[float]] = TypeAdapter(list[float])


@dataclass(frozen=True)
class Usual:
    """Scores of right measurements whose scale was found in one way, and what is too odd for them.

    Attributes:
        tables: Scores of measurements that are right, sorted, by name; larger is worse.
        threshold: A measurement is flagged where a tail probability is below, times its share.
        trends: What each score usually is by mask and noise, where these differ; tables then hold
            what is left.
        shares: How many times the threshold is the limit of a check, where it is not once.
    """

    tables: dict[str, list[float]] = field(default_factory=dict)
    threshold: float = 0.0
    trends: dict[str, Trend] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)

    def place(self, scores: Mapping[str, float]) -> dict[str, float]:
        """Scores as the tables hold them, from those of a measurement and its `CONDITIONS`."""
        placed = {}
        for name, score in scores.items():
            if name in CONDITIONS:
                continue
            if name in self.trends:
                where = torch.tensor([[scores[k] for k in CONDITIONS]], dtype=torch.float64).log()
                given = torch.tensor([score], dtype=torch.float64)
                score = float(self.trends[name].standardise(where, given))
            placed[name] = abs(score) if name in TWO_SIDED else score
        return placed

    def find_tails(self, scores: Mapping[str, float]) -> dict[str, float]:
        """The fraction of right measurements with as bad a score, by name.

        The measurement counts as one of them: if it is right, every rank among them is as likely.

        Args:
            scores: As `place` gives them.
        """
        tails = {}
        for name, score in scores.items():
            table = self.tables.get(name)
            if table:
                worse = len(table) - int(np.searchsorted(table, score))
                tails[name] = (1 + worse) / (1 + len(table))
        return tails

    def find_limit(self, name: str) -> float:
        """The tail below which a check flags."""
        return self.threshold * self.shares.get(name, 1.0)

    def find_least(self, scores: Mapping[str, float]) -> float:
        """The smallest tail of a measurement, each in units of its check's share."""
        tails = self.find_tails(self.place(scores))
        return min(tail / self.shares.get(name, 1.0) for name, tail in tails.items())

    def to_plain(self) -> dict[str, Any]:
        """As numbers that JSON can hold."""
        plain: dict[str, Any] = {
            "tables": {k: [round(v, 6) for v in table] for k, table in self.tables.items()},
            "threshold": self.threshold,
        }
        if self.shares:
            plain["shares"] = self.shares
        if self.trends:
            plain["trends"] = {name: trend.to_plain() for name, trend in self.trends.items()}
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """From `to_plain`; keys that it does not know are passed over."""
        return cls(
            tables={name: _NUMBERS.validate_python(rows) for name, rows in plain["tables"].items()},
            threshold=float(plain["threshold"]),
            trends={k: Trend.from_plain(one) for k, one in plain.get("trends", {}).items()},
            shares={k: float(share) for k, share in plain.get("shares", {}).items()},
        )
