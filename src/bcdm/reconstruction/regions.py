"""Fits by how much intervals of the contrasts of regions must be wider."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint.regions import RegionFactors
from bcdm.evaluation.ranks import find_interval
from bcdm.evaluation.signal import OBJECT, find_signal
from bcdm.reconstruction.features import measure_contrast
from bcdm.reconstruction.posterior import Posterior, as_shown

__all__ = ["RADII", "RegionFit", "draw_disc"]

RADII = (1.0, 2.0, 4.0)
_PLACES = 16  # of each radius in an image
_LEAST = 40  # regions that a factor is fitted on


def draw_disc(size: tuple[int, int], centre: Sequence[float], radius: float) -> Tensor:
    """The pixels whose middle is not further from a point than the radius, bool (H, W).

    >>> int(draw_disc((9, 9), (4, 4), 1.0).sum())
    5
    """
    rows, columns = (torch.arange(side) - place for side, place in zip(size, centre, strict=True))
    return torch.hypot(rows[:, None].double(), columns.double()) <= radius


class RegionFit:
    """Compares contrasts of samples with true ones, at random places inside of objects."""

    def __init__(self, levels: Sequence[float], seed: int) -> None:
        self._seed, self._images = seed, 0
        self._ratios: dict[float, list[list[float]]] = {
            level: [[] for _ in RADII] for level in levels
        }
        self._sizes: list[list[int]] = [[] for _ in RADII]

    def watch(
        self, known: Iterable[tuple[Posterior, Tensor]]
    ) -> Iterator[tuple[Posterior, Tensor]]:
        """Passes posteriors and the truth behind each on, and learns from them."""
        for posterior, truth in known:
            for number in range(len(truth)):
                self._add(posterior, truth, number)
            yield posterior, truth

    def fit(self) -> RegionFactors | None:
        """The factors; None without levels, or where hardly a region was seen."""
        told = [k for k, sizes in enumerate(self._sizes) if len(sizes) >= _LEAST]
        if not self._ratios or not told:
            return None
        factors = {
            level: [float(np.quantile(columns[k], level)) for k in told]
            for level, columns in self._ratios.items()
        }
        return RegionFactors(tuple(float(np.mean(self._sizes[k])) for k in told), factors)

    def _add(self, posterior: Posterior, truth: Tensor, number: int) -> None:
        rng = np.random.default_rng([self._seed, self._images])
        self._images += 1
        samples, shown = posterior.values[:, number], as_shown(truth[number : number + 1])
        # By the samples, as when a user asks: the truth is not known then.
        black = posterior.black
        signal = find_signal(samples.mean(0, keepdim=True), black)[0, 0]
        size = (signal.shape[-2], signal.shape[-1])
        for column, radius in enumerate(RADII):
            reach = int(radius)
            # Whole discs, and something left around them.
            inner = signal[reach + 1 : -reach - 1, reach + 1 : -reach - 1] >= OBJECT
            places = (inner.nonzero() + reach + 1).tolist()
            for k in rng.permutation(len(places))[:_PLACES]:
                region = draw_disc(size, places[k], radius)
                true = measure_contrast(shown, region)
                drawn = measure_contrast(samples, region)
                self._sizes[column].append(int(region.sum()))
                for level, columns in self._ratios.items():
                    low, high = (float(end) for end in find_interval(drawn, level))
                    half = max((high - low) / 2, 1e-12)
                    columns[column].append(abs(float(true[0]) - (low + high) / 2) / half)
