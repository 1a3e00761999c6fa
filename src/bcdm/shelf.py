"""Where models and settings lie. Without torch, so that a command can look for one in no time."""

import importlib.util
import json
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from bcdm.errors import InputError

__all__ = [
    "CALLS",
    "find_calls",
    "find_model",
    "find_settings",
    "list_models",
    "list_settings",
    "read_calls",
]

CALLS = 20
"""Network calls per sample where a model's calibration does not say."""

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[1]
_NAME = re.compile(r"^name: *(\S+)", re.MULTILINE)


def find_model(name_or_path: str | Path) -> Path:
    """The folder of a model: a path, or a name in BCDM_MODELS or among the shipped ones."""
    path = Path(name_or_path)
    if (path / "config.json").exists():
        return path
    for root in _list_roots():
        if (root / path / "config.json").exists():
            return root / path
    known = f"no model {str(name_or_path)!r}: give a folder, or one of {list_models()}"
    more = "" if _find_more_models() else "; the package bcdm-models has more"
    raise InputError(known + more)


def find_calls(name_or_path: str | Path) -> int:
    """The calls per sample of a model; `load` says what is wrong where its folder is damaged."""
    path = find_model(name_or_path) / "config.json"
    try:
        return read_calls(json.loads(path.read_bytes())["facts"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return CALLS


def read_calls(facts: Mapping[str, Any]) -> int:
    """Those that a model was calibrated with, from its facts."""
    found = (facts.get("calibration") or {}).get("calls")
    return found if type(found) is int and found > 0 else CALLS


def list_models() -> list[str]:
    """The names of models that `load` knows."""
    return sorted({p.parent.name for root in _list_roots() for p in root.glob("*/config.json")})


def _list_roots() -> list[Path]:
    roots = [Path(os.environ["BCDM_MODELS"])] if "BCDM_MODELS" in os.environ else []
    return [*roots, _PACKAGE / "models", *_find_more_models()]


def _find_more_models() -> list[Path]:
    """Those that are no part of bcdm's wheel: in a checkout beside src, else bcdm-models'."""
    checkout = _CHECKOUT / "models"
    found = importlib.util.find_spec("bcdm_models")
    places = found.submodule_search_locations if found is not None else None
    return [*([checkout] if checkout.is_dir() else []), *map(Path, places or ())]


def find_settings(name_or_path: str | Path) -> Path:
    """A file of settings: a path, or a name among those that come with bcdm.

    These are known by their place, "paper/mri/task.yaml", and those that train a model by its
    name, "ixi64-mri.yaml"; the suffix may be left out.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    known = list_settings()
    for name in (path.as_posix(), f"{path.as_posix()}.yaml"):
        if name in known:
            return known[name]
    raise InputError(f"cannot read {path}: it is neither a file nor listed by `bcdm settings`")


@cache
def list_settings() -> dict[str, Path]:
    """Files of settings that come with bcdm, by name; those that train a model by its name."""
    # In a wheel they lie in the package, in a checkout beside the records that they led to.
    packaged = _PACKAGE / "settings"
    root = packaged if packaged.is_dir() else _CHECKOUT / "experiments"
    # Of two for the same model the one with the plainer name is meant.
    files = sorted(root.rglob("*.yaml"), key=lambda file: (len(file.name), file))
    trained: dict[str, Path] = {}
    for file in files:
        if found := _NAME.search(file.read_text()):
            trained.setdefault(f"{found[1]}.yaml", file)
    return trained | {file.relative_to(root).as_posix(): file for file in files}
