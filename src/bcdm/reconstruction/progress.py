"""How far a run is, and how long it will take."""

import time
from collections.abc import Callable
from typing import Self

from tqdm.auto import tqdm

__all__ = ["Bar"]

_QUIET_SECONDS = 20


class Bar:
    """A bar on a terminal, else now and then a line.

    Args:
        total: How many things there are to do.
        say: Called with each line.
        unit: What they are, in the singular.
    """

    def __init__(self, total: int, say: Callable[[str], None], unit: str) -> None:
        self.say, self._told, self._made = say, time.monotonic(), 0
        self._bar = tqdm(total=total, disable=None, desc=f"{unit}s", unit=unit)
        self._started, self._left, self._unit = self._told, total, unit

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def advance(self, count: int, *, made: bool = True) -> None:
        """Counts what is done; what was there already tells nothing of the time."""
        self._bar.update(count)
        self._left -= count
        self._made += count if made else 0
        now = time.monotonic()
        if self._bar.disable and self._made and self._left and now - self._told > _QUIET_SECONDS:
            self._told = now
            wait = (now - self._started) / self._made * self._left
            self.say(f"{self._left} {self._unit}s to go, about {tqdm.format_interval(wait)}")
