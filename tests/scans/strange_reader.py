"""A reader that does what libraries do on damaged files, by the name of the file."""

import os
import signal
import sys
import threading
import time
from typing import Any

from bcdm.errors import InputError
from bcdm.scans import worker
from bcdm.scans.answers import Held, Request

_ALLOCATED: list[Any] = []


def perform(request: Request) -> Held:
    name = request.path.name
    if name == "hangs":
        threading.Event().wait()
    elif name == "spins":
        while True:
            pass
    elif name == "crashes" or (name == "crashes when old" and _ALLOCATED):
        os.kill(os.getpid(), signal.SIGSEGV)
    elif name == "fills":
        while True:
            _ALLOCATED.append(bytearray(1 << 20))
    elif name == "complains":
        raise InputError("a library complained") from ValueError()
    elif name == "is refused":
        raise InputError("we refused")
    elif name == "works":
        start = time.process_time()
        while time.process_time() < start + 0.2:
            pass
    _ALLOCATED.append(name)
    return str(os.getpid())


if __name__ == "__main__":
    worker.perform = perform
    worker.main(int(sys.argv[1]))
