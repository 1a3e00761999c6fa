"""Runs `bcdm` and kills its own process when it gets to a step: an event, not a time.

Called as `killed.py STEP RANK PLACE ARGUMENTS...`; PLACE is "log", after the step's row was
written, "checkpoint", when a checkpoint is written but does not have its name yet, or "node",
which is as "log", but torchrun on that node is killed, too.
"""

import os
import signal
import sys
from typing import Any

from torch.distributed.checkpoint import state_dict_saver

from bcdm.commands import main
from bcdm.training.logs import Log


def end_at(last: int, place: str) -> None:
    write, save = Log.write, state_dict_saver.save

    def end(step: int, here: str) -> None:
        if step < last or here != place.replace("node", "log"):
            return
        if place == "node":
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def write_and_end(log: Log, step: int, values: dict[str, Any]) -> None:
        write(log, step, values)
        end(step, "log")

    def save_and_end(tensors: dict[str, Any], **options: Any) -> None:
        save(tensors, **options)
        end(int(tensors["step"]), "checkpoint")

    Log.write = write_and_end  # type: ignore[method-assign]
    state_dict_saver.save = save_and_end


if __name__ == "__main__":
    step, rank, place = sys.argv[1:4]
    if rank == os.environ.get("RANK", "0"):
        end_at(int(step), place)
    sys.argv[1:4] = []
    main()
