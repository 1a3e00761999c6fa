"""Two nodes of Ray on one machine, each with an address of loopback of its own."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from bcdm.benchmark.processes import kill_all, list_descendants, list_processes, read_command
from bcdm.errors import MachineError

__all__ = ["Nodes"]

# Not 127.0.0.1: Ray takes that for the address by which others see this machine.
_ADDRESSES = ("127.0.0.2", "127.0.0.3")
_RAY = "import sys; from ray.scripts.scripts import main; sys.exit(main())"
_START_SECONDS, _STARTS = 300, 8


class Nodes:
    """Starts them when it is entered, and ends every process of theirs when it is left.

    Nodes with addresses of their own listen on all interfaces: a token keeps others out.

    Args:
        folder: For Ray's own files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.address = f"{_ADDRESSES[0]}:{_find_port(_ADDRESSES[0])}"
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1",
            "OMP_NUM_THREADS": "1",
        }

    def __enter__(self) -> Self:
        try:
            self._start(0)
            self._start(1)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends every process of both."""
        for number in [*self._nodes]:
            self._end(number)
        # What a node that did not start has left: all have the folder among their arguments.
        kill_all(one for one in list_processes() if str(self._folder) in read_command(one))

    def list_workers(self) -> list[int]:
        """Processes that are at a shard."""
        return [
            process
            for node in self._nodes.values()
            for process in list_descendants(node.pid)
            if read_command(process).startswith("ray::do_shard")
        ]

    def kill_raylet(self) -> None:
        """Kills what runs the second node, and starts the node again."""
        for process in list_descendants(self._nodes[1].pid):
            if Path(read_command(process).split("\0")[0]).name == "raylet":
                kill_all([process])
        self._end(1, wait=True)
        self._start(1)

    def _start(self, number: int) -> None:
        """Starts a node; again and again, because Ray gives up where the machine is busy."""
        for attempt in range(1, _STARTS + 1):
            try:
                self._try_to_start(number)
            except MachineError:
                self._end(number)
                if attempt == _STARTS:
                    raise
            else:
                return

    def _try_to_start(self, number: int) -> None:
        host, port = self.address.split(":")
        where = ["--head", "--port", port, "--include-dashboard=false"]
        where += ["--temp-dir", str(self._folder)]
        options = where if number == 0 else ["--address", f"{host}:{port}"]
        options += ["--node-ip-address", _ADDRESSES[number], "--num-cpus", "1", "--block"]
        options += ["--object-store-memory", "80000000", "--disable-usage-stats"]
        log = (self._folder.parent / f"node{number}.log").open("wb")
        with log:
            self._nodes[number] = subprocess.Popen(
                [sys.executable, "-c", _RAY, "start", *options],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._wait(number, Path(log.name))

    def _wait(self, number: int, log: Path) -> None:
        limit = time.monotonic() + _START_SECONDS
        while "Ray runtime started" not in log.read_text(errors="replace"):
            if self._nodes[number].poll() is not None or time.monotonic() > limit:
                said = " ".join(log.read_text(errors="replace").split())[-300:]
                raise MachineError(f"a node of Ray does not start: {said}")
            time.sleep(0.2)

    def _end(self, number: int, *, wait: bool = False) -> None:
        """Ends a node and all that it has started.

        Args:
            number: Which.
            wait: Whether it will end by itself, because it has noticed that its raylet is gone.
        """
        node = self._nodes.pop(number)
        own = list_descendants(node.pid)
        if not wait:
            node.send_signal(signal.SIGTERM)
        try:
            node.wait(20)
        except subprocess.TimeoutExpired:
            node.kill()
            node.wait()
        kill_all(process for process in own if process != node.pid)


def _find_port(address: str) -> int:
    with socket.socket() as free:
        free.bind((address, 0))
        return int(free.getsockname()[1])
