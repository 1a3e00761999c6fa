"""Models as folders: plain settings and tensors, never pickle."""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from bcdm import __version__
from bcdm.checkpoint.building import build_method, build_preparation
from bcdm.checkpoint.card import format_card
from bcdm.checkpoint.model import Model
from bcdm.checkpoint.operators import (
    agree,
    describe_operator,
    is_storable,
    load_operator,
    save_operator,
)
from bcdm.checkpoint.settings import RunConfig, parse_config
from bcdm.checkpoint.tensorfile import write_tensors
from bcdm.errors import InputError
from bcdm.files import write_text
from bcdm.operators import LinearOperator

__all__ = [
    "find_model",
    "list_models",
    "load",
    "read_facts",
    "save_model",
    "write_facts",
]

_MODEL_FORMAT = 1


def save_model(
    folder: Path,
    config: RunConfig,
    network: nn.Module,
    operator: LinearOperator | None,
    shape: tuple[int, ...],
    facts: dict[str, Any],
) -> None:
    """Writes a model folder: config.json, model.safetensors, README.md, operator.safetensors.

    The last is left out where there is no single operator, or it is made of Python code.
    """
    folder.mkdir(parents=True, exist_ok=True)
    half = config.training.weights == "float16"
    # Biases, norms and frequencies are few; only the matrices are worth rounding.
    weights = {
        name: (t.to(torch.float16) if half and t.ndim > 1 else t).contiguous()
        for name, t in network.state_dict().items()
    }
    write_tensors(folder / "model.safetensors", weights)
    names = ["model.safetensors"]
    if operator is not None and is_storable(operator):
        save_operator(operator, folder / "operator.safetensors")
        names.append("operator.safetensors")
    hashes = {name: _hash(folder / name) for name in names}
    settings = config.model_dump(mode="json")
    write_facts(folder, {
        "format": _MODEL_FORMAT,
        "name": config.name,
        "versions": {"bcdm": __version__, "torch": torch.__version__},
        "shape": list(shape),
        "hashes": hashes | {"settings": _hash_settings(settings, shape)},
        "config": settings,
        "facts": facts,
    })  # fmt: skip


def write_facts(folder: Path, content: dict[str, Any]) -> None:
    """Writes config.json, and the card made from it."""
    write_text(folder / "config.json", _format(content) + "\n")
    write_text(folder / "README.md", format_card(content))


def _format(content: dict[str, Any]) -> str:
    """JSON for people: lists of numbers on one line."""
    text = json.dumps(content, indent=1)
    return re.sub(r"\[\s+([-+\d.eE,\s]+?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text)


def load(name_or_path: str | Path, operator: LinearOperator | None = None) -> Model:
    """Loads a model by folder, or by the name of one that is shipped.

    Strict: files that are changed, incomplete or of a newer version are refused.

    Args:
        name_or_path: Which model.
        operator: That of its training, if it is made of Python code and could not be stored.
    """
    folder = find_model(name_or_path)
    content = read_facts(folder)
    try:
        config, shape = parse_config(content["config"]), tuple(content["shape"])
        hashes, facts = content["hashes"], content["facts"]
        found = {name: _hash(folder / name) for name in hashes if name != "settings"}
    except (KeyError, TypeError, OSError) as error:
        raise InputError(f"{folder} is incomplete: {error}") from None
    # As stored: a later version may know settings that this model was saved without.
    found["settings"] = _hash_settings(content["config"], shape)
    for name, value in found.items():
        if value != hashes.get(name):
            raise InputError(f"{folder}: {name} is damaged or changed, its hash is another")
    method = build_method(config, shape)
    weights = {
        name: t.to(torch.float32) if t.is_floating_point() else t
        for name, t in load_file(folder / "model.safetensors").items()
    }
    try:
        method.network.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        line = " ".join(str(error).split())[:200]
        raise InputError(f"{folder} was made for another network: {line}") from None
    method.network.eval().requires_grad_(False)
    if operator is not None and not agree(describe_operator(operator, shape), config.operator):
        raise InputError(f"{config.name} was not trained with this operator")
    if "operator.safetensors" in hashes:
        operator = load_operator(folder / "operator.safetensors")
    return Model(
        method,
        config,
        operator,
        build_preparation(config.data),
        shape,
        facts | {"hashes": hashes, "name": config.name},
    )


def read_facts(folder: Path) -> dict[str, Any]:
    """The content of a model's config.json, its version checked."""
    try:
        content: dict[str, Any] = json.loads((folder / "config.json").read_text())
        version = content["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} holds no readable config.json: {error}") from None
    if version != _MODEL_FORMAT:
        raise InputError(
            f"{folder} has model format {version}; this bcdm reads {_MODEL_FORMAT}: update bcdm"
        )
    return content


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
    package = Path(__file__).resolve().parents[1]
    roots = [Path(os.environ["BCDM_MODELS"])] if "BCDM_MODELS" in os.environ else []
    # In a wheel models lie in the package, in a checkout beside src.
    return [*roots, package / "models", package.parents[1] / "models"]


def _hash_settings(settings: dict[str, Any], shape: tuple[int, ...]) -> str:
    text = json.dumps([settings, list(shape)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
