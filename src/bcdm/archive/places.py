"""Where an archive lies: a folder, or a prefix of an object store such as S3."""

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from bcdm.errors import InputError, MachineError
from bcdm.files import flush, remove_partial, replacing
from bcdm.folders import claim, try_claim

__all__ = ["Folder", "ObjectStore", "Place", "is_remote", "open_place"]

# What file systems without hard links answer.
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK)

_RETRIES = 10


class Place(Protocol):
    """Files by names with slashes; each is whole or not there."""

    def read(self, name: str) -> bytes | None:
        """What a file holds; None if there is none."""

    def write(self, name: str, content: bytes) -> None:
        """Writes a file, over what was there."""

    def create(self, name: str, content: bytes) -> bool:
        """Writes a file unless there is one: of several who try, one is told True."""

    def list(self, folder: str) -> Iterator[str]:
        """Names of files and folders right in a folder, in no order; of a missing one none."""

    def remove(self, name: str) -> None:
        """Removes a file, or a folder with all that is in it."""

    def open_store(self, folder: str) -> Any:
        """What zarr takes for a folder."""

    def settle(self, folder: str) -> None:
        """Returns when all of a folder would survive a crash of the machine."""

    def alone(self, say: Callable[[str], None]) -> Any:
        """A context in which nobody else plans the archive, as far as the place has locks."""

    def take(self, name: str) -> Any:
        """A context that says whether a thing is ours to do.

        False while another one does it; None where the place has no locks, so that nobody knows.
        """


def is_remote(text: str) -> bool:
    """Whether it is the address of an object store, not a path."""
    return "://" in text


def open_place(text: str) -> Place:
    """A place by its path or address; a folder is made when it is first written."""
    return ObjectStore(text) if is_remote(text) else Folder(Path(text))


class Folder:
    """A place on a disk, local or shared."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def read(self, name: str) -> bytes | None:
        """See `Place`."""
        try:
            return (self.path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, content: bytes) -> None:
        """See `Place`."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as partial:
            partial.write_bytes(content)

    def create(self, name: str, content: bytes) -> bool:
        """See `Place`."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        own = target.with_name(f"{target.stem}-{secrets.token_hex(8)}.new")
        try:
            own.write_bytes(content)
            flush(own)
            # Unlike a rename, a link fails where the name is taken.
            os.link(own, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # Both of two who get here have written the same.
            own.replace(target)
        finally:
            own.unlink(missing_ok=True)
        return True

    def list(self, folder: str) -> Iterator[str]:
        """See `Place`."""
        try:
            with os.scandir(self.path / folder) as entries:
                yield from (entry.name for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return

    def remove(self, name: str) -> None:
        """See `Place`."""
        target = self.path / name
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)

    def open_store(self, folder: str) -> Any:
        """See `Place`."""
        from zarr.storage import LocalStore

        return LocalStore(self.path / folder)

    def settle(self, folder: str) -> None:
        """See `Place`."""
        flush(self.path / folder)

    @contextmanager
    def alone(self, say: Callable[[str], None]) -> Iterator[None]:
        """See `Place`."""
        self.path.mkdir(parents=True, exist_ok=True)
        with claim(self.path, say) as is_alone:
            remove_partial(self.path, alone=is_alone)
            yield

    @contextmanager
    def take(self, name: str) -> Iterator[bool | None]:
        """See `Place`."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with try_claim(target.with_name(f".{target.name}.lock")) as taken:
            yield taken


class ObjectStore:
    """A prefix of S3 or its like, by obstore. It has no locks: what is done twice is done alike."""

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

        for page in obstore.list(self._store):
            yield from (one["path"] for one in page)

    def remove(self, name: str) -> None:
        """See `Place`."""
        import obstore

        paths = [one["path"] for block in obstore.list(self._store, f"{name}/") for one in block]
        obstore.delete(self._store, paths or [name])

    def open_store(self, folder: str) -> Any:
        """See `Place`."""
        from zarr.storage import ObjectStore as ZarrStore

        return ZarrStore(_open(f"{self.address}/{folder}".rstrip("/")))

    def settle(self, folder: str) -> None:
        """See `Place`; what a store has accepted stays."""

    def alone(self, say: Callable[[str], None]) -> Any:
        """See `Place`; there are no locks."""
        return nullcontext()

    def take(self, name: str) -> Any:
        """See `Place`; there are no locks."""
        return nullcontext(None)


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
