"""A process of its own for files whose library may crash, stall or fill the memory.

The C libraries behind some formats do all of these on damaged files. What happens to the process
that reads is then one line for the user, and nothing to the process that asks.
"""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bcdm.errors import InputError
from bcdm.scans.limits import LIMIT_BYTES, LIMIT_HEADER, LIMIT_MEMORY, LIMIT_SECONDS, refusal
from bcdm.scans.scan import Scan

__all__ = ["Answer", "answer", "confine", "explain_end", "receive", "run"]

Answer = Scan | str | None

_WIDTH = 8
_BYTES_PER_SECOND = 50e6  # that the slowest packing in use unpacks
_FAULT = "fault"


def run(verb: str, format: str, path: Path, key: str | None) -> Answer:
    """Asks a new process to read, and takes its answer.

    Args:
        verb: "scan" or "provenance".
        format: The name of the format, as `formats` lists it.
        path: The file or folder.
        key: The array to read, if the format has names.
    """
    request = json.dumps([verb, format, str(path), key])
    # Without -P the current folder, maybe one of downloads, could shadow modules.
    command = [sys.executable, "-P", "-m", "bcdm.scans.worker", request]
    home = str(Path(__file__).parents[2])
    environment = {
        **os.environ,
        # An empty entry would be the current folder again.
        "PYTHONPATH": os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")])),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        # Memory is limited by address space, of which each arena takes much and uses little.
        "MALLOC_ARENA_MAX": "1",
    }
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as process:
        assert process.stdout is not None
        try:
            found = receive(process.stdout, path)
        except EOFError:
            # A reader that still writes is told that nobody listens.
            process.stdout.close()
            raise explain_end(path, process.wait()) from None
        finally:
            process.kill()
    return found


def explain_end(path: Path, code: int) -> InputError:
    """The line for a reader that ended without an answer, by its exit code."""
    if code == -signal.SIGPROF:
        return refusal(path, "takes too long to read, as damaged files do: export it anew")
    if code == -signal.SIGKILL:
        return refusal(path, "takes more memory than there is: split it into fewer slices")
    if code > 0:
        return refusal(path, f"was not read, the reader ended with {code}: check the installation")
    return refusal(path, "is damaged so badly that its library crashes: export it anew")


def confine(path: Path) -> None:
    """Limits memory and time of this process, for good, to what reading this file may take."""
    with contextlib.suppress(ImportError):
        import resource

        for kind, limit in ((resource.RLIMIT_AS, LIMIT_MEMORY), (resource.RLIMIT_CORE, 0)):
            hard = resource.getrlimit(kind)[1]
            allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(kind, (allowed, hard))
    # The default action of its signal ends the process even within a library. It counts the
    # time of the processor, so that neither a slow disk nor a busy machine makes a file bad.
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, LIMIT_SECONDS)
        with contextlib.suppress(OSError):
            files = path.rglob("*") if path.is_dir() else [path]
            size = sum(file.stat().st_size for file in files)
            signal.setitimer(signal.ITIMER_PROF, LIMIT_SECONDS + size / _BYTES_PER_SECOND)


def answer(stream: IO[bytes], path: Path, read: Callable[[], Answer]) -> None:
    """Reads and sends what was found, or the line that says why not."""
    try:
        found = read()
    except InputError as error:
        _send(stream, {"refusal": str(error)})
    except MemoryError:
        text = "takes more memory than a scan may: split it into fewer slices"
        _send(stream, {"refusal": str(refusal(path, text))})
    except Exception:
        _send(stream, {_FAULT: traceback.format_exc()})
    else:
        if not isinstance(found, Scan):
            _send(stream, {"note": found})
            return
        header = np.frombuffer(found.header or b"\0", np.uint8)[: len(found.header)]
        arrays = (("data", found.data), ("mask", found.mask), ("noise", found.noise))
        held = {name: array for name, array in arrays if array is not None} | {"header": header}
        said = {
            "format": found.format,
            "kind": found.kind,
            "size": found.size,
            "facts": found.facts,
            "arrays": {name: [a.dtype.str, a.shape] for name, a in held.items()},
        }
        _send(stream, said, *held.values())


def _send(stream: IO[bytes], said: dict[str, Any], *arrays: NDArray[Any]) -> None:
    text = json.dumps(said).encode()
    stream.write(len(text).to_bytes(_WIDTH, "little") + text)
    for array in arrays:
        # In rows, because an array whose axes were moved must be copied to be sent.
        for row in array if array.ndim > 1 else [array]:
            stream.write(np.ascontiguousarray(row).data)
    stream.flush()


def receive(stream: IO[bytes], path: Path) -> Answer:
    """Takes an answer.

    Raises:
        InputError: The line that the reader sent.
        EOFError: The reader ended before its answer did.
    """
    length = int.from_bytes(_take(stream, _WIDTH), "little")
    # A process whose memory is damaged may say anything.
    if length > 4 * LIMIT_HEADER:
        raise EOFError
    try:
        said = json.loads(_take(stream, length))
    except ValueError:
        raise EOFError from None
    if not isinstance(said, dict):
        raise EOFError
    if _FAULT in said:
        raise RuntimeError(f"bcdm itself failed to read {path}:\n{said[_FAULT]}")
    if "refusal" in said:
        raise InputError(said["refusal"])
    if "note" in said:
        note: str | None = said["note"]
        return note
    try:
        return _take_scan(stream, path, said)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise EOFError from None


def _take_scan(stream: IO[bytes], path: Path, said: dict[str, Any]) -> Scan:
    arrays = {
        name: _take_array(stream, np.dtype(dtype), tuple(shape))
        for name, (dtype, shape) in said["arrays"].items()
    }
    rows, columns = said["size"]
    return Scan(
        path=path,
        format=said["format"],
        kind=said["kind"],
        data=arrays["data"],
        mask=arrays.get("mask"),
        noise=arrays.get("noise"),
        size=(rows, columns),
        facts=said["facts"],
        header=arrays["header"].tobytes(),
    )


def _take(stream: IO[bytes], count: int) -> bytes:
    taken = stream.read(count)
    if len(taken) != count:
        raise EOFError
    return taken


def _take_array(stream: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if math.prod(shape) * dtype.itemsize > LIMIT_BYTES:
        raise EOFError
    array = np.empty(shape, dtype)
    view = array.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(view):
        count = stream.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        done += count
    return array
