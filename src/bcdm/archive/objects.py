"""A prefix of S3 or its like, by obstore."""

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any

from bcdm.errors import InputError, MachineError

__all__ = ["ObjectStore", "blaming_store"]

_RETRIES = 10
_AT_ONCE = 32
_LEASE, _LEASE_SECONDS = ".planning", 60.0


class ObjectStore:
    """A place in an object store. It has no locks: what is done twice is done alike."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        try:
            self._store = _open(self.address)
        except Exception as error:
            raise InputError(f"{address} cannot be opened: {_line(error)}") from None

    def __str__(self) -> str:
        return self.address

    def read(self, name: str) -> bytes | None:
        """See `Place`."""
        import obstore

        try:
            return bytes(obstore.get(self._store, name).bytes())
        except FileNotFoundError:
            return None
        except Exception as error:
            raise MachineError(f"{self}/{name} cannot be read: {_line(error)}") from None

    def read_all(self, names: Iterable[str]) -> Iterator[bytes | None]:
        """See `Place`."""
        rest = iter(names)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while block := list(islice(rest, 4 * _AT_ONCE)):
                yield from pool.map(self.read, block)

    def write(self, name: str, content: bytes) -> None:
        """See `Place`."""
        import obstore

        try:
            obstore.put(self._store, name, content)
        except Exception as error:
            raise MachineError(f"{self}/{name} cannot be written: {_line(error)}") from None

    def create(self, name: str, content: bytes) -> bool:
        """See `Place`."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            obstore.put(self._store, name, content, mode="create")
        except (AlreadyExistsError, PreconditionError):
            return False
        except Exception as error:
            raise MachineError(f"{self}/{name} cannot be written: {_line(error)}") from None
        return True

    def list(self, folder: str) -> Iterator[str]:
        """See `Place`."""
        import obstore

        prefix = f"{folder.rstrip('/')}/" if folder else ""
        try:
            found = obstore.list_with_delimiter(self._store, prefix or None)
        except Exception as error:
            raise MachineError(f"{self}/{folder} cannot be listed: {_line(error)}") from None
        for path in [*found["common_prefixes"], *(one["path"] for one in found["objects"])]:
            yield path.rstrip("/").rsplit("/", 1)[-1]

    def walk(self) -> Iterator[str]:
        """Names of all objects, in order; only a page of them is in memory."""
        import obstore

        try:
            for page in obstore.list(self._store):
                yield from (one["path"] for one in page)
        except Exception as error:
            raise MachineError(f"{self} cannot be listed: {_line(error)}") from None

    def remove(self, name: str) -> None:
        """See `Place`."""
        import obstore

        try:
            found = obstore.list(self._store, f"{name}/")
            paths = [one["path"] for block in found for one in block]
            obstore.delete(self._store, paths or [name])
        except Exception as error:
            raise MachineError(f"{self}/{name} cannot be removed: {_line(error)}") from None

    def open_store(self, folder: str) -> Any:
        """See `Place`."""
        from zarr.storage import ObjectStore as ZarrStore

        return ZarrStore(_open(f"{self.address}/{folder}".rstrip("/")))

    def settle(self, folder: str) -> None:
        """See `Place`; what a store has accepted stays."""

    @contextmanager
    def alone(self, say: Callable[[str], None]) -> Iterator[bool]:
        """See `Place`; by an object that is written again and again while its owner lives.

        It only saves work: two who plan at once do no harm.
        """
        own, is_over = secrets.token_hex(8), threading.Event()
        self._lease(own, say)

        def stay() -> None:
            count = 0
            while not is_over.wait(_LEASE_SECONDS / 4):
                count += 1
                self.write(_LEASE, f"{own} {count}".encode())

        staying = threading.Thread(target=stay, daemon=True)
        staying.start()
        try:
            yield False
        finally:
            is_over.set()
            staying.join()
            self.remove(_LEASE)

    def _lease(self, own: str, say: Callable[[str], None]) -> None:
        """Waits until nobody else has it; who has not written for long is taken for dead."""
        seen, since = None, time.monotonic()
        while not self.create(_LEASE, own.encode()):
            found = self.read(_LEASE)
            if seen is None:
                say(f"{self} is being planned by another run: waiting for it")
            if found != seen:
                seen, since = found, time.monotonic()
            elif time.monotonic() - since > _LEASE_SECONDS:
                self.remove(_LEASE)
                continue
            time.sleep(_LEASE_SECONDS / 10)

    def take(self, name: str) -> Any:
        """See `Place`; there are no locks."""
        return nullcontext(None)


@contextmanager
def blaming_store(said: str) -> Iterator[None]:
    """An object store that fails below a library which reads or writes by it is a `MachineError`.

    Args:
        said: What the error begins with.
    """
    try:
        yield
    except Exception as error:
        if type(error).__module__.split(".")[0] != "obstore":
            raise
        raise MachineError(f"{said}: {_line(error)}") from error


def _open(address: str) -> Any:
    from obstore.store import from_url

    # Plain HTTP is for servers on this machine or in a private network, and only where asked for.
    endpoint = os.environ.get("AWS_ENDPOINT_URL", os.environ.get("AWS_ENDPOINT", ""))
    is_plain = endpoint.startswith("http://")
    return from_url(
        address,
        client_options={"allow_http": True} if is_plain else None,
        retry_config={"max_retries": _RETRIES},
    )


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
