"""Where models lie. Without torch, so that a command can look for one in no time."""

import os
from pathlib import Path

from bcdm.errors import InputError

__all__ = ["find_model", "list_models"]


def find_model(name_or_path: str | Path) -> Path:
    """The folder of a model: a path, or a name in BCDM_MODELS or among the shipped ones."""
    path = Path(name_or_path)
    if (path / "config.json").exists():
        return path
    for root in _list_roots():
        if (root / path / "config.json").exists():
            return root / path
    raise InputError(f"no model {str(name_or_path)!r}: give a folder, or one of {list_models()}")


def list_models() -> list[str]:
    """The names of models that `load` knows."""
    return sorted({p.parent.name for root in _list_roots() for p in root.glob("*/config.json")})


def _list_roots() -> list[Path]:
    package = Path(__file__).resolve().parent
    roots = [Path(os.environ["BCDM_MODELS"])] if "BCDM_MODELS" in os.environ else []
    # In a wheel models lie in the package, in a checkout beside src.
    return [*roots, package / "models", package.parents[1] / "models"]
