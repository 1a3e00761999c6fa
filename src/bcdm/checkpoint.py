"""Operators and models as files: plain settings and tensors, never pickle."""

import hashlib
import json
import os
import re
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as pack
from torch import Tensor, nn

from bcdm import __version__, operators
from bcdm.config import RunConfig, parse_config
from bcdm.construction import (
    build_method,
    build_preparation,
    build_problems,
    describe_operator,
)
from bcdm.data import Preparation
from bcdm.errors import InputError
from bcdm.files import replacing, write_text
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian, BayesianDenoiser
from bcdm.operators import LinearOperator, PixelMask
from bcdm.problems import DrawnProblems
from bcdm.problems.familiarity import Familiarity, UnfamiliarWarning

__all__ = [
    "Model",
    "list_models",
    "load",
    "load_operator",
    "pull_model",
    "push_model",
    "save_model",
    "save_operator",
]

_OPERATOR_FORMAT, _MODEL_FORMAT = "bcdm.operator/1", 1
_OPERATORS = {
    kind.__name__: kind
    for kind in (
        operators.BlockMean,
        operators.CircularBlur,
        operators.Dense,
        operators.FourierMask,
        operators.Identity,
        operators.PixelMask,
    )
}


@dataclass(frozen=True)
class Model:
    """A trained method with all it was trained for.

    Attributes:
        method: The learned posterior.
        config: The settings of its training.
        trained_operator: What its training measured with; None if that was a family, or Python code
            that was not given to `load`.
        preparation: How images become the network's, and back.
        shape: Image shape (C, H, W) of its training.
        facts: What is known of it: data, hashes, metrics.
    """

    method: Bayesian
    config: RunConfig
    trained_operator: LinearOperator | None
    preparation: Preparation
    shape: tuple[int, ...]
    facts: dict[str, Any]

    @property
    def operator(self) -> LinearOperator:
        """The only operator it was trained for."""
        if self.trained_operator is not None:
            return self.trained_operator
        if self.config.operator.kind == "family":
            raise InputError(f"{self.config.name} serves a family of operators: give your own")
        raise InputError(
            f"{self.config.name} was trained with an operator made of Python code: give it to load"
        )

    @property
    def noise_std(self) -> float:
        """The only noise level it was trained for."""
        if isinstance(self.config.noise_std, tuple):
            raise InputError(f"{self.config.name} serves a range of noise levels: give your own")
        return self.config.noise_std

    @cached_property
    def familiarity(self) -> Familiarity | None:
        """Judges whether measurements are of the trained family; None for a single operator."""
        if self.config.operator.kind != "family":
            return None
        problems = build_problems(self.config, (self.shape[-2], self.shape[-1]))
        assert isinstance(problems, DrawnProblems)
        return Familiarity(problems, self.config.parameterisation.prior_std)

    @property
    def prior(self) -> BayesianDenoiser:
        """The unconditional denoiser: nothing is measured. Guided methods take it."""
        if self.config.operator.kind != "nothing":
            raise InputError(
                f"{self.config.name} was trained with measurements: guided methods take a network "
                'that was trained with operator "nothing"'
            )
        nothing = PixelMask(torch.zeros(self.shape[-2:], dtype=torch.bool))
        return self.method.condition(Measurement(torch.zeros(1, *self.shape), nothing, 1.0))

    def condition(self, measurement: Measurement) -> BayesianDenoiser:
        """Binds measurements: the posterior of the images behind them.

        A model of a family warns where operator or noise level lie outside.
        """
        if self.familiarity is not None:
            verdicts = self.familiarity.judge(measurement)
            for reason in dict.fromkeys(v.reason for v in verdicts if not v.familiar):
                warnings.warn(reason, UnfamiliarWarning, stacklevel=2)
        return self.method.condition(measurement)


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
    _write_tensors(folder / "model.safetensors", weights)
    names = ["model.safetensors"]
    if operator is not None and type(operator).__name__ in _OPERATORS:
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
    from bcdm.card import format_card

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
    if operator is not None and describe_operator(operator, shape) != config.operator:
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
    here = Path(__file__).resolve().parent
    roots = [Path(os.environ["BCDM_MODELS"])] if "BCDM_MODELS" in os.environ else []
    # In a wheel models lie in the package, in a checkout beside src.
    return [*roots, here / "models", here.parents[1] / "models"]


def push_model(folder: Path, repository: str) -> str:
    """Uploads a model folder to the Hugging Face Hub; needs the extra `hub` and a token."""
    from huggingface_hub import HfApi

    read_facts(folder)
    api = HfApi()
    api.create_repo(repository, exist_ok=True)
    return str(api.upload_folder(repo_id=repository, folder_path=str(folder)))


def pull_model(repository: str, revision: str | None = None) -> Path:
    """Downloads a model folder from the Hugging Face Hub and returns its path for `load`."""
    from huggingface_hub import snapshot_download

    wanted = ["config.json", "README.md", "*.safetensors"]
    return Path(snapshot_download(repository, revision=revision, allow_patterns=wanted))


def save_operator(operator: LinearOperator, path: str | Path) -> None:
    """Writes an operator to one safetensors file: its tensors, and its settings as metadata."""
    kind = type(operator).__name__
    if kind not in _OPERATORS:
        raise InputError(
            f"{kind} is made of Python code and cannot be stored: store what builds it, or a Dense"
        )
    settings = json.dumps(operator.settings())
    header = {"format": _OPERATOR_FORMAT, "operator": kind, "settings": settings}
    tensors = {name: t.contiguous() for name, t in operator.tensors().items()}
    _write_tensors(Path(path), tensors, header)


def _write_tensors(
    path: Path, tensors: dict[str, Tensor], header: dict[str, str] | None = None
) -> None:
    """Writes a safetensors file with the usual permissions and the same bits for the same content.

    The library's own is readable by its owner alone, and its header comes in any order.
    """
    packed = pack(tensors, header)
    length = int.from_bytes(packed[:8], "little")
    ordered = json.dumps(json.loads(packed[8 : 8 + length]), sort_keys=True, separators=(",", ":"))
    # Tensors start at a multiple of 8 bytes; the offsets count from there.
    head = ordered.encode().ljust(-(-len(ordered.encode()) // 8) * 8)
    with replacing(path) as partial:
        partial.write_bytes(len(head).to_bytes(8, "little") + head + packed[8 + length :])


def load_operator(path: str | Path) -> LinearOperator:
    """Reads an operator that `save_operator` wrote."""
    try:
        with safe_open(str(path), "pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} is not a readable operator file: {error}") from None
    if header.get("format") != _OPERATOR_FORMAT or header.get("operator") not in _OPERATORS:
        raise InputError(
            f"{path} holds {header.get('format', 'no operator')}: this version reads "
            f"{_OPERATOR_FORMAT}"
        )
    kind = _OPERATORS[header["operator"]]
    settings = json.loads(header["settings"])
    loaded: LinearOperator = kind(**tensors, **settings)
    return loaded


def _hash_settings(settings: dict[str, Any], shape: tuple[int, ...]) -> str:
    text = json.dumps([settings, list(shape)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
