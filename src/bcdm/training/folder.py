"""What a run's folder says of the run: its settings and images, and who may go on from there."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from bcdm.checkpoint import agree
from bcdm.checkpoint.settings import RunConfig, load_config
from bcdm.data import ImageSource, Subset
from bcdm.errors import InputError
from bcdm.files import flush, flush_names, write_text
from bcdm.training.state import Checkpoints

__all__ = ["BRANCH", "branch_off", "store_images", "store_settings"]

_IMAGES = "images.sha256"
BRANCH = "branch"  # holds the state from which longer runs go on
# What longer runs may have of their own: how long, and what changes no weights.
_FREE = ("checkpoint_every", "keep", "log_every", "steps", "validate_every", "validation_images")


def store_settings(config: RunConfig, folder: Path) -> None:
    """The resolved settings, beside what they make; a run in progress keeps its own."""
    stored = folder / "config.yaml"
    text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
    # By meaning, not by text: a later version may know more settings, at their defaults.
    if stored.exists() and _is_same(load_config(stored), config):
        return
    if stored.exists() and any((folder / "checkpoints").glob("step-*")):
        raise InputError(
            f"{folder} holds a run with other settings ({_find_change(load_config(stored), config)}"
            "): repeat them, choose another --out, or remove it"
        )
    write_text(stored, text)


def store_images(images: ImageSource, folder: Path) -> None:
    """What the images are, beside what they make; a run in progress keeps its own."""
    stored, found = folder / _IMAGES, _hash_images(images)
    if stored.exists() and any((folder / "checkpoints").glob("step-*")):
        if stored.read_text().strip() != found:
            raise InputError(
                f"{folder} holds a run with other images than those of now: bring the former back, "
                "or choose another --out"
            )
        return
    write_text(stored, found + "\n")


def _hash_images(images: ImageSource) -> str:
    whole = images.source if isinstance(images, Subset) else images
    files = getattr(whole, "files", None) or [getattr(whole, "path", None)]
    named = [[file.name, file.stat().st_size] for file in files if file is not None]
    return hashlib.sha256(json.dumps([len(images), named]).encode()).hexdigest()


def branch_off(config: RunConfig, images: ImageSource, shorter: Path, folder: Path) -> None:
    """Makes a new run go on from where the rate of a shorter one began to fall.

    Until there both are the same: every random number is a function of the step.

    Args:
        config: The new run.
        images: Its training images.
        shorter: The folder of the other.
        folder: That of the new one; a run in progress stays as it is.
    """
    own = folder / "checkpoints"
    if Checkpoints(own, 1).list():
        return
    states = Checkpoints(shorter / BRANCH, 1).list()
    if not states or config.training.decay is True:
        raise InputError(
            f"{shorter} holds no state to go on from: both runs need a share as training.decay, "
            "such as 0.2"
        )
    other = load_config(shorter / "config.yaml")
    free = {name: getattr(other.training, name) for name in _FREE}
    alike = config.training.model_copy(update={**free, "decay": other.training.decay})
    compared = config.model_copy(update={"name": other.name, "training": alike})
    if not _is_same(other, compared):
        raise InputError(
            f"{shorter} holds a run with other settings ({_find_change(other, compared)}): only "
            "its length, the share of training.decay and its name may differ"
        )
    if (shorter / _IMAGES).read_text().strip() != _hash_images(images):
        raise InputError(f"{shorter} holds a run with other images than those of now")
    if int(states[-1].name.removeprefix("step-")) > config.training.find_fall():
        raise InputError(
            f"{shorter} had trained longer when its rate began to fall: raise training.steps"
        )
    shutil.copyfile(shorter / "log.jsonl", folder / "log.jsonl")
    final = own / states[-1].name
    partial = final.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(states[-1], partial)
    flush(partial)
    partial.rename(final)
    flush_names(own)


def _is_same(stored: RunConfig, config: RunConfig) -> bool:
    """Whether settings are those of a run in progress; operators are compared by description."""
    if not agree(config.operator, stored.operator):
        return False
    return config.model_copy(update={"operator": stored.operator}) == stored


def _find_change(stored: RunConfig, config: RunConfig) -> str:
    """The first setting that differs, and what it was."""
    before, now = (_flatten(one.model_dump(mode="json")) for one in (stored, config))
    changed = [key for key in before | now if before.get(key) != now.get(key)]
    return f"{changed[0]} was {before.get(changed[0], 'not given')}" if changed else "operator"


def _flatten(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Settings by their full names.

    >>> _flatten({"data": {"size": 64}, "name": "a"})
    {'data.size': 64, 'name': 'a'}
    """
    found: dict[str, Any] = {}
    for name, value in settings.items():
        inner = _flatten(value, f"{above}{name}.") if isinstance(value, dict) else None
        found |= {above + name: value} if inner is None else inner
    return found
