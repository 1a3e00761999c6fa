"""Where an archive lies: a folder, or a prefix of an object store such as S3."""

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from bcdm.archive.objects import ObjectStore
from bcdm.files import flush, flush_names, remove_partial, replacing
from bcdm.folders import claim, try_claim

__all__ = ["Folder", "ObjectStore", "Place", "is_remote", "open_place"]

# What file systems without hard links answer.
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK)


class Place(Protocol):
    """Files by names with slashes; each is whole or not there."""

    def read(self, name: str) -> bytes | None:
        """What a file holds; None if there is none."""

    def read_all(self, names: Iterable[str]) -> Iterator[bytes | None]:
        """What files hold, in order; several at once where each one waits for a network."""

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
        """A context in which nobody else plans the archive, as far as that can be had.

        It says whether that is certain.
        """

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

    def read_all(self, names: Iterable[str]) -> Iterator[bytes | None]:
        """See `Place`."""
        return map(self.read, names)

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
            flush_names(target.parent)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # Both of two who get here have written the same.
            own.replace(target)
            flush_names(target.parent)
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
        flush_names((self.path / folder).parent)

    @contextmanager
    def alone(self, say: Callable[[str], None]) -> Iterator[bool]:
        """See `Place`."""
        self.path.mkdir(parents=True, exist_ok=True)
        with claim(self.path, say) as is_alone:
            remove_partial(self.path, alone=is_alone)
            yield is_alone

    @contextmanager
    def take(self, name: str) -> Iterator[bool | None]:
        """See `Place`."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with try_claim(target.with_name(f".{target.name}.lock")) as taken:
            yield taken
