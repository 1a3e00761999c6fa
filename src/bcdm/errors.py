"""Errors, each with one line that names the fix, and with what is at fault."""

import errno
from typing import ClassVar, Literal

__all__ = [
    "Cancelled",
    "DtypeError",
    "Fault",
    "InputError",
    "MachineError",
    "ModelError",
    "ShapeError",
    "blames_machine",
]

Fault = Literal["input", "model", "machine"]
"""What to look at: the data and settings given, the model, or memory, disk and network."""

# Not every system has all of them.
_MACHINE = {
    getattr(errno, name)
    for name in (
        *("ENOSPC", "EDQUOT", "EIO", "ENOMEM", "EMFILE", "ENFILE"),
        # Disks of a network, and such as were taken out.
        *("ESTALE", "ETIMEDOUT", "ENOTCONN", "EHOSTDOWN", "EHOSTUNREACH", "EREMOTEIO", "ENODEV"),
    )
    if hasattr(errno, name)
}


class InputError(ValueError):
    """An input that cannot be used; the message says what to change."""

    fault: ClassVar[Fault] = "input"


class ShapeError(InputError):
    """Shapes that do not fit together."""


class DtypeError(InputError):
    """Number types that do not fit together."""


class ModelError(InputError):
    """A model that cannot be used, or that fails on an input that is right."""

    fault: ClassVar[Fault] = "model"


class MachineError(RuntimeError):
    """Memory or disk that does not last: the same input may work elsewhere, or later."""

    fault: ClassVar[Fault] = "machine"


def blames_machine(error: OSError) -> bool:
    """Whether a file that cannot be read or written says something of the machine, not of itself.

    >>> blames_machine(OSError(errno.ENOSPC, "No space left on device"))
    True
    """
    return error.errno in _MACHINE


class Cancelled(Exception):  # noqa: N818
    """Raised by whoever listens to progress, to stop the work between two network calls."""
