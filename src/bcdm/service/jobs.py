"""The list of jobs, in SQLite: what was accepted is not lost, whatever is killed.

A job that runs belongs to one worker, for as long as its lease is renewed. Whatever ends without
a conclusion is handed back and begun again; samples that are whole on disk are not drawn again.
"""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from bcdm.service.asked import AskedJob

__all__ = ["Conclusion", "FullError", "Job", "Jobs", "State"]

State = Literal["waiting", "running", "done", "refused", "failed", "cancelled"]

_TABLE = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY,
    id TEXT UNIQUE NOT NULL,
    owner TEXT NOT NULL,
    asked TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting',
    progress REAL NOT NULL DEFAULT 0,
    created REAL NOT NULL,
    started REAL,
    finished REAL,
    attempts INTEGER NOT NULL DEFAULT 0,
    deaths INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    lease REAL,
    cancel INTEGER NOT NULL DEFAULT 0,
    light TEXT,
    summary TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS by_state ON jobs (state, number);
CREATE INDEX IF NOT EXISTS by_owner ON jobs (owner, number);
"""
_COLUMNS = "id, owner, asked, state, progress, created, started, finished, attempts, light, summary"


class FullError(Exception):
    """There are as many jobs as there may be."""


@dataclass(frozen=True)
class Job:
    """One job.

    Attributes:
        id: Its name; nobody guesses it.
        owner: Whose token submitted it.
        asked: What was asked for.
        state: How far it is.
        progress: From 0 to 1.
        created: Seconds since 1970.
        started: When it was begun last.
        finished: When it was concluded.
        attempts: How often it was begun.
        light: Of its trust card.
        summary: What the card says, or why there is no result.
    """

    id: str
    owner: str
    asked: AskedJob
    state: State
    progress: float
    created: float
    started: float | None
    finished: float | None
    attempts: int
    light: str | None
    summary: str


@dataclass(frozen=True)
class Conclusion:
    """What became of a job.

    Attributes:
        state: Any but "running"; "waiting" hands it back.
        light: Of its trust card.
        summary: What the card says, or why there is no result.
        is_ours: Whether the service failed, and not at what it was sent: a disk without room, or
            a fault of its own.
    """

    state: State
    light: str | None = None
    summary: str = ""
    is_ours: bool = False


class Jobs:
    """The list. Safe in threads; one process has it open.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._base = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._base.execute("PRAGMA journal_mode=WAL")
        # A commit is on the disk when it returns: the machine itself may fail.
        self._base.execute("PRAGMA synchronous=FULL")
        self._base.executescript(_TABLE)

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """All that is done inside is done, or nothing."""
        with self._lock:
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield self._base
                self._base.execute("COMMIT")
            except BaseException:
                # A disk that is full may have ended it already.
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")
                raise

    def add(self, name: str, owner: str, asked: AskedJob, most: int) -> None:
        """Accepts a job.

        Raises:
            FullError: If `most` wait or run already.
        """
        with self._change() as base:
            if self._count_open(base) >= most:
                raise FullError
            base.execute(
                "INSERT INTO jobs (id, owner, asked, created) VALUES (?, ?, ?, ?)",
                (name, owner, asked.model_dump_json(), time.time()),
            )

    def _count_open(self, base: sqlite3.Connection) -> int:
        query = "SELECT COUNT(*) FROM jobs WHERE state IN ('waiting', 'running')"
        return int(base.execute(query).fetchone()[0])

    def find(self, name: str) -> Job | None:
        """A job."""
        found = self._list("WHERE id = ?", (name,))
        return found[0] if found else None

    def list_recent(self, owner: str | None, most: int) -> list[Job]:
        """The last ones, of one owner or of all."""
        if owner is None:
            return self._list("ORDER BY number DESC LIMIT ?", (most,))
        return self._list("WHERE owner = ? ORDER BY number DESC LIMIT ?", (owner, most))

    def list_old(self, before: float) -> list[Job]:
        """Those that were concluded before some time."""
        return self._list("WHERE finished < ? ORDER BY number LIMIT 100", (before,))

    def _list(self, rest: str, values: tuple[object, ...]) -> list[Job]:
        with self._lock:
            rows = self._base.execute(f"SELECT {_COLUMNS} FROM jobs {rest}", values).fetchall()
        return [Job(row[0], row[1], AskedJob.decode(row[2]), *row[3:]) for row in rows]

    def count(self) -> dict[State, int]:
        """How many there are in each state."""
        with self._lock:
            rows = self._base.execute("SELECT state, COUNT(*) FROM jobs GROUP BY state").fetchall()
        found = dict(rows)
        return {state: found.get(state, 0) for state in get_args(State)}

    def take(self, worker: str, lease: float) -> Job | None:
        """The job that waits longest, for a worker."""
        with self._change() as base:
            row = base.execute(
                "SELECT id FROM jobs WHERE state = 'waiting' ORDER BY number LIMIT 1"
            ).fetchone()
            if row is None:
                return None
            now = time.time()
            base.execute(
                "UPDATE jobs SET state = 'running', worker = ?, lease = ?, started = ?,"
                " attempts = attempts + 1 WHERE id = ?",
                (worker, now + lease, now, row[0]),
            )
        return self.find(row[0])

    def renew(self, name: str, worker: str, lease: float, progress: float) -> None:
        """The worker is alive, and so far; who gets further than before has no deaths to answer."""
        with self._change() as base:
            base.execute(
                "UPDATE jobs SET lease = ?, deaths = IIF(? > progress, 0, deaths),"
                " progress = MAX(progress, ?) WHERE id = ? AND worker = ? AND state = 'running'",
                (time.time() + lease, progress, progress, name, worker),
            )

    def list_lapsed(self) -> list[tuple[str, str]]:
        """Jobs whose lease has run out, and their workers."""
        with self._lock:
            return self._base.execute(
                "SELECT id, worker FROM jobs WHERE state = 'running' AND lease < ?", (time.time(),)
            ).fetchall()

    def conclude(self, name: str, worker: str, end: Conclusion) -> bool:
        """Says what became of a job, if it is still the worker's."""
        with self._change() as base:
            done = base.execute(
                "UPDATE jobs SET state = ?, light = ?, summary = ?, finished = ?, progress = 1,"
                " worker = NULL, lease = NULL WHERE id = ? AND worker = ? AND state = 'running'",
                (end.state, end.light, end.summary, time.time(), name, worker),
            )
            return done.rowcount == 1

    def hand_back(self, name: str, worker: str, most: int, reason: str = "") -> State:
        """Whoever had it has it no more: it waits again, unless that was too often.

        Args:
            name: The job.
            worker: Who had it.
            most: How many workers may fail at it, one after the other, without getting further;
                zero counts nothing, where nobody is at fault.
            reason: What to say if those were too many.

        Returns:
            Its state now.
        """
        mine = "id = ? AND worker = ? AND state = 'running'"
        end = ", worker = NULL, lease = NULL"
        with self._change() as base:
            base.execute(
                f"UPDATE jobs SET state = 'cancelled', finished = ?{end} WHERE {mine} AND cancel",
                (time.time(), name, worker),
            )
            if most:
                base.execute(f"UPDATE jobs SET deaths = deaths + 1 WHERE {mine}", (name, worker))
                base.execute(
                    f"UPDATE jobs SET state = 'failed', finished = ?, summary = ?{end}"
                    f" WHERE {mine} AND deaths >= ?",
                    (time.time(), reason, name, worker, most),
                )
            else:
                base.execute(
                    f"UPDATE jobs SET attempts = attempts - 1 WHERE {mine}", (name, worker)
                )
            base.execute(f"UPDATE jobs SET state = 'waiting'{end} WHERE {mine}", (name, worker))
            row = base.execute("SELECT state FROM jobs WHERE id = ?", (name,)).fetchone()
        state: State = "cancelled" if row is None else row[0]
        return state

    def hand_back_all(self, most: int) -> int:
        """At the start: what ran when everything was killed waits again.

        Args:
            most: How often that may happen to a job, one time after the other, without getting
                further: it may be the job that ends everything.
        """
        with self._change() as base:
            base.execute("UPDATE jobs SET deaths = deaths + 1 WHERE state = 'running'")
            base.execute(
                "UPDATE jobs SET state = 'failed', finished = ?, worker = NULL, lease = NULL,"
                " summary = 'the service was ended every time that it had begun it'"
                " WHERE state = 'running' AND NOT cancel AND deaths >= ?",
                (time.time(), most),
            )
            rows = base.execute("SELECT id, worker FROM jobs WHERE state = 'running'").fetchall()
        for name, worker in rows:
            self.hand_back(name, worker, 0)
        return len(rows)

    def cancel(self, name: str) -> None:
        """One that waits is cancelled; one that runs, as soon as its worker hears of it."""
        with self._change() as base:
            base.execute("UPDATE jobs SET cancel = 1 WHERE id = ? AND state = 'running'", (name,))
            base.execute(
                "UPDATE jobs SET state = 'cancelled', finished = ?"
                " WHERE id = ? AND state = 'waiting'",
                (time.time(), name),
            )

    def list_to_cancel(self) -> list[str]:
        """Those that run, and should not any more."""
        with self._lock:
            rows = self._base.execute(
                "SELECT id FROM jobs WHERE state = 'running' AND cancel"
            ).fetchall()
        return [row[0] for row in rows]

    def remove(self, name: str) -> None:
        """Forgets a job that does not run."""
        with self._change() as base:
            base.execute("DELETE FROM jobs WHERE id = ? AND state != 'running'", (name,))

    def list_names(self) -> set[str]:
        """Of all jobs."""
        with self._lock:
            return {row[0] for row in self._base.execute("SELECT id FROM jobs")}

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._base.close()
