"""A process that does shards: their numbers come in on its input, what became of them goes out.

One line of JSON each way. The first line in is the job. It ends with its input, with the process
that started it, and with any error that is not an item's.
"""

import json
import logging
import os
import signal
import sys
import time
from typing import IO, Any

from bcdm.archive.failures import describe_error
from bcdm.archive.heads import read_head
from bcdm.archive.job import Job
from bcdm.archive.markers import Counts
from bcdm.archive.places import open_place
from bcdm.errors import InputError
from bcdm.reconstruction.drawing import Progress
from bcdm.reconstruction.items import Outcome

__all__ = ["main"]

_TELL_SECONDS = 1.0


def main(parent: int) -> None:
    """Works until its input ends.

    Args:
        parent: The process that started it; without it nobody would hear what becomes of a shard.
    """
    # Libraries may print; answers go where nothing else does.
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w")
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 0)
    os.dup2(silence, 1)
    # Ctrl-C on a terminal reaches all processes; the one that started this decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What is wrong with an item is in the archive.
    logging.getLogger("bcdm").setLevel(logging.ERROR)
    try:
        _work(requests, answers, parent)
    except BrokenPipeError:
        os._exit(1)
    except Exception as error:
        _send(answers, describe_error(error))


def _work(requests: IO[bytes], answers: IO[str], parent: int) -> None:
    job = Job.decode(requests.readline())
    import torch

    from bcdm.archive.unit import open_unit

    torch.set_num_threads(job.threads)
    head = read_head(open_place(job.out))
    if head is None:
        raise InputError(f"{job.out} is no archive any more")
    unit = open_unit(job, head)
    _send(answers, {"ready": True})
    for line in requests:
        shard, counts, told = int(line), Counts(), time.monotonic()

        def watch(_: Progress) -> None:
            if os.getppid() != parent:
                os._exit(1)

        def tell(outcome: Outcome, counts: Counts = counts) -> None:
            nonlocal told
            counts.count(outcome.status, outcome.light, "")
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                _send(answers, {"items": counts.items})

        finished = unit.run(shard, watch, tell)
        said = None if finished.counts is None else finished.counts.to_plain()
        _send(answers, {"shard": shard, "state": finished.state, "counts": said})


def _send(answers: IO[str], content: dict[str, Any]) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
