"""Processes of their own for reading files, kept from one file to the next.

The libraries behind some formats crash, stall or fill the memory on damaged files. What happens to
the process that reads is then one line for the user, and nothing to the process that asks: neither
its memory nor its warnings' filters are touched, whatever the number of threads.
"""

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from bcdm.scans.answers import Answer, Held, Request, receive
from bcdm.scans.complaints import refusal
from bcdm.scans.confinement import explain_end, is_out_of_time
from bcdm.scans.limits import LIMITS, Limits

__all__ = ["READY", "Readers", "ask"]

READY = b"ready\n"

_PROGRAM = ("-m", "bcdm.scans.worker")
_START = 600.0  # seconds on the wall for a process to start, on the busiest machine
_FILES = 500  # that one process reads, so that what libraries leak never adds up
_GRACE = 10.0  # seconds for a process to end by itself, so that its exit code says why
_KEPT = 4  # processes that wait for the next file


class Readers:
    """Reads files in processes of their own, one for each thread that asks at the same time.

    A process is kept after a file that was read well. It ends with a file that crashes it, takes
    too long or makes a library complain, and after many files.
    """

    def __init__(
        self, limits: Limits = LIMITS, program: Sequence[str] = _PROGRAM, files: int = _FILES
    ) -> None:
        """Starts no process yet.

        Args:
            limits: Those on memory and time are taken from here; sizes are checked by `LIMITS`.
            program: What Python runs in the process.
            files: How many files one process reads.
        """
        self._limits, self._program, self._files = limits, tuple(program), files
        self._lock = threading.Lock()
        self._idle: list[_Reader] = []

    def ask(self, request: Request) -> Held:
        """Reads one file.

        Raises:
            InputError: One line that names the file and what to do.
        """
        budget = self._limits.allow(request.path)
        request = replace(request, folder=_find_folder(), work=budget.work)
        reader = self._take(request.path)
        try:
            answer = reader.ask(request, budget.wait)
        except _EndedError as end:
            if reader.files == 1 or is_out_of_time(end.code):
                raise explain_end(request.path, end.code) from None
            # An earlier file may be at fault, or somebody who ended the process: only what ends
            # a new process, too, is blamed on this file.
            reader = self._start(request.path)
            try:
                answer = reader.ask(request, budget.wait)
            except _EndedError as again:
                raise explain_end(request.path, again.code) from None
        self._give_back(reader, answer)
        if answer.error is not None:
            raise answer.error
        return answer.held

    def _take(self, path: Path) -> "_Reader":
        with self._lock:
            while self._idle:
                reader = self._idle.pop()
                if reader.is_alive:
                    return reader
                reader.end()
        return self._start(path)

    def _start(self, path: Path) -> "_Reader":
        return _Reader([*self._program, str(self._limits.memory)], path)

    def _give_back(self, reader: "_Reader", answer: Answer) -> None:
        if not answer.is_last and reader.files < self._files:
            with self._lock:
                if len(self._idle) < _KEPT:
                    self._idle.append(reader)
                    return
        reader.end()

    def close(self) -> None:
        """Ends the processes that wait for a file."""
        with self._lock:
            while self._idle:
                self._idle.pop().end()

    def forget(self) -> None:
        """Leaves the processes to the parent after a fork: two cannot ask the same one."""
        self._lock = threading.Lock()
        while self._idle:
            self._idle.pop().disown()


class _EndedError(Exception):
    """A process ended before its answer did."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _Reader:
    """One process, and how many files it was asked for."""

    def __init__(self, program: Sequence[str], path: Path) -> None:
        home = str(Path(__file__).parents[2])
        environment = {
            **os.environ,
            # An empty entry would be the current folder.
            "PYTHONPATH": os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")])),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            # Memory is limited by address space, of which each arena takes much and uses little.
            "MALLOC_ARENA_MAX": "1",
        }
        self.files = 0
        self._process = subprocess.Popen(
            # Without -P the current folder, maybe one of downloads, could shadow modules.
            [sys.executable, "-P", *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        try:
            with self._ending(path, _START):
                if self._answers.read(len(READY)) != READY:
                    raise EOFError
        except _EndedError as end:
            raise explain_end(path, end.code) from None

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: Request, wait: float) -> Answer:
        """Reads one file; where this raises, the process has ended."""
        self.files += 1
        with self._ending(request.path, wait):
            self._requests.write(request.encode())
            self._requests.flush()
            return receive(self._answers, request.path)

    @contextmanager
    def _ending(self, path: Path, wait: float) -> Iterator[None]:
        """Ends the process after so many seconds on the wall, and with whatever is raised."""
        is_late = threading.Event()

        def expire() -> None:
            is_late.set()
            self._process.kill()

        # Pipes cannot be read with a time limit on every system; a process can be ended on all.
        timer = threading.Timer(wait, expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (EOFError, OSError):
            code = self.end(_GRACE)
            if is_late.is_set():
                text = f"was not read within {wait:.0f} s: check the disk that it lies on"
                raise refusal(path, text) from None
            raise _EndedError(code) from None
        except BaseException:
            self.end()
            raise
        finally:
            timer.cancel()

    def end(self, grace: float = 0.0) -> int:
        """Ends the process, if it has not ended within some seconds by itself; its exit code."""
        self.disown()
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(grace)
        self._process.kill()
        return self._process.wait()

    def disown(self) -> None:
        """Closes the pipes, which ends a process that waits for a file."""
        for pipe in (self._requests, self._answers):
            with suppress(OSError):
                pipe.close()


def _find_folder() -> str | None:
    with suppress(OSError):
        return os.getcwd()
    return None


_READERS = Readers()
atexit.register(_READERS.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_READERS.forget)


def ask(request: Request) -> Held:
    """Reads one file in a process that all callers share."""
    return _READERS.ask(request)
