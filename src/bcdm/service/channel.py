"""Lines of JSON over a socket between the gateway and a worker. Nothing is pickled."""

import json
import socket
import threading
from contextlib import suppress
from typing import Any

__all__ = ["Channel", "Message"]

Message = dict[str, Any]
_BLOCK = 1 << 16


class Channel:
    """One end. Several threads may send, one receives.

    Args:
        connection: A connected socket, which belongs to the channel from now on.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._rest = connection, b""
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """For a selector."""
        return self._connection.fileno()

    def send(self, message: Message) -> None:
        """Sends; that nobody is there any more shows when something is received."""
        line = json.dumps(message).encode() + b"\n"
        with self._lock, suppress(OSError):
            self._connection.sendall(line)

    def receive(self) -> list[Message] | None:
        """Waits for something; None if the other end is gone."""
        try:
            held = self._connection.recv(_BLOCK)
        except OSError:
            return None
        if not held:
            return None
        *lines, self._rest = (self._rest + held).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Closes this end."""
        with suppress(OSError):
            self._connection.close()
