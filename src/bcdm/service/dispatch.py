"""Who does what: a thread that hands out jobs and means, and hands back what workers leave."""

import os
import secrets
import selectors
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from bcdm.errors import InputError, MachineError
from bcdm.service.asked import Asked
from bcdm.service.channel import Message
from bcdm.service.jobs import Conclusion, FullError, Jobs
from bcdm.service.journal import Journal, find_place
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
_DIED = "every worker that began it died: it may need more memory than there is"


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
        # What may have killed a worker goes on without company, so that it alone is to blame.
        self._doubtful: deque[_Mean] = deque()
        self._suspects: set[str] = set()
        self._unheard: deque[tuple[Hand, Message | None]] = deque()
        self._number, self._stopping, self._deadline = 0, False, 0.0
        self._pause, self._tidied = 0.0, 0.0
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
            self._turn()
        for hand in self._hands[:]:
            self._try(partial(self._dismiss, hand))
        begun = [one for some in self._begun.values() for one in some]
        for mean in [*self._means, *self._doubtful, *begun]:
            if not mean.answer.cancelled():
                mean.answer.set_exception(FullError())

    def _try(self, step: Callable[[], None]) -> None:
        """Jobs are on the disk: whatever it was, going on is better than silence."""
        try:
            step()
        except Exception as error:
            facts = {"kind": type(error).__name__, "place": find_place(error)}
            self._journal.note("dispatcher failed", facts)
            time.sleep(_LISTEN_SECONDS)

    def _is_over(self) -> bool:
        if not self._stopping:
            return False
        is_idle = all(hand.job is None and not hand.means for hand in self._hands)
        return is_idle or time.monotonic() > self._deadline

    def _turn(self) -> None:
        """One round; where the list cannot be written, what needs no list goes on."""
        steps = [self._hire, self._listen, self._hear, self._watch, self._hand_out_doubtful]
        if not self._stopping:
            steps.append(self._hand_out)
        for step in [*steps, self._hand_out_means, self._forget]:
            self._try(step)

    def _listen(self) -> None:
        for key, _ in self._selector.select(timeout=_LISTEN_SECONDS):
            if key.data is None:
                os.read(self._bell, 1 << 12)
                continue
            hand: Hand = key.data
            messages = hand.channel.receive()
            if messages is None:
                self._selector.unregister(hand.channel)
                self._unheard.append((hand, None))
            else:
                self._unheard.extend((hand, one) for one in messages)

    def _hear(self) -> None:
        """What workers said, in order; what cannot be written down now is heard again."""
        while self._unheard:
            hand, message = self._unheard[0]
            try:
                if hand in self._hands:
                    self._heed(hand, message)
            except (sqlite3.Error, OSError):
                raise
            except Exception:
                self._unheard.popleft()
                raise
            self._unheard.popleft()

    def _watch(self) -> None:
        """Ends what says nothing any more, and tells workers what is not wanted any more."""
        for name, worker in self._jobs.list_lapsed():
            self._journal.note("lease ran out", {"job": name, "worker": worker})
            found = [one for one in self._hands if one.name == worker and one.job == name]
            for hand in found:
                self._bury(hand, kill=True)
            if not found:  # the list could not be written when it ended
                self._jobs.hand_back(name, worker, self._settings.attempts, _DIED)
        for name in self._jobs.list_to_cancel():
            for hand in [one for one in self._hands if one.job == name]:
                hand.send({"cancel": name})

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
        self._let_go(hand, kill=True)
        if hand.job is not None:
            self._jobs.hand_back(hand.job, hand.name, 0)
            self._journal.note("handed back", {"job": hand.job})

    def _let_go(self, hand: Hand, *, kill: bool) -> None:
        with suppress(KeyError, ValueError):  # it was closed by the other end
            self._selector.unregister(hand.channel)
        self._hands.remove(hand)
        hand.end(kill=kill)

    def _bury(self, hand: Hand, *, kill: bool) -> None:
        """A worker has died, or must: what it had waits again."""
        self._let_go(hand, kill=kill)
        self._metrics.count("worker_deaths_total")
        if hand.process is None:
            # It never came to life: another one at once would not, either.
            self._pause = time.monotonic() + _PAUSE_SECONDS
        means = [one for number in hand.means for one in self._begun.pop(number, [])]
        for mean in means:
            mean.attempts += 1
            if mean.attempts < self._settings.attempts:
                self._doubtful.append(mean)
            else:
                mean.answer.set_result(Conclusion("failed", summary=_DIED, is_ours=True))
        state = None
        if hand.job is not None:
            # It is not to blame for what a mean may have done.
            most = 0 if means else self._settings.attempts
            if means:
                self._suspects.add(hand.job)
            state = self._jobs.hand_back(hand.job, hand.name, most, _DIED)
            self._metrics.count("handed_back_total")
        self._journal.note("worker died", {"worker": hand.name, "job": hand.job, "state": state})

    def _heed(self, hand: Hand, message: Message | None) -> None:
        if message is None:
            self._bury(hand, kill=False)
        elif "ready" in message:
            hand.process = int(message["ready"])
        elif "means" in message:
            self._answer(hand, message)
        elif "end" in message:
            self._conclude(hand, message)
        else:
            hand.progress = float(message.get("progress", hand.progress))
            if hand.job is not None:
                self._jobs.renew(hand.job, hand.name, self._settings.lease, hand.progress)
        if hand.job is None and not hand.means:
            hand.is_apart = False

    def _hand_out_doubtful(self) -> None:
        """Each to a worker that has nothing else, before this one is given a job."""
        for hand in self._hands:
            is_idle = hand.process is not None and hand.job is None and not hand.means
            if is_idle and self._doubtful:
                self._give(hand, [self._doubtful.popleft()])
                hand.is_apart = True

    def _hand_out(self) -> None:
        if time.monotonic() < self._pause:
            return
        for hand in self._hands:
            if hand.process is None or hand.job is not None or hand.is_apart:
                continue
            if hand.means and self._suspects:
                continue
            job = self._jobs.take(hand.name, self._settings.lease)
            if job is None:
                return
            hand.job, hand.progress = job.id, job.progress
            hand.is_apart = job.id in self._suspects
            folder = str(self._shelves.find(job.id).folder)
            hand.send({"job": job.id, "folder": folder, "asked": job.asked.model_dump()})
            self._metrics.count("job_waiting_seconds_total", amount=time.time() - job.created)
            self._journal.note("begun", {"job": job.id, "attempt": job.attempts})

    def _conclude(self, hand: Hand, message: Message) -> None:
        name, end = message["job"], Conclusion(**message["end"])
        if end.state == "waiting":
            # Memory or disk: it may be better later. A disk that is full is no fault of the job.
            self._pause = time.monotonic() + _PAUSE_SECONDS
            most = 0 if end.is_ours else self._settings.attempts
            state = self._jobs.hand_back(name, hand.name, most, end.summary)
            hand.job = None
            self._metrics.count("handed_back_total")
            self._journal.note("handed back", {"job": name, "state": state})
            return
        is_its = self._jobs.conclude(name, hand.name, end)
        hand.job = None
        self._suspects.discard(name)
        if message["kind"]:
            self._journal.note("job failed", {"job": name, "kind": message["kind"]})
        if not is_its:
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
            free = [
                one
                for one in self._hands
                if one.process and len(one.means) < _LOTS and not one.is_apart
            ]
            hand = min(free, key=lambda one: (len(one.means), one.job is not None), default=None)
            some = [] if hand is None else self._take_means()
            if hand is None or not some:
                return
            self._give(hand, some)

    def _give(self, hand: Hand, some: list[_Mean]) -> None:
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
            if mean.answer.set_running_or_notify_cancel():
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
        """Now and then removes jobs that were finished long ago, and their files."""
        if time.monotonic() - self._tidied < _TIDY_SECONDS:
            return
        self._tidied = time.monotonic()
        for job in self._jobs.list_old(time.time() - 3600 * self._settings.keep_hours):
            self._shelves.find(job.id).remove()
            self._jobs.remove(job.id)
            self._journal.note("forgotten", {"job": job.id})
