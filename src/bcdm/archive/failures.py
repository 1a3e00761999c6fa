"""What stops a whole archive, on its way from a worker to who started it."""

from typing import Any

from bcdm.errors import InputError, MachineError, ModelError, blames_machine

__all__ = ["describe_error", "to_error"]


def describe_error(error: Exception) -> dict[str, str]:
    """An error of a worker, ready for JSON.

    >>> describe_error(InputError("no model"))
    {'error': 'no model', 'fault': 'input'}
    """
    from bcdm.reconstruction.drawing import is_memory  # here, because who listens needs no torch

    if isinstance(error, InputError | MachineError):
        return {"error": str(error), "fault": error.fault}
    if is_memory(error):
        return {"error": "memory does not last", "fault": "machine"}
    line = " ".join(str(error).split())[:300]
    if isinstance(error, OSError):
        return {"error": line, "fault": "machine" if blames_machine(error) else "input"}
    return {"error": f"{type(error).__name__}: {line}", "fault": "input"}


def to_error(message: dict[str, Any]) -> Exception:
    """The error that a worker described."""
    kinds = {"machine": MachineError, "model": ModelError}
    return kinds.get(message["fault"], InputError)(message["error"])
