"""An item before it is a measurement: its name, where it is from, and how to make it one.

Without torch, so that who hands out shards starts in no time.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from bcdm.scans import Scan

if TYPE_CHECKING:
    from bcdm.measurement import Measurement
    from bcdm.reconstruction.fitting import Fitted

__all__ = ["Entry", "Fit", "Source", "fail"]


class Fit(Protocol):
    """Brings a scan to the model's units, as `bcdm reconstruct` does."""

    def __call__(self, scan: Scan, noise_std: float | None = None) -> "Fitted":
        """Fits one; a noise level of its own counts more than that of all."""


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
    fit: "Callable[[], Fitted]"
    slice: int = 0

    def measure(self) -> "Measurement":
        """The measurement, in the model's units."""
        return self.fit().measure(self.slice)


class Source(Protocol):
    """Where items are from. Knows no model, and holds no more than a file of them in memory."""

    def describe(self) -> Mapping[str, Any]:
        """What the archive's settings say of it. Costs little."""

    def plan(self) -> tuple[int, int | None]:
        """Decides once which item is in which shard.

        Returns:
            How many shards there are, and how many items if that is known.
        """

    def count(self, most: int) -> int:
        """About how many items there are, as far as that is at most `most`."""

    def read(self, shard: int, fit: Fit) -> Iterator[Entry]:
        """The items of a shard, always in the same order."""


def fail(error: Exception) -> "Callable[[], Fitted]":
    """What an item that cannot be read has in the place of its fit."""

    def fit() -> "Fitted":
        raise error

    return fit
