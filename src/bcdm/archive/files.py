"""Items that are slices of files: a folder, a pattern, or objects below an address."""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bcdm.archive.entries import Entry, Fit, fail
from bcdm.archive.listing import find_root, list_objects, walk
from bcdm.archive.places import Place, is_remote, open_place
from bcdm.errors import InputError, MachineError, blames_machine
from bcdm.files import hash_path
from bcdm.scans import Scan, read_scan
from bcdm.text import printable

if TYPE_CHECKING:
    from bcdm.reconstruction.fitting import Fitted

__all__ = ["Files"]


class Files:
    """Files that `bcdm reconstruct` takes, a shard of about as many slices as asked for.

    Which files there are is written down once, as a list for each shard: later runs see the same
    ones, and no run holds all names in memory.

    Args:
        text: Folder, pattern or address.
        place: The archive, where the lists go.
        shard: About how many slices a shard has; the first file tells how many are in a file.
        mask: File that says what was measured.
        key: The array to read.
        lists: The folder of the lists.
    """

    def __init__(
        self,
        text: str,
        place: Place,
        shard: int,
        mask: str | None = None,
        key: str | None = None,
        lists: str = "inputs",
    ) -> None:
        self._text = text if is_remote(text) else str(Path(text).absolute())
        self._place, self._shard = place, shard
        self._mask, self._key, self._lists = mask, key, lists

    def describe(self) -> Mapping[str, Any]:
        """See `Source`."""
        return {"files": self._text}

    def plan(self) -> tuple[int, int | None]:
        """See `Source`."""
        root, names = self._list()
        first = next(names, None)
        if first is None:
            raise InputError(f"{self._text} means no files: check folder or pattern")
        each = max(1, self._shard // self._count_slices(root, first))
        block, number = [first, *islice(names, each - 1)], 0
        while block:
            # As JSON, because a name may hold line breaks, and need not be UTF-8.
            text = "".join(f"{json.dumps(name)}\n" for name in block)
            self._place.write(self._name_list(number), text.encode())
            block, number = list(islice(names, each)), number + 1
        return number, None

    def count(self, most: int) -> int:
        """See `Source`. All files are taken to have as many slices as the first."""
        root, names = self._list()
        found = list(islice(names, most))
        return min(most, len(found) * self._count_slices(root, found[0])) if found else 0

    def read(self, shard: int, fit: Fit) -> Iterator[Entry]:
        """See `Source`."""
        held = self._place.read(self._name_list(shard))
        if held is None:
            raise InputError(f"{self._place} lacks the list of shard {shard}: begin it anew")
        root = self._split()[0]
        _check_mounted(root)
        for line in held.splitlines():
            yield from self._read_file(root, json.loads(line), fit)

    def _name_list(self, shard: int) -> str:
        """Not all in one folder: there may be 100,000."""
        return f"{self._lists}/{shard // 1000:05d}/{shard:08d}.txt"

    def _read_file(self, root: str, name: str, fit: Fit) -> Iterator[Entry]:
        shown = printable(name)
        try:
            with _fetch(root, name) as path:
                scan = read_scan(path, self._mask, self._key)
                content = hash_path(path)
        except (InputError, OSError) as error:
            # Not a fault of each file: a disk that is gone would else fail an item after the other.
            _check_mounted(root)
            if isinstance(error, OSError) and blames_machine(error):
                raise MachineError(f"{shown} cannot be read: {error.strerror}") from error
            own = hashlib.sha256(json.dumps(name).encode()).hexdigest()
            yield Entry(own, shown, fail(error))
            return
        fit_once = _remember(scan, fit)
        for number in range(len(scan.data)):
            # As `bcdm reconstruct` names slices, so that both draw the same samples.
            yield Entry(f"{content}/{number}", f"{shown} {number}", fit_once, number)

    def _count_slices(self, root: str, name: str) -> int:
        """How many slices the first file has; one where it cannot be read."""
        try:
            with _fetch(root, name) as path:
                return max(1, len(read_scan(path, self._mask, self._key).data))
        except InputError:
            return 1

    def _split(self) -> tuple[str, tuple[str, ...]]:
        """The folder above all files, and the pattern in it."""
        if is_remote(self._text):
            return list_objects(self._text)[0], ("**",)
        path = Path(self._text)
        if path.is_file():
            return str(path.parent), (path.name,)
        # A name with brackets that exists is no pattern.
        return (self._text, ("**",)) if path.is_dir() else find_root(self._text)

    def _list(self) -> tuple[str, Iterator[str]]:
        if is_remote(self._text):
            root, names = list_objects(self._text)
            own, above = f"{self._place}/", f"{root}/"
            return root, (name for name in names if not f"{above}{name}".startswith(own))
        root, parts = self._split()
        if Path(self._text).is_file():
            return root, iter(parts)
        if not Path(root).is_dir():
            raise InputError(f"{self._text} is no file or folder: check the path")
        return root, self._leave_out_archive(Path(root), walk(Path(root), parts))

    def _leave_out_archive(self, root: Path, names: Iterator[str]) -> Iterator[str]:
        """Without what the archive itself writes, where it lies in the folder of its input."""
        own = None if is_remote(str(self._place)) else Path(str(self._place)).resolve()
        whole = root.resolve()
        return (name for name in names if own is None or own not in (whole / name).parents)


def _check_mounted(root: str) -> None:
    """Where a disk is gone, its folder is gone or empty: the list of files says there were some."""
    if is_remote(root):
        return
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(root) as entries:
        if next(entries, None) is not None:
            return
    raise MachineError(f"{root} is not there or empty: mount it, and go on by the same command")


@contextmanager
def _fetch(root: str, name: str) -> Iterator[Path]:
    """A file on a disk of this machine."""
    if not is_remote(root):
        yield Path(root, name)
        return
    with tempfile.TemporaryDirectory() as folder:
        content = open_place(root).read(name)
        if content is None:
            raise InputError(f"{name} is no longer there")
        path = Path(folder, Path(name).name)
        path.write_bytes(content)
        yield path


def _remember(scan: Scan, fit: Fit) -> "Callable[[], Fitted]":
    """Fits a scan when its first slice is asked for, and once."""

    @cache
    def fit_once() -> "Fitted":
        return fit(scan)

    return fit_once
