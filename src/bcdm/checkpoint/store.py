"""Models as folders: plain settings and tensors, never pickle."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from bcdm import __version__
from bcdm.checkpoint.building import build_familiarity, build_method, build_preparation, check_size
from bcdm.checkpoint.facts import FILES, FORMAT, hash_settings, read_facts, write_facts
from bcdm.checkpoint.model import Model
from bcdm.checkpoint.operators import (
    agree,
    describe_operator,
    is_storable,
    load_operator,
    save_operator,
)
from bcdm.checkpoint.settings import RunConfig, parse_config
from bcdm.checkpoint.tensorfile import UNUSABLE, hash_file, read_tensors, shorten, write_tensors
from bcdm.errors import InputError, ModelError
from bcdm.operators import LinearOperator
from bcdm.problems import Cloud
from bcdm.shelf import find_model, list_models

__all__ = ["find_model", "list_models", "load", "save_model", "store_cloud"]


def save_model(
    folder: Path,
    config: RunConfig,
    network: nn.Module,
    operator: LinearOperator | None,
    shape: tuple[int, ...],
    facts: dict[str, Any],
) -> None:
    """Writes a model folder: config.json, README.md, model.safetensors and one more.

    That is operator.safetensors, unless it is made of Python code; familiarity.safetensors where
    the model serves a family of operators.
    """
    folder.mkdir(parents=True, exist_ok=True)
    half = config.training.weights == "float16"
    # Biases, norms and frequencies are few; only the matrices are worth rounding.
    weights = {
        name: (t.to(torch.float16) if half and t.ndim > 1 else t).contiguous()
        for name, t in network.state_dict().items()
    }
    if not all(bool(t.isfinite().all()) for t in weights.values()):
        raise ModelError(f"{config.name} has weights that are not finite: nothing was written")
    write_tensors(folder / "model.safetensors", weights)
    names = ["model.safetensors"]
    if operator is not None and is_storable(operator):
        save_operator(operator, folder / "operator.safetensors")
        names.append("operator.safetensors")
    familiarity = build_familiarity(config, shape)
    if familiarity is not None:
        write_tensors(folder / "familiarity.safetensors", familiarity.cloud.to_tensors())
        names.append("familiarity.safetensors")
    hashes = {name: hash_file(folder / name, FILES[name]) for name in names}
    settings = config.model_dump(mode="json")
    content = {
        "format": FORMAT,
        "name": config.name,
        "versions": {"bcdm": __version__, "torch": torch.__version__},
        "shape": list(shape),
        "hashes": hashes | {"settings": hash_settings(settings, shape)},
        "config": settings,
        "facts": facts,
    }
    write_facts(folder, content)


def load(name_or_path: str | Path, operator: LinearOperator | None = None) -> Model:
    """Loads a model by folder, or by the name of one that is shipped.

    Strict: files that are changed, incomplete, not finite or of a newer version are refused.

    Args:
        name_or_path: Which model.
        operator: That of its training, if it is made of Python code and could not be stored.

    Raises:
        ModelError: The folder cannot be used, whatever is in it.
    """
    folder = find_model(name_or_path)
    content = read_facts(folder)
    hashes, shape = content["hashes"], tuple(content["shape"])
    try:
        config = parse_config(content["config"])
        _check_hashes(folder, content)
        weights, _ = read_tensors(folder / "model.safetensors", FILES["model.safetensors"])
        check_size(config, shape, weights)
        method, preparation = build_method(config, shape), build_preparation(config.data)
    except ModelError:
        raise
    except UNUSABLE as error:
        raise ModelError(f"{folder} holds settings that cannot be used: {shorten(error)}") from None
    full = {n: t.to(torch.float32) if t.is_floating_point() else t for n, t in weights.items()}
    try:
        method.network.load_state_dict(full, strict=True)
    except RuntimeError as error:
        raise ModelError(f"{folder} was made for another network: {shorten(error)}") from None
    method.network.eval().requires_grad_(False)
    if operator is not None:
        described = describe_operator(operator, shape, config.data.dtype)
        if not agree(described, config.operator):
            raise InputError(f"{config.name} was not trained with this operator")
    if "operator.safetensors" in hashes:
        operator = load_operator(folder / "operator.safetensors")
    cloud = _load_cloud(folder) if "familiarity.safetensors" in hashes else None
    # Results name these: the same model with or without its cloud, which follows from settings.
    identity = {name: value for name, value in hashes.items() if name != "familiarity.safetensors"}
    facts = content["facts"] | {"hashes": identity, "name": config.name}
    return Model(method, config, operator, preparation, shape, facts, cloud)


def store_cloud(folder: Path) -> None:
    """Draws anew what a model of a family compares operators with, and stores it with the model."""
    familiarity = load(folder).familiarity
    if familiarity is None:
        raise InputError(f"{folder} serves a single operator: there is no family to describe")
    path = folder / "familiarity.safetensors"
    write_tensors(path, familiarity.draw_cloud().to_tensors())
    content = read_facts(folder)
    content["hashes"][path.name] = hash_file(path, FILES[path.name])
    write_facts(folder, content)


def _load_cloud(folder: Path) -> Cloud:
    path = folder / "familiarity.safetensors"
    tensors, _ = read_tensors(path, FILES[path.name])
    try:
        return Cloud.from_tensors(tensors)
    except UNUSABLE as error:
        raise ModelError(f"{path} holds no cloud of operators: {shorten(error)}") from None


def _check_hashes(folder: Path, content: dict[str, Any]) -> None:
    hashes = content["hashes"]
    # As stored: a later version may know settings that this model was saved without.
    found = {"settings": hash_settings(content["config"], content["shape"])}
    found |= {name: hash_file(folder / name, FILES[name]) for name in hashes if name in FILES}
    for name, value in found.items():
        if value != hashes[name]:
            raise ModelError(f"{folder}: {name} is damaged or changed, its hash is another")
