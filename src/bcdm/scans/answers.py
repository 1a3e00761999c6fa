"""What goes between the process that asks for a file and the one that reads it.

A request is a line of JSON. An answer is a length, that much JSON, and the bytes of the arrays that
it lists. Nothing is pickled, because a process that read a damaged file may say anything.
"""

import json
import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bcdm.errors import InputError, MachineError
from bcdm.scans.complaints import refusal, show
from bcdm.scans.limits import LIMITS
from bcdm.scans.scan import Scan
from bcdm.spool import each, make_array, release

__all__ = ["Answer", "Held", "Request", "answer", "receive"]

_WIDTH = 8

Held = Scan | NDArray[np.bool_] | str | None


@dataclass(frozen=True)
class Answer:
    """What a file holds, or why it was not read.

    Attributes:
        held: The scan, mask or text.
        error: To be raised instead.
        is_last: Whether the reader should not be asked again: a library that complained of a file
            may have been left in any state by it.
    """

    held: Held = None
    error: Exception | None = None
    is_last: bool = False


@dataclass(frozen=True)
class Request:
    """What is asked of a reader.

    Attributes:
        verb: "scan", "mask" or "provenance".
        path: The file or folder.
        mask: For a scan, the file of its mask.
        key: For a scan, the array to read, if the format has names.
        size: For a mask, its rows and columns.
        folder: Where relative paths start; None if that folder is gone.
        work: The seconds of the processor that this may take.
    """

    verb: str
    path: Path
    mask: Path | None = None
    key: str | None = None
    size: tuple[int, int] = (0, 0)
    folder: str | None = None
    work: float = LIMITS.work

    def encode(self) -> bytes:
        """One line; names that are not UTF-8 are kept as they are."""
        mask = None if self.mask is None else str(self.mask)
        said = [self.verb, str(self.path), mask, self.key, self.size, self.folder, self.work]
        return json.dumps(said).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "Request":
        """The request that a line holds."""
        verb, path, mask, key, (rows, columns), folder, work = json.loads(line)
        where = None if mask is None else Path(mask)
        return cls(verb, Path(path), where, key, (rows, columns), folder, work)


def answer(stream: IO[bytes], path: Path, read: Callable[[], Held]) -> bool:
    """Reads and sends what was found, or the line that says why not.

    Returns:
        Whether the process is fit to read another file.
    """
    try:
        found = read()
    except InputError as error:
        is_last = error.__cause__ is not None
        _send(stream, {"refusal": str(error), "last": is_last})
        return not is_last
    except MachineError as error:
        _send(stream, {"machine": str(error), "last": False})
        return True
    except MemoryError:
        text = "takes more memory than a scan may: split it into fewer slices"
        _send(stream, {"refusal": str(refusal(path, text)), "last": True})
        return False
    except Exception:
        _send(stream, {"fault": traceback.format_exc(), "last": True})
        return False
    if isinstance(found, Scan):
        _send_scan(stream, found)
    elif isinstance(found, np.ndarray):
        _send(stream, {"arrays": _list({"mask": found})}, found)
    else:
        _send(stream, {"note": found})
    return True


def _send_scan(stream: IO[bytes], scan: Scan) -> None:
    header = np.frombuffer(scan.header or b"\0", np.uint8)[: len(scan.header)]
    arrays = (
        ("data", scan.data),
        ("mask", scan.mask),
        ("noise", scan.noise),
        ("calibration", scan.calibration),
    )
    held = {name: array for name, array in arrays if array is not None} | {"header": header}
    said = {
        "format": scan.format,
        "kind": scan.kind,
        "size": scan.size,
        "facts": scan.facts,
        "arrays": _list(held),
    }
    _send(stream, said, *held.values())


def _list(arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    return {name: [array.dtype.str, array.shape] for name, array in arrays.items()}


def _send(stream: IO[bytes], said: dict[str, Any], *arrays: NDArray[Any]) -> None:
    text = json.dumps(said).encode()
    stream.write(len(text).to_bytes(_WIDTH, "little") + text)
    for array in arrays:
        # In rows: an array may be larger than memory, or have moved axes and must be copied.
        for row in each(array) if array.ndim > 1 else [array]:
            stream.write(np.ascontiguousarray(row).reshape(-1).view(np.uint8).data)
    stream.flush()


def receive(stream: IO[bytes], path: Path) -> Answer:
    """Takes an answer.

    Raises:
        EOFError: The reader ended before its answer did, or says what no reader would.
    """
    length = int.from_bytes(_take(stream, _WIDTH), "little")
    if length > 4 * LIMITS.header:
        raise EOFError
    try:
        said = json.loads(_take(stream, length))
        if "fault" in said:
            fault = RuntimeError(f"bcdm itself failed to read {show(path)}:\n{said['fault']}")
            return Answer(error=fault, is_last=True)
        if "refusal" in said:
            return Answer(error=InputError(said["refusal"]), is_last=bool(said["last"]))
        if "machine" in said:
            return Answer(error=MachineError(said["machine"]))
        if "note" in said:
            return Answer(said["note"])
        return Answer(_take_arrays(stream, path, said))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise EOFError from None


def _take_arrays(stream: IO[bytes], path: Path, said: dict[str, Any]) -> Held:
    arrays = {
        name: _take_array(stream, np.dtype(dtype), tuple(shape))
        for name, (dtype, shape) in said["arrays"].items()
    }
    if "data" not in arrays:
        return arrays["mask"]
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
        calibration=arrays.get("calibration"),
    )


def _take(stream: IO[bytes], count: int) -> bytes:
    taken = stream.read(count)
    if len(taken) != count:
        raise EOFError
    return taken


def _take_array(stream: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if math.prod(shape) * dtype.itemsize > LIMITS.numbers:
        raise EOFError
    array = make_array(shape, dtype)
    for part in array if array.ndim > 1 else [array]:
        view = part.reshape(-1).view(np.uint8).data
        done = 0
        while done < len(view):
            count = stream.readinto(view[done:])  # type: ignore[attr-defined]
            if not count:
                raise EOFError
            done += count
        release(array)
    return array
