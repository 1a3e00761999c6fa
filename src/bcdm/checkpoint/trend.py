"""What a score usually is, by what was measured: mask and noise."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

__all__ = ["Trend"]

# The mean of log |n| for a standard normal n.
_MEAN_LOG = -0.6352
# As if a few more had been seen that follow no trend.
_RIDGE = 2.0


@dataclass(frozen=True)
class Trend:
    """A score's location, quadratic in what it depends on, and the log of its spread, linear in it.

    Beyond the range that it was fitted on it stays what it is at the end.

    Attributes:
        low: The least of each condition, (n,).
        high: The greatest of each, (n,).
        location: Coefficients of 1, the conditions, and their products.
        spread: Coefficients of 1 and the conditions.
    """

    low: Tensor
    high: Tensor
    location: Tensor
    spread: Tensor

    @classmethod
    def fit(cls, conditions: Tensor, scores: Tensor) -> Self:
        """By least squares, from conditions (N, n) and scores (N,), float64."""
        start = cls(conditions.amin(0), conditions.amax(0), torch.zeros(0), torch.zeros(0))
        linear, quadratic = start._list_terms(conditions)
        location = _regress(quadratic, scores)
        away = (scores - quadratic @ location).abs()
        logs = away.clamp_min(1e-3 * away.mean() + 1e-12).log() - _MEAN_LOG
        return cls(start.low, start.high, location, _regress(linear, logs))

    def locate(self, conditions: Tensor) -> Tensor:
        """What the score usually is under conditions (B, n), (B,)."""
        return self._list_terms(conditions)[1] @ self.location

    def standardise(self, conditions: Tensor, scores: Tensor) -> Tensor:
        """Scores (B,) over conditions (B, n), less their location, in units of their spread."""
        linear, quadratic = self._list_terms(conditions)
        return (scores - quadratic @ self.location) * (-(linear @ self.spread)).exp()

    def _list_terms(self, conditions: Tensor) -> tuple[Tensor, Tensor]:
        """(B, 1 + n) and (B, 1 + n + n (n + 1) / 2)."""
        wide = (self.high - self.low).clamp_min(1e-12)
        placed = (2 * (conditions - self.low) / wide - 1).clamp(-1, 1)
        linear = torch.cat([torch.ones_like(placed[:, :1]), placed], 1)
        rows, columns = torch.triu_indices(placed.shape[1], placed.shape[1])
        return linear, torch.cat([linear, placed[:, rows] * placed[:, columns]], 1)

    def to_plain(self) -> dict[str, Any]:
        """As lists of numbers."""
        return {k: getattr(self, k).tolist() for k in ("low", "high", "location", "spread")}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """From `to_plain`."""
        names = ("low", "high", "location", "spread")
        return cls(*(torch.tensor(plain[k], dtype=torch.float64) for k in names))


def _regress(terms: Tensor, values: Tensor) -> Tensor:
    """Least squares; only the first term, a constant, is free of the ridge."""
    ridge = torch.full((terms.shape[1],), _RIDGE, dtype=terms.dtype)
    ridge[0] = 1e-9
    return torch.linalg.solve(terms.T @ terms + ridge.diag(), terms.T @ values)
