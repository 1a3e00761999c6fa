"""What networks and outcomes of a study depend on: what is kept is never taken for another."""

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from bcdm.checkpoint import Model
from bcdm.checkpoint.settings import resolve_data_path
from bcdm.comparison.contenders import ContenderConfig
from bcdm.comparison.task import Task
from bcdm.errors import InputError
from bcdm.imports import find_object, hash_source, is_found, is_import_path

__all__ = ["describe_outcome", "hash_content", "hash_images", "hash_weights"]

# Settings of a task that an outcome depends on.
_KEPT = {
    "operator",
    "noise_std",
    "samples",
    "images",
    "few_images",
    "tune_images",
    "tune_samples",
    "seed",
    "batch",
    "precision",
}


def describe_outcome(
    task: Task,
    config: ContenderConfig,
    models: Mapping[str, Model],
    tested: Model,
    data: Path | None,
) -> list[object]:
    """All that an outcome depends on; `tested` is the model whose images are taken."""
    own = models.get(config.network or "")
    return [
        config.model_dump(mode="json", exclude_defaults=True),
        task.model_dump(mode="json", include=_KEPT),
        None if own is None else own.facts["hashes"],
        tested.facts["hashes"]["settings"],
        hash_images(tested.config.model_dump(mode="json"), data),
        [path and hash_weights(path, data) for path in (task.lpips, task.fid)],
        _hash_operator(task.operator),
        *_describe_plugs(task, config),
    ]


def hash_images(settings: Mapping[str, Any], data: Path | None) -> str:
    """Of the images that a run's settings name: a file's content, or a folder's names and sizes."""
    named = [settings["data"], *(one["data"] for one in settings.get("sources", ()))]
    return hash_content([_hash_path(resolve_data_path(one["path"], data)) for one in named])


def hash_content(content: object) -> str:
    """Twelve digits of the SHA-256 of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def hash_weights(path: Path, data: Path | None) -> str:
    """Eight digits of a file's SHA-256: those of FID's Inception are in the name it goes by."""
    return _hash_path(resolve_data_path(path, data))[:8]


def _hash_operator(text: str | None) -> str:
    """Of the file that holds an operator or says how it is made; "" where the text is all."""
    if text is None:
        return ""
    if is_import_path(text):
        return hash_source(find_object(text))
    return _hash_path(Path(text)) if Path(text).is_file() else ""


def _describe_plugs(task: Task, config: ContenderConfig) -> Sequence[object]:
    """What comes from other packages, and the files it is written in; nothing if nothing does."""
    plugs = [*task.metrics.values(), config.prior, config.sampler]
    plugs += [config.kind] if config.outside else []
    sources = [_hash_plug(plug) for plug in plugs if plug is not None]
    metrics = task.model_dump(mode="json", include={"metrics"})["metrics"]
    # A method from elsewhere takes a weight that is stated, also where it is the usual one.
    stated = [config.weight] if config.outside and "weight" in config.model_fields_set else []
    return [metrics, sources, *stated] if sources else []


def _hash_plug(plug: Any) -> str:
    """Of the file that it is written in; never the same twice where that tells nothing.

    A lambda, a partial, an instance and a class of a notebook have no path of their own that leads
    back to them, or no file.
    """
    if isinstance(plug, str):
        return hash_source(find_object(plug))
    return (hash_source(plug) if is_found(plug) else "") or secrets.token_hex(8)


def _hash_path(path: Path) -> str:
    if path.is_dir():
        files = sorted(one for one in path.rglob("*") if one.is_file())
        return hash_content([[str(one.relative_to(path)), one.stat().st_size] for one in files])
    try:
        about = path.stat()
        return _hash_file(path, about.st_size, about.st_mtime_ns)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


@cache
def _hash_file(path: Path, _size: int, _changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
