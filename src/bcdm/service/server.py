"""The server: uvicorn on loopback, that ends in order and waits for nobody who says nothing."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from bcdm.errors import InputError
from bcdm.folders import try_claim
from bcdm.service.gateway import make_app
from bcdm.service.journal import Journal
from bcdm.service.service import open_service
from bcdm.service.settings import ServiceSettings
from bcdm.service.tokens import Tokens

__all__ = ["serve"]

_HEADER_SECONDS = 10.0
_CONNECTIONS = 256
# Requests that are still open at the end; jobs have the time that the settings say.
_ANSWER_SECONDS = 5


class _Protocol(H11Protocol):
    """Closes connections on which a request does not come in time, the first or a later one."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_request()

    def _await_request(self) -> None:
        # Set once: who sends its headers one by one gains no time by it.
        if self._timer is None and self._is_between():
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_HEADER_SECONDS, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._is_between():
            self.transport.close()

    def _is_between(self) -> bool:
        """Whether no request is being answered."""
        cycle = getattr(self, "cycle", None)  # there is none before the first request
        return cycle is None or bool(cycle.response_complete)


class _Server(uvicorn.Server):
    """Ends by SIGTERM and Ctrl-C, with exit code 0: both are how a service is ended."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        kept = {sign: signal.signal(sign, self.handle_exit) for sign in _SIGNS}
        try:
            yield
        finally:
            for sign, handler in kept.items():
                signal.signal(sign, handler)


_SIGNS = (signal.SIGINT, signal.SIGTERM)


def serve(settings: ServiceSettings, tokens: Tokens, journal: Journal | None = None) -> None:
    """Runs until a signal ends it.

    Args:
        settings: How.
        tokens: Who may do what.
        journal: The log; on standard error when left out.

    Raises:
        InputError: If model, folder or address cannot be used.
    """
    journal = journal or Journal()
    # Whatever folder is given, others read no list of jobs and no scan in it. Workers inherit it.
    os.umask(0o077)
    settings.work.mkdir(parents=True, exist_ok=True, mode=0o700)
    with try_claim(settings.work / ".lock") as is_ours:
        if is_ours is False:
            raise InputError(f"another service has {settings.work}: choose another --work")
        listener = _listen(settings)
        with listener:
            service = open_service(settings, tokens, journal)
            journal.listen()
            config = uvicorn.Config(
                make_app(service),
                log_config=None,
                access_log=False,
                server_header=False,
                http=_Protocol,
                ws="none",
                limit_concurrency=_CONNECTIONS,
                timeout_keep_alive=10,
                timeout_graceful_shutdown=_ANSWER_SECONDS,
            )
            host, port = listener.getsockname()[:2]
            journal.note("listening", {"host": host, "port": port, "local": settings.is_local})
            _Server(config).run(sockets=[listener])


def _listen(settings: ServiceSettings) -> socket.socket:
    try:
        listener = socket.create_server((settings.host, settings.port), backlog=_CONNECTIONS)
    except OSError as error:
        raise InputError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}"
        ) from None
    listener.set_inheritable(False)
    return listener
