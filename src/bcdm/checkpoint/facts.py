"""The config.json of a model folder: settings, hashes and facts, and which files are beside it."""

import hashlib
import json
import re
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

from bcdm.checkpoint.card import format_card
from bcdm.checkpoint.tensorfile import check_file, shorten
from bcdm.errors import InputError, ModelError
from bcdm.files import write_text
from bcdm.shelf import find_model

__all__ = ["FILES", "FORMAT", "hash_settings", "read_facts", "write_facts"]

FORMAT = 1
FILES = {
    "model.safetensors": 1 << 34,
    "operator.safetensors": 1 << 32,
    "familiarity.safetensors": 1 << 26,
}
"""What a folder may hold besides config.json and the card, and how many bytes each may have."""

_LARGEST = 1 << 26  # bytes of config.json
_LONGEST, _MOST = 1 << 14, 1 << 26  # pixels along a side and in an image
_PARTS = {"name": str, "shape": list, "hashes": dict, "config": dict, "facts": dict}


def write_facts(folder: Path, content: dict[str, Any]) -> None:
    """Writes config.json, and the card made from it."""
    write_text(folder / "config.json", _format(content) + "\n")
    write_text(folder / "README.md", format_card(content, named=_is_named(folder, content["name"])))


def _is_named(folder: Path, name: str) -> bool:
    """Whether `load` finds the folder by the model's name."""
    try:
        return find_model(name).resolve() == folder.resolve()
    except InputError:
        return False


def _format(content: dict[str, Any]) -> str:
    """JSON for people: lists of numbers on one line."""
    text = json.dumps(content, indent=1)
    return re.sub(r"\[\s+([-+\d.eE,\s]+?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text)


def read_facts(folder: Path) -> dict[str, Any]:
    """The content of a model's config.json: version, parts, image shape and file names checked."""
    path = folder / "config.json"
    try:
        check_file(path, _LARGEST)
        content: dict[str, Any] = json.loads(path.read_bytes())
        version = content["format"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ModelError(f"{folder} holds no readable config.json: {shorten(error)}") from None
    if version != FORMAT:
        raise ModelError(
            f"{folder} has model format {shorten(version)}; this bcdm reads {FORMAT}: update bcdm"
        )
    for name, kind in _PARTS.items():
        if not isinstance(content.get(name), kind):
            raise ModelError(f"{folder} is incomplete: {name} in config.json is no {kind.__name__}")
    _check_shape(folder, content["shape"])
    _check_names(folder, content["hashes"])
    return content


def _check_shape(folder: Path, shape: list[Any]) -> None:
    sides = [side for side in shape if type(side) is int and 0 < side <= _LONGEST]
    if len(shape) != 3 or len(sides) != 3 or prod(sides) > _MOST:
        raise ModelError(f"{folder}: {shorten(shape)} is no shape (channels, rows, columns)")


def _check_names(folder: Path, hashes: dict[str, Any]) -> None:
    """Names become paths: only those that this version writes are read."""
    for name in ("settings", "model.safetensors"):
        if name not in hashes:
            raise ModelError(f"{folder} is incomplete: config.json holds no hash of {name}")
    for name in hashes:
        if name != "settings" and name not in FILES:
            raise ModelError(f"{folder}: config.json names {shorten(name)!r}, no file of a model")


def hash_settings(settings: dict[str, Any], shape: Sequence[int]) -> str:
    """SHA-256 of settings as they are stored."""
    text = json.dumps([settings, list(shape)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
