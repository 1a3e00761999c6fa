"""Numbers that take long to find: kept in files, so that a command goes on where it stopped."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from bcdm.files import replacing

__all__ = ["Numbers", "keep_numbers"]

Numbers = dict[str, np.ndarray]


def keep_numbers(stored: Path, asked: Mapping[str, object], make: Callable[[], Numbers]) -> Numbers:
    """What an earlier run found and stored under the same question, or is found and stored now."""
    key = json.dumps(asked, sort_keys=True, default=str)
    if stored.exists():
        with np.load(stored, allow_pickle=False) as file:
            if str(file["asked"]) == key:
                return {name: file[name] for name in file.files if name != "asked"}
    found = make()
    stored.parent.mkdir(parents=True, exist_ok=True)
    with replacing(stored) as partial:
        np.savez(partial, allow_pickle=False, asked=np.array(key), **found)
    return found
