"""The process that `isolation` starts: reads files one after the other, each under its limits."""

import os
import signal
import warnings
from functools import partial
from pathlib import Path

from bcdm.scans.answers import Held, Request, answer
from bcdm.scans.complaints import library
from bcdm.scans.confinement import limit_memory, limit_work
from bcdm.scans.isolation import READY
from bcdm.scans.reading import perform

__all__ = ["main"]


def main(memory: int) -> None:
    """Answers each line of the standard input on the standard output, until the input ends."""
    # Libraries may print, and read; requests and answers go where nothing else does.
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 0)
    os.dup2(silence, 1)
    # What a library warns of either does not matter or is checked by the format's own reader.
    warnings.simplefilter("ignore")
    # Ctrl-C on a terminal reaches both processes; the one that asks decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_memory(memory)
    answers.write(READY)
    answers.flush()
    for line in requests:
        request = Request.decode(line)
        limit_work(request.work)
        is_fit = answer(answers, request.path, partial(_perform, request))
        limit_work(0)
        if not is_fit:
            break
    # A damaged file may leave a library in a state that crashes at exit, after all went well.
    os._exit(0)


def _perform(request: Request) -> Held:
    # The process that asks may have moved since this one was started.
    with library(request.path):
        if request.folder is not None:
            os.chdir(request.folder)
    try:
        return perform(request)
    finally:
        # A disk that somebody works on cannot be taken out.
        os.chdir(Path(__file__).parent)


if __name__ == "__main__":
    import sys

    main(int(sys.argv[1]))
