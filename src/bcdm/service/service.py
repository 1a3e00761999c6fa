"""All parts of a running service, and what routes do with them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bcdm.service.asked import AskedJob
from bcdm.service.dispatch import Dispatcher
from bcdm.service.jobs import FullError, Job, Jobs
from bcdm.service.journal import Journal
from bcdm.service.metrics import Metrics
from bcdm.service.settings import ServiceSettings
from bcdm.service.shelves import Shelf, Shelves
from bcdm.service.tokens import Caller, Tokens
from bcdm.service.workers import Processes, Workers

__all__ = ["Service", "open_service"]

_LONGEST_WAIT = 300


@dataclass
class Service:
    """A service.

    Attributes:
        settings: How it runs.
        tokens: Who may do what.
        jobs: The list of jobs.
        shelves: Their files.
        workers: Where workers come from.
        dispatcher: Who does what.
        journal: The log.
        metrics: The counts.
    """

    settings: ServiceSettings
    tokens: Tokens
    jobs: Jobs
    shelves: Shelves
    workers: Workers
    dispatcher: Dispatcher
    journal: Journal
    metrics: Metrics
    _coming: int = field(default=0)

    @contextmanager
    def reserve(self) -> Iterator[None]:
        """Room for one more job while its file is sent; before a byte of it is read.

        Raises:
            FullError: If there is none, or the disk is full.
        """
        counts = self.jobs.count()
        is_full = counts["waiting"] + counts["running"] + self._coming >= self.settings.queue
        if is_full or not self.has_disk:
            raise FullError
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1

    @property
    def has_disk(self) -> bool:
        """Whether the disk has room."""
        return self.shelves.count_free() > self.settings.disk

    def accept(self, shelf: Shelf, owner: str, asked: AskedJob) -> Job:
        """From now on it is a job, whatever is killed.

        Raises:
            FullError: If there is no room any more.
        """
        # The files first: a job without them could not be done, files without a job are removed.
        accepted = self.shelves.accept(shelf)
        try:
            self.jobs.add(accepted.name, owner, asked, self.settings.queue)
        except BaseException:
            accepted.remove()
            raise
        self.dispatcher.wake()
        job = self.jobs.find(accepted.name)
        assert job is not None
        return job

    def find(self, name: str, caller: Caller) -> Job | None:
        """A job, if the caller may know of it."""
        job = self.jobs.find(name)
        return job if job is not None and (caller.is_admin or job.owner == caller.name) else None

    def cancel(self, job: Job) -> None:
        """Ends a job that waits or runs."""
        self.jobs.cancel(job.id)
        self.dispatcher.wake()

    def remove(self, job: Job) -> None:
        """Forgets a job that is over, and its files."""
        self.jobs.remove(job.id)
        self.shelves.find(job.id).remove()

    def guess_wait(self) -> int:
        """Seconds until there may be room again, for `Retry-After`."""
        done = self.metrics.find("jobs_concluded_total")
        each = self.metrics.find("job_seconds_total") / done if done else 5.0
        return max(1, min(_LONGEST_WAIT, round(each / self.settings.workers)))

    def close(self, grace: float) -> None:
        """Finishes or hands back what runs."""
        self.dispatcher.stop(grace)
        self.workers.close()
        self.jobs.close()


def open_service(
    settings: ServiceSettings,
    tokens: Tokens,
    journal: Journal | None = None,
    workers: Workers | None = None,
) -> Service:
    """Loads the model, and takes up the jobs that an earlier service left.

    Args:
        settings: How it runs.
        tokens: Who may do what.
        journal: The log; on standard error when left out.
        workers: Where workers come from; processes of this machine when left out.

    Raises:
        InputError: If the model cannot be used.
    """
    journal, metrics = journal or Journal(), Metrics()
    shelves = Shelves(settings.work.absolute())
    jobs = Jobs(settings.work / "jobs.sqlite")
    workers = workers or Processes(settings)
    workers.open()
    back = jobs.hand_back_all(settings.attempts)
    shelves.tidy(jobs.list_names())
    dispatcher = Dispatcher(settings, jobs, shelves, workers, journal, metrics)
    dispatcher.start()
    journal.note("opened", {"handed back": back, "waiting": jobs.count()["waiting"]})
    return Service(settings, tokens, jobs, shelves, workers, dispatcher, journal, metrics)
