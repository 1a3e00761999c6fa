"""Clients in a process of their own: each asks, waits for the answer, looks at it, asks again.

What to do comes as JSON on the standard input, what was found goes out as JSON. Needs no torch.
"""

import hashlib
import json
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bcdm.benchmark.serving import Client

__all__ = ["Found", "main"]


@dataclass
class Found:
    """What clients saw.

    Attributes:
        jobs: Seconds from submission to the result in hand, of jobs that were done.
        means: The same of means.
        accepted: Jobs that were accepted.
        lost: Of these, those that never were done.
        wrong: Answers whose bits are not those of the library.
        refused: Requests that were refused because it was full.
        attempts: Of all jobs.
        faults: What else went wrong.
    """

    jobs: list[float] = field(default_factory=list)
    means: list[float] = field(default_factory=list)
    accepted: int = 0
    lost: int = 0
    wrong: int = 0
    refused: int = 0
    attempts: int = 0
    faults: list[str] = field(default_factory=list)


class _Load:
    """Clients that share what they find."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given, self.found, self._lock = given, Found(), threading.Lock()
        self._scans = [Path(name) for name in given["scans"]]
        self._end = time.monotonic() + given["seconds"]

    def run(self) -> Found:
        threads = [
            threading.Thread(target=self._repeat, args=(work, number))
            for work, count in ((self._do_job, "clients"), (self._ask_mean, "mean_clients"))
            for number in range(self.given[count])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.found

    def _repeat(self, work: Any, number: int) -> None:
        client = Client(self.given["port"], self.given["token"])
        turn = number
        while time.monotonic() < self._end:
            try:
                work(client, turn % len(self._scans))
            except Exception as error:
                with self._lock:
                    self.found.faults.append(f"{work.__name__}: {type(error).__name__} {error}")
                time.sleep(1)
            turn += 1

    def _do_job(self, client: Client, place: int) -> None:
        began = time.monotonic()
        status, headers, content = client.try_submit(self._scans[place], self.given["asked"])
        if status == 503:
            with self._lock:
                self.found.refused += 1
            time.sleep(float(headers["retry-after"]))
            return
        job = json.loads(content)["id"]
        with self._lock:
            self.found.accepted += 1
            self.found.lost += 1
        end = client.wait(job)
        name = f"{self._scans[place].stem}_results.npz"
        right = end["state"] == "done" and _is_right(
            client.fetch(job, name), self.given["results"][place]
        )
        client.ask("DELETE", f"/v1/jobs/{job}")
        with self._lock:
            self.found.lost -= end["state"] == "done"
            self.found.wrong += not right
            self.found.attempts += end["attempts"]
            self.found.jobs.append(time.monotonic() - began)

    def _ask_mean(self, client: Client, place: int) -> None:
        began, scan = time.monotonic(), self._scans[place]
        query = f"name={scan.name}&noise_std={self.given['asked']['noise_std']}"
        status, headers, content = client.ask("POST", f"/v1/mean?{query}", scan.read_bytes())
        if status == 503:
            with self._lock:
                self.found.refused += 1
            time.sleep(float(headers["retry-after"]))
            return
        right = status == 200 and _is_right(content, self.given["means"][place])
        with self._lock:
            self.found.wrong += not right
            self.found.means.append(time.monotonic() - began)


def _is_right(content: bytes, digest: str) -> bool:
    return hashlib.sha256(content).hexdigest() == digest


def main() -> None:
    """Does what the standard input says."""
    found = _Load(json.load(sys.stdin)).run()
    json.dump(asdict(found), sys.stdout)


if __name__ == "__main__":
    main()
