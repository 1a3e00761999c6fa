"""Posteriors of many slices whose samples lie on disk."""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray

from bcdm.checkpoint import Guest, Model
from bcdm.reconstruction.fitting import Fitted
from bcdm.reconstruction.posterior import Posterior
from bcdm.spool import release

__all__ = ["StoredPosteriors"]


class StoredPosteriors(Sequence[Posterior]):
    """The posterior of each slice; its samples are read when it is asked for.

    Of a volume only the slice that is looked at is in memory.

    Args:
        model: What drew them.
        fitted: The scan.
        store: Samples (slices, samples, C, H, W), an array of zarr.
        previews: Of each slice, (slices, C, H, W).
    """

    def __init__(
        self, model: Model | Guest, fitted: Fitted, store: Any, previews: NDArray[Any]
    ) -> None:
        self._model, self._fitted = model, fitted
        self._store, self._previews = store, previews

    def __len__(self) -> int:
        return len(self._previews)

    @overload
    def __getitem__(self, number: int) -> Posterior: ...

    @overload
    def __getitem__(self, number: slice) -> list[Posterior]: ...

    def __getitem__(self, number: int | slice) -> Posterior | list[Posterior]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        # Negative numbers count from the end; those beyond it end a loop over all.
        place = range(len(self))[number]
        samples = torch.from_numpy(np.asarray(self._store[place]))[:, None]
        measurement = self._fitted.measure(place)
        preview = torch.from_numpy(np.array(self._previews[place]))[None]
        release(self._previews)
        return Posterior(self._model, measurement, preview, samples, self._fitted.units.taken)
