"""The process that `isolation` starts: reads one file and answers on its standard output."""

import json
import os
import sys
from pathlib import Path

from bcdm.scans.formats import perform
from bcdm.scans.isolation import answer, confine

__all__ = ["main"]


def main() -> None:
    """Answers the one request given as the argument."""
    verb, format, name, key = json.loads(sys.argv[1])
    # Libraries may print; the answer goes where nothing else does.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    path = Path(name)
    confine(path)
    answer(out, path, lambda: perform(verb, format, path, key))
    # A damaged file may leave a library in a state that crashes at exit, after all went well.
    os._exit(0)


if __name__ == "__main__":
    main()
