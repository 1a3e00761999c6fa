"""Errors, each with one line that names the fix, and with what is at fault."""

from typing import ClassVar, Literal

__all__ = [
    "Cancelled",
    "DtypeError",
    "Fault",
    "InputError",
    "MachineError",
    "ModelError",
    "ShapeError",
]

Fault = Literal["input", "model", "machine"]
"""What to look at: the data and settings given, the model, or memory, disk and network."""


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


class Cancelled(Exception):  # noqa: N818
    """Raised by whoever listens to progress, to stop the work between two network calls."""
