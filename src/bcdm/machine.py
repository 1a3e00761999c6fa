"""What this machine computes with: processor, devices, and the precision that suits them."""

import ctypes
import logging
import platform
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Literal

import torch

from bcdm.errors import InputError

__all__ = [
    "Precision",
    "autocast",
    "choose_precision",
    "describe_processor",
    "find_device",
    "keep_memory",
    "list_devices",
    "run_network",
]

Precision = Literal["auto", "float32", "bfloat16"]
"""What networks run in; "auto" is what suits the machine."""

_CPUINFO = Path("/proc/cpuinfo")
# What multiplies bfloat16 in hardware; without it torch converts every number there and back.
_FAST = ("amx_bf16", "avx512_bf16")
# Options of mallopt: map arrays up to 1 GB into the heap, and do not shrink it below 2 GB.
_MALLOC = ((-3, 1 << 30), (-1, (1 << 31) - 1))

_LOW: ContextVar[bool] = ContextVar("networks run in bfloat16", default=False)

_log = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def _read_processor() -> tuple[str, frozenset[str]]:
    """Name and features of the processor; no features where the system does not tell."""
    name, flags = platform.processor() or platform.machine(), frozenset[str]()
    try:
        lines = _CPUINFO.read_text().splitlines()
    except OSError:
        return name, flags
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            name = value.strip()
        elif key.strip() in ("flags", "Features"):
            flags = frozenset(value.split())
    return name, flags


def describe_processor() -> tuple[str, tuple[str, ...]]:
    """The processor's name, and which fast ways to multiply bfloat16 it has."""
    name, flags = _read_processor()
    return name, tuple(one for one in _FAST if one in flags)


def list_devices() -> list[str]:
    """Devices that torch can use here, the processor first."""
    devices = ["cpu"]
    devices += [f"cuda:{k}" for k in range(torch.cuda.device_count())]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    return devices


def find_device(name: str | torch.device) -> torch.device:
    """The device of a name; "auto" is the first beside the processor, if there is one.

    >>> find_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device([*list_devices(), "cpu"][1])
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"{name!r} is no device: choose among {list_devices()}") from None
    known = [torch.device(one) for one in list_devices()]
    same = [one.index for one in known if one.type == device.type]
    if not same or (device.index is not None and not {None, device.index} & set(same)):
        raise InputError(f"there is no {name} here: choose among {list_devices()}")
    return device


def choose_precision(precision: Precision, device: torch.device) -> Literal["float32", "bfloat16"]:
    """What the network computes in: "auto" is the fastest that the device has.

    On a processor that converts bfloat16 to float32 and back, which costs 2.5 times as much as
    float32 does, "bfloat16" is taken as asked, and said to be slow.
    """
    if device.type == "cpu":
        fast = bool(describe_processor()[1])
    else:
        fast = device.type == "cuda" and torch.cuda.is_bf16_supported()
    if precision == "auto":
        chosen: Literal["float32", "bfloat16"] = "bfloat16" if fast else "float32"
        _say_once(f"networks compute in {chosen}, the fastest that {device.type} has here")
        return chosen
    if precision == "bfloat16" and not fast:
        _say_once(f"{device.type} here has no fast bfloat16: float32 is faster")
    return precision


@lru_cache(maxsize=8)
def _say_once(line: str) -> None:
    _log.warning(line)


@contextmanager
def autocast(device: torch.device | str, precision: Precision) -> Iterator[None]:
    """Runs the networks of methods in a precision; float32 leaves them as they are.

    Only these, and nothing around them: operators and statistics are exact arithmetic, and matrix
    products of an operator in bfloat16 would be off by more than the noise of good data.
    """
    low = choose_precision(precision, torch.device(device)) == "bfloat16"
    before = _LOW.set(low)
    try:
        yield
    finally:
        _LOW.reset(before)


def run_network(device: torch.device) -> AbstractContextManager[object]:
    """What a network is called in: the precision of the `autocast` around, if there is one."""
    return torch.autocast(device.type, torch.bfloat16) if _LOW.get() else nullcontext()


def keep_memory() -> None:
    """From now on the process keeps memory that it has freed, where glibc manages it.

    Training frees every layer's arrays and asks for as much again: given back to the system each
    time, their pages cost a quarter of a step on a processor. Elsewhere nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if platform.libc_ver()[0] else None
    if mallopt is not None:
        for option, size in _MALLOC:
            mallopt(option, size)
