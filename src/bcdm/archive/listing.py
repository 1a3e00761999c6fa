"""Folders and patterns of files: walked in order without holding them all in memory."""

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from bcdm.archive.places import ObjectStore
from bcdm.errors import InputError

__all__ = ["find_root", "has_pattern", "list_objects", "matches", "walk"]

_WILD = "*?["
_ONCE = "a pattern takes ** once: twice would find files twice"


def has_pattern(text: str) -> bool:
    """Whether a path holds wildcards."""
    return any(letter in text for letter in _WILD)


def find_root(text: str) -> tuple[str, tuple[str, ...]]:
    """The folder above all that a path or pattern means, and the rest of it.

    >>> find_root("/data/2024*/**/*.h5")
    ('/data', ('2024*', '**', '*.h5'))
    >>> find_root("/data/scans")
    ('/data/scans', ('**',))
    """
    if not has_pattern(text):
        return text, ("**",)
    parts = Path(text).parts
    first = next(n for n, part in enumerate(parts) if has_pattern(part))
    return str(Path(*parts[:first])) if first else ".", parts[first:]


def walk(folder: Path, parts: Sequence[str], inside: str = "") -> Iterator[str]:
    """Paths in a folder that a pattern means, in order of names; only one folder is in memory.

    Hidden names are left out. `**` is any number of folders; at the end, all files in them. A
    folder of zarr counts as a file.

    Args:
        folder: Where to begin.
        parts: Of the pattern.
        inside: What stands before each path.
    """
    head, rest = parts[0], parts[1:]
    if head == "**" and "**" in rest:
        raise InputError(_ONCE)
    if head == "**" and rest:
        yield from walk(folder, rest, inside)
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, entry.is_dir()) for entry in entries)
    except OSError as error:
        raise InputError(f"cannot list {folder}: {error.strerror}") from None
    for name, is_folder in found:
        if name.startswith("."):
            continue
        path = f"{inside}{name}"
        if head == "**":
            if is_folder and not (folder / name / "zarr.json").is_file():
                yield from walk(folder / name, parts, f"{path}/")
            elif not rest:
                yield path
        elif fnmatchcase(name, head):
            if not rest:
                yield path
            elif is_folder:
                yield from walk(folder / name, rest, f"{path}/")


def list_objects(address: str) -> tuple[str, Iterator[str]]:
    """The address above all that an address or pattern means, and names below it, in order."""
    scheme, _, path = address.partition("://")
    root, parts = find_root(path.rstrip("/"))
    if parts.count("**") > 1:
        raise InputError(_ONCE)
    store = ObjectStore(f"{scheme}://{root}")
    return store.address, (name for name in store.walk() if matches(name.split("/"), parts))


def matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether a pattern means a path, as `walk` reads it.

    >>> matches(["2024a", "x.h5"], ["2024*", "**", "*.h5"])
    True
    >>> matches(["deep", "x.h5"], ["*.h5"])
    False
    """
    if not names or not parts:
        return not names and not parts
    head, rest = parts[0], parts[1:]
    if head == "**" and rest and matches(names, rest):
        return True
    if names[0].startswith("."):
        return False
    if head == "**":
        return (len(names) == 1 and not rest) or matches(names[1:], parts)
    return fnmatchcase(names[0], head) and matches(names[1:], rest)
