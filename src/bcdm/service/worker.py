"""A process that draws: jobs come in one by one, and means in between.

A mean is answered between two network calls of the job that runs: nobody waits for minutes for
an answer of milliseconds, and no second copy of the model is needed for it.
"""

import os
import queue
import threading
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path

from bcdm.errors import Cancelled, InputError
from bcdm.service.asked import Asked, AskedJob
from bcdm.service.channel import Channel, Message
from bcdm.service.jobs import Conclusion
from bcdm.service.journal import find_place
from bcdm.service.shelves import Shelf
from bcdm.service.tasks import Tasks

__all__ = ["Worker"]

_TELL_SECONDS = 0.5


class Worker:
    """Does what the gateway says, until the gateway is gone.

    Args:
        channel: To the gateway.
        tasks: What it can do.
        beat: Seconds from one sign of life to the next.
        longest: Seconds that a job may take.
    """

    def __init__(self, channel: Channel, tasks: Tasks, beat: float, longest: float) -> None:
        self._channel, self._tasks = channel, tasks
        self._beat, self._longest = beat, longest
        # Jobs, and nothing to wake it for means, which wait apart until somebody looks.
        self._inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._means: deque[Message] = deque()
        self._cancelled: set[str] = set()

    def run(self) -> None:
        """Never returns: the process ends with its channel."""
        for target in (self._listen, self._live):
            threading.Thread(target=target, daemon=True).start()
        self._channel.send({"ready": os.getpid()})
        while True:
            message = self._inbox.get()
            if message is None:
                self._answer_means()
            else:
                self._reconstruct(message)

    def _listen(self) -> None:
        while (messages := self._channel.receive()) is not None:
            for message in messages:
                if "cancel" in message:
                    self._cancelled.add(message["cancel"])
                elif "means" in message:
                    self._means.append(message)
                    self._inbox.put(None)
                else:
                    self._inbox.put(message)
        # Nobody hears of the result any more; what is whole on disk is found by the next one.
        os._exit(0)

    def _live(self) -> None:
        while True:
            self._channel.send({"alive": True})
            time.sleep(self._beat)

    def _reconstruct(self, message: Message) -> None:
        name, began, told = message["job"], time.monotonic(), 0.0

        def watch(progress: float) -> None:
            nonlocal told
            if name in self._cancelled:
                raise Cancelled
            self._answer_means()
            now = time.monotonic()
            if now - began > self._longest:
                raise InputError(f"takes longer than {self._longest:.0f} s: split it")
            if now - told > _TELL_SECONDS:
                told = now
                self._channel.send({"job": name, "progress": progress})

        shelf, asked = Shelf(Path(message["folder"])), AskedJob(**message["asked"])
        try:
            end, kind = self._tasks.reconstruct(shelf, asked, watch), ""
        except Exception as error:
            end, kind = _confess(error)
        self._cancelled.discard(name)
        self._channel.send({"job": name, "end": asdict(end), "kind": kind})

    def _answer_means(self) -> None:
        """All that wait share their network calls, however they came."""
        some: list[Message] = []
        while self._means:
            some.append(self._means.popleft())
        files = [
            (Shelf(Path(folder)), Asked(**asked))
            for message in some
            for folder, asked in message["files"]
        ]
        if not files:
            return
        ends, kind = self._estimate(files)
        left = iter(ends)
        for message in some:
            own = [asdict(next(left)) for _ in message["files"]]
            answer = {"means": message["means"], "ends": own, "kind": kind}
            self._channel.send(answer | {"first": message is some[0]})

    def _estimate(self, files: list[tuple[Shelf, Asked]]) -> tuple[list[Conclusion], str]:
        """Conclusions on files, and what the log says of faults of ours."""
        try:
            return self._tasks.estimate(files), ""
        except Exception as error:
            if len(files) == 1:
                end, kind = _confess(error)
                return [end], kind
        # Whoever is at fault, the others are not.
        apart = [self._estimate([one]) for one in files]
        kinds = [kind for _, kind in apart if kind]
        return [end for (end,), _ in apart], "; ".join(kinds)


def _confess(error: Exception) -> tuple[Conclusion, str]:
    """An error that is none of the client: what it hears, and what the log says."""
    kind = f"{type(error).__name__} at {find_place(error)}"
    said = "the service failed at this file, and has noted where"
    return Conclusion("failed", summary=said, is_ours=True), kind
