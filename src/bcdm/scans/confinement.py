"""How a process limits itself, by what its system offers.

Linux limits memory and the time of the processor. macOS has the second only: its address space is
too large from the start. Windows has neither. What is missing is left to the checks of declared
sizes and to the clock on the wall, which `isolation` keeps everywhere.
"""

import contextlib
import signal
from pathlib import Path

from bcdm.errors import InputError
from bcdm.scans.complaints import refusal

__all__ = ["explain_end", "is_out_of_time", "limit_memory", "limit_work"]

# Ends of a process on Windows by a fault of its memory and the like have numbers from here on.
_WINDOWS_FAULT = 0xC0000000


def limit_memory(most: int) -> bool:
    """Limits the memory of this process, for good, and keeps crashes from being dumped.

    Returns:
        Whether the system does it.
    """
    try:
        import resource
    except ImportError:
        return False
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    except (AttributeError, OSError, ValueError):
        return False
    return True


def limit_work(seconds: float) -> bool:
    """Ends this process after so much time of the processor from now; zero takes the limit away.

    The default action of the signal ends the process even within a library.

    Returns:
        Whether the system does it.
    """
    if not hasattr(signal, "setitimer"):
        return False
    # Who starts this process may ignore the signal, which is inherited.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    return True


def is_out_of_time(code: int) -> bool:
    """Whether a process that ended with this code had used up its time of the processor."""
    return -code == getattr(signal, "SIGPROF", None)


def explain_end(path: Path, code: int) -> InputError:
    """The line for a reader that ended without an answer, by its exit code."""
    if is_out_of_time(code):
        return refusal(path, "takes too long to read, as damaged files do: export it anew")
    if -code == getattr(signal, "SIGKILL", None):
        return refusal(path, "takes more memory than there is: split it into fewer slices")
    if 0 < code < _WINDOWS_FAULT:
        return refusal(path, f"was not read, the reader ended with {code}: check the installation")
    return refusal(path, "is damaged so badly that its library crashes: export it anew")
