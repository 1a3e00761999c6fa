"""The process that loads the model once, and from which workers are forked.

A worker that dies is replaced in milliseconds instead of seconds, and all of them share the memory
of the weights.
"""

import json
import os
import signal
import socket

from bcdm.archive.failures import describe_error
from bcdm.service.channel import Channel

__all__ = ["main"]


def main() -> None:
    """Forks a worker for each socket that comes in on the standard input, until that ends."""
    control = socket.socket(fileno=os.dup(0))
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 0)
    # Ctrl-C on a terminal reaches all processes; the gateway decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    given = json.loads(control.recv(1 << 16))
    try:
        import torch

        # A pool of threads would not survive the fork; workers have their own.
        torch.set_num_threads(1)
        from bcdm.machine import find_device
        from bcdm.service.tasks import open_tasks
        from bcdm.service.worker import Worker

        # Known before somebody waits; it is opened after the fork, which it would not survive.
        find_device(given["device"])
        tasks = open_tasks(given["model"], given["numbers"], given["mean_slices"])
    except Exception as error:
        control.sendall(json.dumps(describe_error(error)).encode() + b"\n")
        return
    control.sendall(b'{"ready": true}\n')
    # Children that end are not waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        sign, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not sign:
            return
        connection = socket.socket(fileno=descriptors[0])
        if os.fork() == 0:
            try:
                control.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                torch.set_num_threads(given["threads"])
                own = tasks.to(given["device"])
                Worker(Channel(connection), own, given["beat"], given["longest"]).run()
            finally:
                os._exit(1)
        connection.close()


if __name__ == "__main__":
    main()
