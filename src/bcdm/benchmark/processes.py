"""Processes of this machine, as Linux shows them in /proc: who started whom, and who listens."""

import os
import signal
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

__all__ = ["kill_all", "list_descendants", "list_listeners", "list_processes", "read_command"]


def list_processes() -> list[int]:
    """All processes of this machine."""
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def list_descendants(root: int) -> list[int]:
    """A process, all that it has started, and theirs."""
    parents = {}
    for process in list_processes():
        try:
            text = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            continue
        parents[process] = int(text.rpartition(")")[2].split()[1])
    found, last = {root}, set[int]()
    while found != last:
        last, found = found, found | {own for own, above in parents.items() if above in found}
    return sorted(found)


def read_command(process: int) -> str:
    """How a process was called; empty if it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def kill_all(processes: Iterable[int]) -> None:
    """Ends processes at once, those that have ended already aside."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def list_listeners(processes: Iterable[int]) -> list[str]:
    """Addresses on which processes listen."""
    inodes = set()
    for process in processes:
        for entry in Path(f"/proc/{process}/fd").glob("*"):
            try:
                inodes.add(os.readlink(entry).removeprefix("socket:[").removesuffix("]"))
            except OSError:
                continue
    addresses = []
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                held = bytes.fromhex(fields[1].partition(":")[0])
                words = [held[k : k + 4][::-1] for k in range(0, len(held), 4)]
                addresses.append(socket.inet_ntop(family, b"".join(words)))
    return addresses
