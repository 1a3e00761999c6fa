"""What whoever starts the service decides. Plain values only, so that it needs no torch."""

from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from bcdm.errors import InputError

__all__ = ["ServiceSettings"]


@dataclass(frozen=True)
class ServiceSettings:
    """How the service runs, and what it takes.

    Attributes:
        model: Name or folder of the model.
        work: Folder of jobs: their list in SQLite, their files beside it. One service at a time.
        host: Where it listens; other machines reach it only if this is changed.
        port: Zero takes any that is free.
        workers: Processes that draw.
        threads: Of each of them. Their number may change the last digits.
        device: Where their networks run; it may change the last digits, too.
        queue: Jobs that wait or run at most; more are refused with 503.
        body: Bytes that a file may have.
        mean_body: Bytes of a file whose mean is answered at once.
        mean_slices: Slices of such a file.
        numbers: Slices x coils or channels x rows x columns of a scan.
        idle: Seconds that a client may be silent while it sends a file.
        upload: Seconds that sending a file may take in all.
        lease: Seconds after which a worker that says nothing counts as dead.
        attempts: How many workers may fail at a job, none getting further, until it is given up.
        job_seconds: Longest time of one attempt at a job.
        keep_hours: After so long, files of finished jobs are removed.
        disk: Bytes that must be free, else jobs are refused with 503.
        grace: Seconds that jobs have to finish when the service ends; the rest is handed back.
    """

    model: str
    work: Path
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    threads: int = 1
    device: str = "cpu"
    queue: int = 100
    body: int = 64 << 20
    mean_body: int = 4 << 20
    mean_slices: int = 4
    numbers: int = 1 << 26
    idle: float = 20.0
    upload: float = 600.0
    lease: float = 60.0
    attempts: int = 5
    job_seconds: float = 3600.0
    keep_hours: float = 168.0
    disk: int = 1 << 30
    grace: float = 30.0

    def __post_init__(self) -> None:
        for name in ("workers", "threads", "queue", "body", "attempts"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, got {getattr(self, name)}")
        for name in ("idle", "upload", "lease", "job_seconds", "keep_hours"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise InputError(f"{name} must be a number > 0, got {getattr(self, name)}")
        if not self.grace >= 0:
            raise InputError(f"grace must be 0 or more, got {self.grace}")
        if not 0 <= self.port < 1 << 16:
            raise InputError(f"port must be 0 to 65535, got {self.port}")

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host == "localhost" or self.host.startswith("127.") or self.host == "::1"
