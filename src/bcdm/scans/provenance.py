"""Where results come from: one text, carried by every file that is written."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bcdm.errors import InputError
from bcdm.scans.complaints import library, refusal
from bcdm.scans.limits import LIMITS
from bcdm.scans.reading import read_provenance_text

__all__ = ["encode", "read_provenance"]

_NOTE = "bcdm"


def encode(provenance: Mapping[str, Any]) -> str:
    """The provenance as JSON of plain ASCII, which every format can carry.

    >>> encode({"model": "faces64"})
    '{"bcdm": {"model": "faces64"}}'
    """
    try:
        return json.dumps({_NOTE: dict(provenance)}, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"provenance is not JSON ({error}): use plain numbers and text") from error


def read_provenance(path: str | Path) -> dict[str, Any] | None:
    """Reads back what `write_results` was told, from any file that it wrote.

    Args:
        path: A result, or the JSON file beside it.

    Returns:
        The provenance, or None if the file carries none.

    Raises:
        InputError: The file cannot be read at all.
    """
    path = Path(path)
    is_sidecar = path.suffix.lower() == ".json" and path.is_file()
    text = _read_sidecar(path) if is_sidecar else read_provenance_text(path)
    return None if text is None else _decode(text)


def _read_sidecar(path: Path) -> str:
    with library(path):
        if path.stat().st_size > LIMITS.header:
            raise refusal(path, "is too long for a note: give a result")
        return path.read_text()


def _decode(text: str) -> dict[str, Any] | None:
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = held.get(_NOTE) if isinstance(held, dict) else None
    return found if isinstance(found, dict) else None
