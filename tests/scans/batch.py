"""Reads the files named on standard input, each in a fork of its own, and says how each ended.

A fork costs milliseconds where a new process costs a second; limits and answers are the same as
those of `bcdm.scans.worker`.
"""

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from bcdm.errors import InputError
from bcdm.scans.answers import Request, answer, receive
from bcdm.scans.confinement import explain_end, limit_memory, limit_work
from bcdm.scans.formats import find_format
from bcdm.scans.limits import LIMITS
from bcdm.scans.reading import perform


def load_libraries() -> None:
    import gzip  # noqa: F401

    import h5py  # noqa: F401
    import ismrmrd.hdf5  # noqa: F401
    import nibabel  # noqa: F401
    import pydicom.pixels  # noqa: F401
    import tifffile  # noqa: F401
    import zarr  # noqa: F401
    from PIL import Image

    Image.init()


def is_fragile(path: Path) -> bool:
    """Whether the format's library, and not we, unpacks: then a file may end its reader."""
    try:
        return find_format(path).names[0] in ("fastMRI HDF5", "DICOM", "zarr", "TIFF")
    except InputError:
        return False


def read_confined(path: Path, key: str | None) -> dict[str, Any]:
    receiving, sending = os.pipe()
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(receiving)
        limit_memory(LIMITS.memory)
        limit_work(LIMITS.allow(path).work)
        with os.fdopen(sending, "wb") as stream, contextlib.suppress(Exception):
            answer(stream, path, lambda: perform(Request("scan", path, key=key)))
        os._exit(0)
    os.close(sending)
    found: dict[str, Any]
    with os.fdopen(receiving, "rb") as stream:
        try:
            said = receive(stream, path)
            outcome = "refused" if isinstance(said.error, InputError) else "fault"
            found = {"outcome": outcome, "line": f"{said.error}"}
            if said.error is None:
                found = {"outcome": "scan", "line": f"{said.held!r}"}
        except EOFError:
            found = {"outcome": "ended"}
    _, status, usage = os.wait4(child, 0)
    if found["outcome"] == "ended":
        found["line"] = str(explain_end(path, os.waitstatus_to_exitcode(status)))
    return {
        **found,
        "fragile": is_fragile(path),
        "seconds": usage.ru_utime + usage.ru_stime,
        "waited": time.monotonic() - start,
        "bytes": usage.ru_maxrss * 1024,
    }


if __name__ == "__main__":
    requests = json.load(sys.stdin)
    load_libraries()
    devnull = os.open(os.devnull, os.O_WRONLY)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    for name, key in requests:
        print(json.dumps(read_confined(Path(name), key)), file=out, flush=True)
