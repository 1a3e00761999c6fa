"""Objects of other packages by their import path, "package.module:name". Without torch."""

import hashlib
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from bcdm.errors import InputError

__all__ = [
    "IMPORT_PATH",
    "find_object",
    "hash_source",
    "is_found",
    "is_import_path",
    "name_object",
    "resolve",
]

IMPORT_PATH = r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"


def is_import_path(text: str) -> bool:
    """Whether a text names an object of a module.

    >>> is_import_path("package.module:name"), is_import_path("{kind: identity}")
    (True, False)
    """
    return re.match(IMPORT_PATH, text) is not None


def find_object(path: str) -> Any:
    """What a path such as "package.module:name" names; its module is run for that.

    Only what a user states, on the command line or in a file of settings of a study, is looked up
    here: nothing that a model's folder holds.

    >>> find_object("math:gcd")(12, 18)
    6
    """
    if not is_import_path(path):
        raise InputError(f'{path!r} is no import path: give one such as "package.module:name"')
    module, name = path.split(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # A package that the module itself needs.
        raise InputError(
            f"{path}: there is no module {error.name}: install its package, or put its folder on "
            "PYTHONPATH"
        ) from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"{path}: {module} has no {name}")
        found = getattr(found, part)
    return found


def resolve(given: Any) -> Any:
    """What an import path names; an object that is given as it is."""
    return find_object(given) if isinstance(given, str) else given


def name_object(given: object) -> str:
    """The import path of a function or class; of another object that of its class.

    >>> name_object(find_object)
    'bcdm.imports:find_object'
    """
    named = given if hasattr(given, "__qualname__") else type(given)
    return f"{named.__module__}:{named.__qualname__}"


def is_found(given: object) -> bool:
    """Whether the import path of an object leads back to it.

    >>> is_found(find_object), is_found(lambda: 1)
    (True, False)
    """
    try:
        return find_object(name_object(given)) is given
    except (ImportError, InputError):
        return False


def hash_source(given: object) -> str:
    """SHA-256 of the file that a function or class is written in; "" where there is none."""
    named: Any = given if hasattr(given, "__qualname__") else type(given)
    try:
        path = inspect.getsourcefile(inspect.unwrap(named))
        return "" if path is None else hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except (OSError, TypeError):
        return ""
