"""How any library's complaint about a file becomes one line that names the file."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bcdm.errors import InputError, MachineError, blames_machine

__all__ = ["library", "refusal", "show"]

_LONGEST_REASON = 160
_LONGEST_LINE = 600


def refusal(path: Path, text: str) -> InputError:
    r"""The error to raise: one line that names the file, says what is wrong and what to do.

    >>> refusal(Path("a\nb.png"), "is empty: export it anew")
    InputError('a b.png is empty: export it anew')
    """
    return InputError(show(f"{path} {text}")[:_LONGEST_LINE])


def show(text: object) -> str:
    r"""One line that any terminal can show: names of files may hold escapes, or not be UTF-8.

    >>> show(Path("a\x1b[31m.png"))
    'a?[31m.png'
    """
    line = " ".join(str(text).split())
    return "".join(c if c.isprintable() else "?" for c in line)


@contextmanager
def library(path: Path, deed: str = "read", fix: str = "export it anew") -> Iterator[None]:
    """Turns whatever a library raises on a damaged file into one line.

    Only calls into the library belong inside, so that a fault of our own is never blamed on the
    file. Warnings are left alone: their filters belong to the whole process, of which this may be
    one of many threads. The process that reads for us is silent as a whole.
    """
    try:
        yield
    except (InputError, MachineError, MemoryError):
        raise
    except ImportError as error:
        text = f"needs the package {error.name}: pip install 'bcdm[formats]'"
        raise refusal(path, text) from error
    except Exception as error:
        if deed == "read" and isinstance(error, OSError) and _blames_disk(error):
            text = f"{path} cannot be read ({error.strerror}): check the disk that it lies on"
            raise MachineError(show(text)) from error
        words = " ".join(f"{error}".split()) or type(error).__name__
        if len(words) > _LONGEST_REASON:
            words = words[:_LONGEST_REASON] + "..."
        raise refusal(path, f"cannot be {deed} ({words}): {fix}") from error


def _blames_disk(error: OSError) -> bool:
    """Memory may be short because a file declares too much; a disk has no such excuse."""
    return blames_machine(error) and error.errno != errno.ENOMEM
