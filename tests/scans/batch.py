"""Reads the files named on standard input, each in a fork of its own, and says how each ended.

A fork costs milliseconds where a new process costs a second; limits and answers are the same as
those of `bcdm.scans.isolation`.
"""

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from bcdm.errors import InputError
from bcdm.scans import isolation, read_scan
from bcdm.scans.formats import find_format, perform


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
    try:
        return find_format(path).is_fragile
    except InputError:
        return False


def read_confined(path: Path, key: str | None) -> dict[str, Any]:
    receiving, sending = os.pipe()
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(receiving)
        isolation.confine(path)
        # This process is confined already: what would go to another is done here.
        isolation.run = perform  # type: ignore[assignment]
        with os.fdopen(sending, "wb") as stream, contextlib.suppress(Exception):
            isolation.answer(stream, path, lambda: read_scan(path, key=key))
        os._exit(0)
    os.close(sending)
    found: dict[str, Any]
    with os.fdopen(receiving, "rb") as stream:
        try:
            scan = isolation.receive(stream, path)
            found = {"outcome": "scan", "line": f"{scan!r}"}
        except InputError as error:
            found = {"outcome": "refused", "line": str(error)}
        except RuntimeError as error:
            found = {"outcome": "fault", "line": str(error)}
        except EOFError:
            found = {"outcome": "ended"}
    _, status, usage = os.wait4(child, 0)
    if found["outcome"] == "ended":
        found["line"] = str(isolation.explain_end(path, os.waitstatus_to_exitcode(status)))
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
