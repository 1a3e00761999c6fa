"""How a command that fails ends: one line that says what is at fault, and an exit code."""

from bcdm.commands.extras import explain_missing
from bcdm.errors import Fault, InputError, MachineError, blames_machine

__all__ = ["EXIT_CODES", "INTERRUPTED", "describe_failure"]

INTERRUPTED = 130  # what a shell calls a process that ended by Ctrl-C

EXIT_CODES = """\
Exit codes: 0 done; 1 a check failed, or a benchmark missed what is required; 2 the command, the
input or the model cannot be used; 3 the machine is at fault (memory, disk), the same command may
work later or elsewhere; 130 interrupted. Errors are one line on stderr, below the usage where a
command is typed wrongly."""

_CODES: dict[Fault, int] = {"input": 2, "model": 2, "machine": 3}


def describe_failure(
    error: InputError | MachineError | OSError | MemoryError | ModuleNotFoundError,
    about: str = "",
) -> tuple[str, int]:
    """The line to print, and the exit code.

    Args:
        error: What was raised.
        about: Which of several inputs it is about.

    >>> describe_failure(InputError("no such slice"))
    ('error: no such slice', 2)
    >>> describe_failure(MemoryError())
    ('error of the machine: memory does not last', 3)
    """
    if isinstance(error, ModuleNotFoundError):
        return f"error: {explain_missing(error)}", 2
    fault = _find_fault(error)
    whose = "" if fault == "input" else f" of the {fault}"
    text = "memory does not last" if isinstance(error, MemoryError) else str(error)
    place = f"{about}: " if about else ""
    return f"error{whose}: {place}{text}", _CODES[fault]


def _find_fault(error: InputError | MachineError | OSError | MemoryError) -> Fault:
    if isinstance(error, InputError | MachineError):
        return error.fault
    if isinstance(error, MemoryError) or blames_machine(error):
        return "machine"
    return "input"
