"""How far a run is, and how long it will take."""

import time
from collections.abc import Callable
from math import ceil
from typing import Self

from tqdm.auto import tqdm

__all__ = ["Bar"]

_QUIET_SECONDS, _REDRAWN_SECONDS = 20, 0.1


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
        self._started, self._unit = self._told, unit
        self._total, self._left, self._drawn = total, total, self._told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def advance(self, count: int, *, made: bool = True) -> None:
        """Counts what is done; what was there already tells nothing of the time."""
        self._left -= count
        self._made += count if made else 0
        self._bar.n = self._total - self._left
        self._bar.refresh()
        self._tell(0.0)

    def show(self, part: float) -> None:
        """Shows how much of what is being made is done, as if so many were."""
        now = time.monotonic()
        if now - self._drawn > _REDRAWN_SECONDS:
            self._drawn = now
            self._bar.n = round(self._total - self._left + part, 1)
            self._bar.refresh()
        self._tell(part)

    def _tell(self, part: float) -> None:
        """Says how long it will take where there is no bar, now and then."""
        now, made, left = time.monotonic(), self._made + part, self._left - part
        if self._bar.disable and made and left > 0 and now - self._told > _QUIET_SECONDS:
            self._told = now
            wait = tqdm.format_interval((now - self._started) / made * left)
            self.say(f"{ceil(left)} {self._unit}s to go, about {wait}")
