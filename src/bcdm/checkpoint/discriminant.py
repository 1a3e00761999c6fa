"""What tells right descriptions from wrong ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

__all__ = ["Discriminant"]

# Of the usual spread: farther away is no more wrong.
_FARTHEST = 6.0
# Keeps the weights finite where right and wrong can be told apart without an error.
_RIDGE = 1e-3


@dataclass(frozen=True)
class Discriminant:
    """The log-odds that a description is wrong: linear in its numbers and in their squares.

    Attributes:
        centre: Of right descriptions, (n,).
        spread: Of right descriptions, (n,).
        weights: Of the numbers in units of the spread, of their squares, and of 1; (2 n + 1,).
    """

    centre: Tensor
    spread: Tensor
    weights: Tensor

    @classmethod
    def fit(cls, right: Tensor, wrong: Tensor) -> Self:
        """By logistic regression, from descriptions (N, n) each."""
        start = cls(right.mean(0), right.std(0).clamp_min(1e-6), torch.zeros(0))
        terms = start._list_terms(torch.cat([right, wrong]))
        labels = torch.cat([torch.zeros(len(right)), torch.ones(len(wrong))]).to(terms)
        # As if there were as many of each.
        share = torch.where(labels > 0, len(labels) / len(wrong), len(labels) / len(right)) / 2
        with torch.enable_grad():
            weights = torch.zeros(terms.shape[1], dtype=terms.dtype, requires_grad=True)
            solver = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

            def find_loss() -> Tensor:
                solver.zero_grad()
                loss = binary_cross_entropy_with_logits(terms @ weights, labels, share)
                loss = loss + _RIDGE * weights[:-1].square().sum()
                loss.backward()
                return loss

            solver.step(find_loss)
        return cls(start.centre, start.spread, weights.detach())

    def score(self, descriptions: Tensor) -> Tensor:
        """The log-odds of descriptions (B, n), (B,); larger is worse."""
        return self._list_terms(descriptions) @ self.weights

    def _list_terms(self, descriptions: Tensor) -> Tensor:
        away = ((descriptions - self.centre) / self.spread).clamp(-_FARTHEST, _FARTHEST)
        return torch.cat([away, away.square(), torch.ones_like(away[:, :1])], 1)

    def to_plain(self) -> dict[str, Any]:
        """As lists of numbers."""
        return {k: getattr(self, k).tolist() for k in ("centre", "spread", "weights")}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """From `to_plain`."""
        names = ("centre", "spread", "weights")
        return cls(*(torch.tensor(plain[k], dtype=torch.float64) for k in names))
