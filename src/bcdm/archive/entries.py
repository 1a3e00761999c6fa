"""An item before it is a measurement: its name, where it is from, and how to make it one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bcdm.checkpoint import Model
from bcdm.measurement import Measurement
from bcdm.operators import LinearOperator
from bcdm.reconstruction.fitting import Fitted, fit_scan
from bcdm.scans import Scan

__all__ = ["Entry", "Fitter", "Source"]


@dataclass(frozen=True, eq=False)
class Entry:
    """An item.

    Attributes:
        id: What its noise belongs to.
        name: Where it is from, for people: a file and slice, or a row.
        fit: Gives the scan that it is in, in the model's units, or raises what is wrong with it.
        slice: Which slice of that scan.
    """

    id: str
    name: str
    fit: Callable[[], Fitted]
    slice: int = 0

    def measure(self) -> Measurement:
        """The measurement, in the model's units."""
        return self.fit().measure(self.slice)


class Fitter:
    """Brings scans to a model's units, as `bcdm reconstruct` does.

    Args:
        model: What reconstructs.
        operator: What all were measured with, if their files do not say.
        noise_std: In the files' units; estimated when left out.
    """

    def __init__(
        self, model: Model, operator: LinearOperator | None = None, noise_std: float | None = None
    ) -> None:
        self.model, self.operator, self.noise_std = model, operator, noise_std

    def fit(self, scan: Scan, noise_std: float | None = None) -> Fitted:
        """Fits one; a noise level of its own counts more than that of all."""
        std = self.noise_std if noise_std is None else noise_std
        return fit_scan(scan, self.model, noise_std=std, operator=self.operator)


class Source(Protocol):
    """Where items are from. Knows no model, and holds no more than a file of them in memory."""

    def describe(self) -> Mapping[str, Any]:
        """What the archive's settings say of it. Costs little."""

    def plan(self) -> tuple[int, int | None]:
        """Decides once which item is in which shard.

        Returns:
            How many shards there are, and how many items if that is known.
        """

    def read(self, shard: int, fitter: Fitter) -> Iterator[Entry]:
        """The items of a shard, always in the same order."""
