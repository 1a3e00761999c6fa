"""Workers as processes of one machine, behind what any other kind would have to offer."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bcdm.archive.failures import to_error
from bcdm.errors import MachineError
from bcdm.service.channel import Channel, Message
from bcdm.service.settings import ServiceSettings

__all__ = ["Hand", "Processes", "Workers"]

_BEATS = 6  # signs of life in a lease


class Workers(Protocol):
    """Where workers come from."""

    def open(self) -> None:
        """Gets ready; raises what is wrong with the model."""

    def start(self) -> Channel:
        """A new worker, at the other end of a channel; it says "ready" when it is."""

    def close(self) -> None:
        """Ends all that was started."""


@dataclass(eq=False)
class Hand:
    """One worker, as the gateway knows it.

    Attributes:
        name: Of its lease.
        channel: To it.
        process: Its number, once it is ready.
        job: What it has.
        means: Numbers of the lots of means that it has.
        is_apart: Whether what it has may have killed another worker, and shares it with nothing.
        progress: How far its job is.
    """

    name: str
    channel: Channel
    process: int | None = None
    job: str | None = None
    means: list[int] = field(default_factory=list)
    is_apart: bool = False
    progress: float = 0.0

    def send(self, message: Message) -> None:
        """Sends it a message."""
        self.channel.send(message)

    def end(self, *, kill: bool) -> None:
        """Ends it, whatever it does.

        Args:
            kill: Whether it is alive; the number of a dead one may be another's by now.
        """
        self.channel.close()
        if kill and self.process is not None:
            with suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)


class Processes:
    """Workers that are forked from one process that has loaded the model.

    Args:
        settings: Of the service.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._nursery: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def open(self) -> None:
        """Starts the process, and waits until it has the model."""
        self.close()
        settings = self._settings
        home = str(Path(__file__).parents[2])
        paths = filter(None, [home, os.environ.get("PYTHONPATH")])
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        environment = {
            # Tokens are nobody's but the gateway's.
            **{name: text for name, text in os.environ.items() if name != "BCDM_TOKENS"},
            **dict.fromkeys(names, str(settings.threads)),
            "PYTHONPATH": os.pathsep.join(paths),
        }
        ours, theirs = socket.socketpair()
        with theirs:
            self._nursery = subprocess.Popen(
                # Without -P the current folder could shadow modules.
                [sys.executable, "-P", "-m", "bcdm.service.nursery"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        self._control = ours
        given = {
            "model": settings.model,
            "numbers": settings.numbers,
            "mean_slices": settings.mean_slices,
            "threads": settings.threads,
            "device": settings.device,
            "beat": settings.lease / _BEATS,
            "longest": settings.job_seconds,
        }
        ours.sendall(json.dumps(given).encode())
        once = Channel(ours.dup())
        said = once.receive()
        once.close()
        if not said:
            raise MachineError("the process that loads the model ended: is there memory for it?")
        if "error" in said[0]:
            raise to_error(said[0])

    def start(self) -> Channel:
        """Forks a worker; loads the model anew if the process that has it was killed."""
        ours, theirs = socket.socketpair()
        with theirs:
            if not self._send(theirs):
                self.open()
                self._send(theirs)
        return Channel(ours)

    def _send(self, connection: socket.socket) -> bool:
        """Whether the process took it."""
        if self._control is None:
            return False
        try:
            socket.send_fds(self._control, [b"."], [connection.fileno()])
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Ends the process that has the model; workers end with their channels."""
        if self._control is not None:
            self._control.close()
        if self._nursery is not None:
            self._nursery.kill()
            self._nursery.wait()
        self._control = self._nursery = None
