"""What a measurement is called if nobody named it: a hash of its content."""

import dataclasses
import hashlib
from typing import Any

import torch
from torch import Tensor

from bcdm.measurement import Measurement
from bcdm.operators import LinearOperator

__all__ = ["identify"]


def identify(measurement: Measurement) -> list[str]:
    """Names each measurement of a batch by a hash of its data, operator and noise level.

    The same whatever stands beside it in the batch, on any device, in single or double precision
    of the same numbers, and whether its operator is shared or one of a batch. Measurements of equal
    content have equal names. The hash is of bits: where y is computed anew on machines that round
    differently, give names of your own (the number of an image, the hash of a file).

    >>> from bcdm.operators import Identity
    >>> both = Measurement(torch.tensor([[1.0], [2.0]]), Identity(), 0.1)
    >>> identify(both)[1] == identify(both.select(torch.tensor([1])))[0]
    True
    """
    operator, y = measurement.operator, measurement.y
    shared = _hash_value(operator) if operator.batch is None else None
    names = []
    for row, std in enumerate(measurement.std.expand(len(y)).tolist()):
        own = shared or _hash_value(operator.select(torch.tensor([row])))
        names.append(_digest(own, _hash_numbers(y[row]), repr(std)))
    return names


def _hash_value(value: Any) -> str:
    """Of an operator, what it is made of; of Python code, only that there is some."""
    if isinstance(value, Tensor):
        return _hash_numbers(value)
    if isinstance(value, LinearOperator):
        fields = [f.name for f in dataclasses.fields(value) if f.init]
        parts = [part for name in fields for part in (name, _hash_value(getattr(value, name)))]
        return _digest(type(value).__name__, *parts)
    if isinstance(value, (tuple, list)):
        return _digest("several", *map(_hash_value, value))
    plain = value is None or isinstance(value, (bool, int, float, str))
    return _digest(repr(value) if plain else type(value).__name__)


def _hash_numbers(numbers: Tensor) -> str:
    precise = torch.complex128 if numbers.is_complex() else torch.float64
    # Adding zero turns -0 into 0. A mask (H, W) and a batch of one mask (1, 1, H, W) are the same.
    plain = (numbers.detach().cpu().resolve_conj().to(precise) + 0).squeeze().contiguous()
    content = plain.numpy()
    return _digest(str(content.shape), content.tobytes())


def _digest(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else part.encode()
        # With its length: no two lists of parts read alike.
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()
