"""What all makers of data sets share: who is in which set, and files with hashes."""

import hashlib
import importlib.resources
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from bcdm.errors import InputError
from bcdm.files import hash_path, replacing, write_arrays, write_text

__all__ = ["hash_name", "read_splits", "write_set"]

Say = Callable[[str], None]


def read_splits(data: Literal["ixi", "faces"]) -> dict[str, str]:
    """The set, train, val or test, of everybody whom shipped models know: by name or its hash.

    Whoever makes the data anew must have these: else models are tested on what they learned.
    """
    text = (importlib.resources.files("bcdm.data") / "splits.json").read_text()
    return {
        name: label for label, names in json.loads(text)[data].items() for name in names.split()
    }


def hash_name(name: str) -> str:
    """What people are called in the list of sets, which names nobody."""
    return hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=5).hexdigest()


def write_set(
    path: Path, arrays: Mapping[str, NDArray[Any]], sources: Sequence[Path], report: Say
) -> Path:
    """Writes a data set, and beside it the hashes of it and of what it was made of.

    The bits of both files depend on nothing but the sources.
    """
    if not sources:
        raise InputError(f"nothing to make {path.name} of")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        write_arrays(partial, arrays)
    labels = arrays["split"].tolist()
    told = {
        "file": path.name,
        "sha256": hash_path(path),
        "images": {label: labels.count(label) for label in ("train", "val", "test")},
        "sources": {f"{file.parent.name}/{file.name}": hash_path(file) for file in sources},
    }
    write_text(path.with_suffix(".json"), json.dumps(told, indent=1) + "\n")
    report(f"{len(labels)} images, {told['images']}; sha256 {told['sha256']}")
    return path
