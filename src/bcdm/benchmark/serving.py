"""`bcdm serve` in processes of its own, to be asked, killed and started again; needs no torch."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

__all__ = ["Client", "Server", "serving"]

WAIT = 600.0  # seconds: a busy machine is slow, and not wrong
OVER = ("done", "refused", "failed", "cancelled")
Answer = tuple[int, dict[str, str], bytes]


class Client:
    """Asks a service.

    Args:
        port: Of loopback.
        token: Sent with every request; None sends none.
    """

    def __init__(self, port: int, token: str | None) -> None:
        self.port, self.token = port, token

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        chunked: bool = False,
    ) -> Answer:
        """One request: status, headers and content of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        sent = dict(headers or {})
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        try:
            # Who is refused early may hear of it before all is sent.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body, sent, encode_chunked=chunked)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read()
        finally:
            connection.close()

    def try_submit(self, scan: Path, asked: Mapping[str, object]) -> Answer:
        """Submits a file, whatever the answer."""
        query = urlencode({"name": scan.name, **asked})
        return self.ask("POST", f"/v1/jobs?{query}", scan.read_bytes())

    def show(self, job: str, wait: float = 0) -> dict[str, Any]:
        """How far a job is; answers at once, or when it is over."""
        status, _, content = self.ask("GET", f"/v1/jobs/{job}?wait={wait}")
        assert status == 200, content
        found: dict[str, Any] = json.loads(content)
        return found

    def wait(self, job: str, *states: str) -> dict[str, Any]:
        """Waits until a job is in one of some states; else until it is over."""
        end, found = time.monotonic() + WAIT, {}
        while time.monotonic() < end:
            found = self.show(job, 0 if states else 20)
            if found["state"] in (states or OVER):
                return found
            time.sleep(0.2 if states else 0)
        raise TimeoutError(f"{job} is {found.get('state')} after {WAIT} s")

    def fetch(self, job: str, name: str) -> bytes:
        """One file of a job."""
        status, _, content = self.ask("GET", f"/v1/jobs/{job}/files/{name}")
        assert status == 200, content
        return content


class Server:
    """The processes of a service.

    Args:
        model: Name or folder.
        work: Folder of jobs; the log is beside it.
        tokens: Lines of tokens.
        options: Further words of the command.
    """

    def __init__(self, model: str | Path, work: Path, tokens: str, *options: str) -> None:
        command = [sys.executable, "-m", "bcdm", "serve", "--model", str(model)]
        command += ["--work", str(work), "--port", "0", *options]
        self.work, self.log_path = work, work.with_suffix(".log")
        with self.log_path.open("ab") as log:
            start = log.tell()
            self.process = subprocess.Popen(
                command, stderr=log, env={**os.environ, "BCDM_TOKENS": tokens}
            )
        try:
            self.port = self._find_port(start)
        except BaseException:
            self.kill()
            raise

    def _find_port(self, start: int) -> int:
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            text = self.log_path.read_bytes()[start:].decode()
            found = re.search(r'"event": "listening".*"port": (\d+)', text)
            if found:
                return int(found[1])
            assert self.process.poll() is None, text
            time.sleep(0.05)
        raise TimeoutError("it does not listen")

    def read_log(self) -> list[dict[str, Any]]:
        """All events."""
        lines = self.log_path.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def list_processes(self) -> dict[int, str]:
        """All that descend from it, by number, with their commands."""
        found: dict[int, str] = {}
        waiting = [self.process.pid]
        while waiting:
            number = waiting.pop()
            with suppress(OSError):
                command = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ")
                for task in Path(f"/proc/{number}/task").iterdir():
                    waiting += map(int, (task / "children").read_text().split())
                found[number] = command.decode()
        return found

    def find_nursery(self) -> int:
        """The process that has the model."""
        (found,) = [
            number
            for number, command in self.list_processes().items()
            if "nursery" in command and _read_stat(number)[1] == self.process.pid
        ]
        return found

    def list_workers(self) -> list[int]:
        """The processes that draw: forked from the one that has the model."""
        nursery = self.find_nursery()
        return [one for one in self.list_processes() if _read_stat(one)[1] == nursery]

    def count_work(self) -> dict[int, float]:
        """Seconds of the processor by process, of those that live."""
        ticks = os.sysconf("SC_CLK_TCK")
        return {one: _read_stat(one)[0] / ticks for one in self.list_processes()}

    def kill(self) -> None:
        """Ends everything at once, by kill -9."""
        for number in self.list_processes():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        """Ends it in order; its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(WAIT)


@contextmanager
def serving(model: str | Path, work: Path, tokens: str, *options: str) -> Iterator[Server]:
    """A service that is killed at the end, unless it was ended before."""
    server = Server(model, work, tokens, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()


def _read_stat(number: int) -> tuple[int, int]:
    """Ticks of the processor, and the parent, of a process."""
    try:
        part = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, 0
    return int(part[11]) + int(part[12]), int(part[1])
