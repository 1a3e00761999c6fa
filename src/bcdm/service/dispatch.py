"""Who does what: a thread that hands out jobs and means, and hands back what workers leave."""

import os
import secrets
import selectors
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field

from bcdm.errors import InputError, MachineError
from bcdm.service.asked import Asked
from bcdm.service.channel import Message
from bcdm.service.jobs import Conclusion, FullError, Jobs
from bcdm.service.journal import Journal
from bcdm.service.metrics import Metrics
from bcdm.service.settings import ServiceSettings
from bcdm.service.shelves import Shelf, Shelves
from bcdm.service.workers import Hand, Workers

__all__ = ["Dispatcher"]

_LISTEN_SECONDS = 0.5
_TIDY_SECONDS = 60.0
_PAUSE_SECONDS = 5.0
_MEANS = 64  # that wait at most
_MEANS_AT_ONCE = 8  # that a worker is given in one lot
_LOTS = 8  # that a worker has at most


@dataclass(eq=False)
class _Mean:
    """A file whose mean somebody waits for."""

    shelf: Shelf
    asked: Asked
    answer: "Future[Conclusion]" = field(default_factory=Future)
    attempts: int = 0


class Dispatcher:
    """Keeps workers busy and alive.

    Args:
        settings: Of the service.
        jobs: The list.
        shelves: The files.
        workers: Where workers come from.
        journal: The log.
        metrics: The counts.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        jobs: Jobs,
        shelves: Shelves,
        workers: Workers,
        journal: Journal,
        metrics: Metrics,
    ) -> None:
        self._settings, self._jobs, self._shelves = settings, jobs, shelves
        self._workers, self._journal, self._metrics = workers, journal, metrics
        self._hands: list[Hand] = []
        self._means: deque[_Mean] = deque()
        self._begun: dict[int, list[_Mean]] = {}
        self._number, self._stopping, self._deadline = 0, False, 0.0
        self._pause, self._tidied, self._failures = 0.0, 0.0, 0
        self._selector = selectors.DefaultSelector()
        self._bell, self._ring = os.pipe()
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)

    @property
    def is_ready(self) -> bool:
        """Whether a worker could begin now, or as soon as it has finished."""
        return not self._stopping and any(hand.process is not None for hand in self._hands)

    @property
    def processes(self) -> list[int]:
        """Numbers of the workers' processes."""
        return [hand.process for hand in self._hands if hand.process is not None]

    def start(self) -> None:
        """Begins; workers must be open."""
        os.set_blocking(self._ring, False)
        self._selector.register(self._bell, selectors.EVENT_READ, None)
        self._thread.start()

    def stop(self, grace: float) -> None:
        """Hands out no more; waits for what runs, hands back what is not finished by then."""
        self._stopping, self._deadline = True, time.monotonic() + grace
        self.wake()
        self._thread.join()

    def wake(self) -> None:
        """There is something new to do."""
        # A pipe that is full wakes it as well.
        with suppress(OSError):
            os.write(self._ring, b".")

    def ask_mean(self, shelf: Shelf, asked: Asked) -> "Future[Conclusion]":
        """Asks for the mean of a small file.

        Raises:
            FullError: If too many wait.
        """
        if len(self._means) >= _MEANS or self._stopping:
            raise FullError
        mean = _Mean(shelf, asked)
        self._means.append(mean)
        self.wake()
        return mean.answer

    def _run(self) -> None:
        while not self._is_over():
            try:
                self._turn()
            except Exception as error:
                # Jobs are on the disk: whatever it was, going on is better than silence.
                self._journal.note("dispatcher failed", {"kind": type(error).__name__})
                time.sleep(_LISTEN_SECONDS)
        for hand in self._hands[:]:
            self._dismiss(hand)
        for mean in [*self._means, *(one for some in self._begun.values() for one in some)]:
            if not mean.answer.cancelled():
                mean.answer.set_exception(FullError())

    def _is_over(self) -> bool:
        if not self._stopping:
            return False
        is_idle = all(hand.job is None and not hand.means for hand in self._hands)
        return is_idle or time.monotonic() > self._deadline

    def _turn(self) -> None:
        self._hire()
        for key, _ in self._selector.select(timeout=_LISTEN_SECONDS):
            if key.data is None:
                os.read(self._bell, 1 << 12)
            else:
                self._listen(key.data)
        for name, worker in self._jobs.list_lapsed():
            for hand in [one for one in self._hands if one.name == worker]:
                self._journal.note("lease ran out", {"job": name, "worker": worker})
                self._bury(hand, kill=True)
        for name in self._jobs.list_to_cancel():
            for hand in [one for one in self._hands if one.job == name]:
                hand.send({"cancel": name})
        if not self._stopping and time.monotonic() > self._pause:
            self._hand_out()
        self._hand_out_means()
        if time.monotonic() - self._tidied > _TIDY_SECONDS:
            self._tidied = time.monotonic()
            self._forget()

    def _hire(self) -> None:
        """As many workers as there should be."""
        if self._stopping or time.monotonic() < self._pause:
            return
        while len(self._hands) < self._settings.workers:
            try:
                channel = self._workers.start()
            except (InputError, MachineError, OSError) as error:
                self._pause = time.monotonic() + _PAUSE_SECONDS
                self._journal.note("no worker", {"kind": type(error).__name__})
                return
            hand = Hand(secrets.token_hex(4), channel)
            self._hands.append(hand)
            self._selector.register(channel, selectors.EVENT_READ, hand)

    def _dismiss(self, hand: Hand) -> None:
        """Ends a worker; its job waits again, and nobody is to blame."""
        self._selector.unregister(hand.channel)
        self._hands.remove(hand)
        hand.end(kill=True)
        if hand.job is not None:
            self._jobs.hand_back(hand.job, hand.name, 0)
            self._journal.note("handed back", {"job": hand.job})

    def _bury(self, hand: Hand, *, kill: bool) -> None:
        """A worker has died, or must: what it had waits again."""
        self._selector.unregister(hand.channel)
        self._hands.remove(hand)
        hand.end(kill=kill)
        self._metrics.count("worker_deaths_total")
        state = None
        if hand.job is not None:
            reason = "every worker that began it died: it may need more memory than there is"
            state = self._jobs.hand_back(hand.job, hand.name, self._settings.attempts, reason)
            self._metrics.count("handed_back_total")
        self._journal.note("worker died", {"worker": hand.name, "job": hand.job, "state": state})
        if hand.process is None:
            # It never came to life: another one at once would not, either.
            self._pause = time.monotonic() + _PAUSE_SECONDS
        for mean in [one for number in hand.means for one in self._begun.pop(number, [])]:
            mean.attempts += 1
            if mean.attempts < self._settings.attempts:
                self._means.appendleft(mean)
            else:
                mean.answer.set_result(Conclusion("failed", summary="every worker died of it"))

    def _listen(self, hand: Hand) -> None:
        messages = hand.channel.receive()
        if messages is None:
            self._bury(hand, kill=False)
            return
        for message in messages:
            if "ready" in message:
                hand.process = int(message["ready"])
            elif "means" in message:
                self._answer(hand, message)
            elif "end" in message:
                self._conclude(hand, message)
            else:
                hand.progress = float(message.get("progress", hand.progress))
                if hand.job is not None:
                    self._jobs.renew(hand.job, hand.name, self._settings.lease, hand.progress)

    def _hand_out(self) -> None:
        for hand in self._hands:
            if hand.process is None or hand.job is not None:
                continue
            job = self._jobs.take(hand.name, self._settings.lease)
            if job is None:
                return
            hand.job, hand.progress = job.id, job.progress
            folder = str(self._shelves.find(job.id).folder)
            hand.send({"job": job.id, "folder": folder, "asked": job.asked.model_dump()})
            self._metrics.count("job_waiting_seconds_total", amount=time.time() - job.created)
            self._journal.note("begun", {"job": job.id, "attempt": job.attempts})

    def _conclude(self, hand: Hand, message: Message) -> None:
        name, end, hand.job = message["job"], Conclusion(**message["end"]), None
        if message["kind"]:
            self._journal.note("job failed", {"job": name, "kind": message["kind"]})
        if end.state == "waiting":
            # Memory or disk: it may be better later.
            self._pause = time.monotonic() + _PAUSE_SECONDS
            state = self._jobs.hand_back(name, hand.name, self._settings.attempts, end.summary)
            self._metrics.count("handed_back_total")
            self._journal.note("handed back", {"job": name, "state": state})
            return
        if not self._jobs.conclude(name, hand.name, end):
            return
        self._metrics.count("jobs_concluded_total", {"state": end.state})
        job = self._jobs.find(name)
        seconds = 0.0 if job is None else (job.finished or 0.0) - (job.started or 0.0)
        if end.state == "done":
            self._metrics.count("job_seconds_total", amount=seconds)
        facts = {"job": name, "state": end.state, "light": end.light, "seconds": round(seconds, 3)}
        self._journal.note("concluded", facts)

    def _hand_out_means(self) -> None:
        """To a worker without a job if there is one; it draws together what came meanwhile."""
        while self._means:
            free = [one for one in self._hands if one.process and len(one.means) < _LOTS]
            hand = min(free, key=lambda one: (len(one.means), one.job is not None), default=None)
            some = [] if hand is None else self._take_means()
            if hand is None or not some:
                return
            self._number += 1
            hand.means.append(self._number)
            self._begun[self._number] = some
            files = [[str(one.shelf.folder), one.asked.model_dump()] for one in some]
            hand.send({"means": self._number, "files": files})

    def _take_means(self) -> list[_Mean]:
        """Some that wait; whoever went away meanwhile is left out."""
        some: list[_Mean] = []
        while self._means and len(some) < _MEANS_AT_ONCE:
            mean = self._means.popleft()
            if mean.attempts or mean.answer.set_running_or_notify_cancel():
                some.append(mean)
        return some

    def _answer(self, hand: Hand, message: Message) -> None:
        hand.means.remove(message["means"])
        some = self._begun.pop(message["means"], [])
        if message["kind"]:
            self._journal.note("mean failed", {"kind": message["kind"]})
        self._metrics.count("means_total", amount=len(some))
        self._metrics.count("mean_batches_total", amount=message["first"])
        for mean, end in zip(some, message["ends"], strict=True):
            mean.answer.set_result(Conclusion(**end))

    def _forget(self) -> None:
        """Removes jobs that were finished long ago, and their files."""
        for job in self._jobs.list_old(time.time() - 3600 * self._settings.keep_hours):
            self._shelves.find(job.id).remove()
            self._jobs.remove(job.id)
            self._journal.note("forgotten", {"job": job.id})
