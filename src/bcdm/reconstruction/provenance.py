"""Where a result comes from: hashes, versions and settings, enough to make it again."""

import hashlib
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bcdm import __version__
from bcdm.checkpoint import Model, load_operator
from bcdm.checkpoint.operators import stream_operator
from bcdm.errors import InputError
from bcdm.files import count_bytes, hash_content, hash_path
from bcdm.operators import LinearOperator
from bcdm.spool import SMALL, each
from bcdm.text import printable

__all__ = [
    "FIXED",
    "NOISE",
    "OPERATOR",
    "SAMPLES",
    "collect",
    "hash_array",
    "hash_content",
    "hash_operator",
    "hash_result",
    "name_slice",
    "seal",
]

# What fixes a result; the rest tells who made it.
FIXED = ("model", "input", "operator", "measurement", "settings")
# How samples are keyed; results of earlier versions do not say, and are keyed by numbers alone.
NOISE = "by seed, item and sample"
SAMPLES, OPERATOR = "samples.zarr", "operator.safetensors"


def name_slice(provenance: Mapping[str, Any], number: int) -> str:
    """The item that a slice is, for its noise: by what its file holds, wherever it lies.

    Not by the measurement in the model's units, whose last digits depend on the machine.
    """
    return f"{provenance['input']['sha256']}/{number}"


def hash_operator(operator: LinearOperator) -> str:
    """SHA-256 of an operator's kind, settings and tensors."""
    digest = hashlib.sha256(type(operator).__name__.encode())
    digest.update(json.dumps(operator.settings(), sort_keys=True).encode())
    for name, tensor in sorted(operator.tensors().items()):
        digest.update(name.encode())
        for block in _split(tensor.contiguous().cpu().numpy()):
            digest.update(block)
    return digest.hexdigest()


def hash_array(array: np.ndarray) -> str:
    """SHA-256 of an array's numbers, shape and type."""
    digest = hashlib.sha256(f"{array.dtype} {array.shape}".encode())
    for block in _split(array):
        digest.update(block)
    return digest.hexdigest()


def _split(array: np.ndarray) -> Iterator[bytes]:
    """The bytes of an array; of a volume, a slice at a time."""
    for part in each(array) if array.ndim > 2 else [array]:
        yield part.tobytes()


def hash_result(path: Path) -> str:
    """SHA-256 of a result; of samples and operator what they hold, because their bits may vary."""
    if path.name == OPERATOR and path.stat().st_size > SMALL:
        return _hash_large_operator(path)
    if path.name == OPERATOR:
        return hash_operator(load_operator(path))
    return _hash_samples(path) if path.name == SAMPLES else hash_path(path)


def _hash_large_operator(path: Path) -> str:
    """What `hash_operator` gives, without all of it in memory."""
    kind, settings, tensors = stream_operator(path)
    digest = hashlib.sha256(kind.encode())
    digest.update(json.dumps(settings, sort_keys=True).encode())
    for name, blocks in sorted(tensors.items()):
        digest.update(name.encode())
        for block in blocks:
            digest.update(block)
    return digest.hexdigest()


def _hash_samples(path: Path) -> str:
    import zarr
    from zarr.errors import BaseZarrError

    digest = hashlib.sha256()
    try:
        store: Any = zarr.open_array(path, mode="r")
        for number in range(store.shape[0]):
            digest.update(hash_array(np.asarray(store[number])).encode())
    except (BaseZarrError, OSError, ValueError, KeyError):
        raise InputError(f"{path} is damaged") from None
    return digest.hexdigest()


def seal(content: Mapping[str, Any], folder: Path, files: Sequence[Path]) -> dict[str, Any]:
    """Adds hashes and sizes of files in a folder, and a hash of all that is said then."""
    names = {path.relative_to(folder).as_posix(): path for path in files}
    hashes = {name: hash_result(path) for name, path in names.items()}
    sizes = {name: count_bytes(path) for name, path in names.items()}
    whole = {**content, "files": hashes, "sizes": sizes}
    return {**whole, "seal": hash_content(whole)}


def collect(
    model: Model,
    source: Path,
    operator: LinearOperator,
    y: np.ndarray,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """All that a result depends on; `id` is the hash of what fixes its bits on one machine."""
    fixed = {
        "model": {"name": model.facts["name"], "hashes": model.facts["hashes"]},
        "input": {"name": printable(source.name), "sha256": hash_path(source)},
        "operator": {"kind": type(operator).__name__, "sha256": hash_operator(operator)},
        "measurement": {"shape": list(y.shape), "sha256": hash_array(y)},
        "settings": dict(settings),
    }
    made_by = {
        "bcdm": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "processor": platform.machine(),
        "threads": torch.get_num_threads(),
        "device": str(model.device),
    }
    return {"id": hash_content(fixed), **fixed, "made by": made_by}
