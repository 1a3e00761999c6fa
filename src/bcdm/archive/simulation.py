"""What failures cost a fleet of workers: a simulation event by event, no work is done.

It follows the rules of the schedulers: a shard of a worker that dies is done again from its
beginning, by whoever is free; a worker that dies is started anew; with a driver that dies, all that
is in work is lost (Ray) or nothing (parts of array jobs, which have no common driver).
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["Course", "Fleet", "simulate"]

_NEVER = float("inf")


@dataclass(frozen=True)
class Fleet:
    """Workers, their work and their failures; all times in seconds.

    Attributes:
        workers: How many.
        shards: How many.
        shard: Time of a shard, undisturbed.
        spread: Standard deviation of its logarithm.
        start: Until a worker that is started has its model.
        replace: Until a worker that died is started.
        lifetime: Mean time from the start of a worker to its death; exponential.
        driver_lifetime: The same of the driver.
        driver_start: Until a driver that died hands out shards again.
        hand_out: Of the driver, for each shard that it hands out.
    """

    workers: int
    shards: int
    shard: float
    spread: float = 0.0
    start: float = 0.0
    replace: float = 0.0
    lifetime: float = _NEVER
    driver_lifetime: float = _NEVER
    driver_start: float = 0.0
    hand_out: float = 0.0

    @property
    def least(self) -> float:
        """Time that it takes if nothing fails and nobody waits."""
        return self.start + self.shards * self.shard / self.workers


@dataclass(frozen=True)
class Course:
    """What became of a fleet.

    Attributes:
        seconds: Until the last shard was finished.
        deaths: Of workers.
        driver_deaths: Of the driver.
        lost: Time of workers that went into shards that were not finished, in seconds.
        useful: Time of workers that went into shards that were.
    """

    seconds: float
    deaths: int
    driver_deaths: int
    lost: float
    useful: float

    @property
    def redone(self) -> float:
        """Work done again, over the work that was needed."""
        return self.lost / self.useful


def simulate(
    fleet: Fleet, seed: int = 0, draw_lifetime: Callable[[int, int], float] | None = None
) -> Course:
    """Runs a fleet to its end.

    Args:
        fleet: The fleet.
        seed: Of failures and of the times of shards.
        draw_lifetime: Time from start to death of process k of worker w, as a function of (w, k);
            left out: drawn by chance.
    """
    return _Simulation(fleet, seed, draw_lifetime).run()


class _Worker:
    """One place in the fleet.

    Attributes:
        life: How many processes it has had: what was to happen to a dead one is void.
        shard: Since when it does one, and how long that takes.
    """

    def __init__(self) -> None:
        self.life = 0
        self.shard: tuple[float, float] | None = None


class _Simulation:
    def __init__(
        self, fleet: Fleet, seed: int, draw_lifetime: Callable[[int, int], float] | None
    ) -> None:
        self._fleet, self._random = fleet, np.random.default_rng(seed)
        self._draw_lifetime = draw_lifetime or (lambda *_: self._draw(fleet.lifetime))
        self._workers = [_Worker() for _ in range(fleet.workers)]
        self._events: list[tuple[float, str, int, int]] = []  # when, what, who, which life of it
        self._idle: set[int] = set()
        self._again: deque[float] = deque()  # times of shards that are to be done again
        self._todo, self._done = fleet.shards, 0
        self._deaths = self._driver_deaths = 0
        self._lost = self._useful = 0.0
        self._now = self._handed = 0.0  # when the driver is free

    def run(self) -> Course:
        """Goes from event to event."""
        for number in range(len(self._workers)):
            self._start(number, 0.0)
        self._note(self._draw(self._fleet.driver_lifetime), "driver dies")
        happen = {"dies": self._die, "ends": self._end, "free": self._take}
        while self._done < self._fleet.shards:
            self._now, what, number, life = heapq.heappop(self._events)
            if what == "driver dies":
                self._lose_driver()
            elif life == self._workers[number].life:
                happen[what](number)
        return Course(self._now, self._deaths, self._driver_deaths, self._lost, self._useful)

    def _note(self, when: float, what: str, number: int = -1) -> None:
        life = self._workers[number].life
        heapq.heappush(self._events, (when, what, number, life))

    def _draw(self, mean: float) -> float:
        return _NEVER if mean == _NEVER else float(self._random.exponential(mean))

    def _start(self, number: int, when: float) -> None:
        """A new process."""
        worker = self._workers[number]
        self._idle.discard(number)
        lifetime = self._draw_lifetime(number, worker.life)
        worker.life += 1
        self._note(when + self._fleet.start, "free", number)
        self._note(when + lifetime, "dies", number)

    def _take(self, number: int) -> None:
        """Asks the driver for a shard."""
        spread = self._fleet.spread
        if self._todo:
            self._todo -= 1
            factor = float(np.exp(self._random.normal(-(spread**2) / 2, spread)))
            seconds = self._fleet.shard * factor
        elif self._again:
            seconds = self._again.popleft()
        else:
            self._idle.add(number)
            return
        self._handed = max(self._handed, self._now) + self._fleet.hand_out
        self._workers[number].shard = self._handed, seconds
        self._note(self._handed + seconds, "ends", number)

    def _end(self, number: int) -> None:
        """A shard is finished."""
        worker = self._workers[number]
        assert worker.shard is not None
        self._useful += worker.shard[1]
        self._done += 1
        worker.shard = None
        self._take(number)

    def _lose(self, number: int) -> None:
        """What a worker had begun is to be done again."""
        worker = self._workers[number]
        if worker.shard is None:
            return
        self._lost += max(0.0, self._now - worker.shard[0])
        self._again.append(worker.shard[1])
        worker.shard = None
        if self._idle:
            self._note(self._now, "free", self._idle.pop())

    def _die(self, number: int) -> None:
        self._deaths += 1
        self._lose(number)
        self._start(number, self._now + self._fleet.replace)

    def _lose_driver(self) -> None:
        """Its workers end with it."""
        self._driver_deaths += 1
        self._handed = self._now + self._fleet.driver_start
        for number in range(len(self._workers)):
            self._lose(number)
        for number in range(len(self._workers)):
            self._start(number, self._handed)
        self._note(self._handed + self._draw(self._fleet.driver_lifetime), "driver dies")
