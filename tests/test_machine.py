import platform
import subprocess
import sys

import pytest

CODE = """
import resource, sys
import torch
from bcdm.machine import keep_memory
if sys.argv[1] == "keep":
    keep_memory()
for _ in range(60):
    torch.ones(10_000_000)  # 40 MB
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_memory_that_is_kept_is_not_asked_for_again() -> None:
    """Page faults instead of time: 60 arrays of 40 MB are 590,000 pages if each is mapped anew."""
    faults = {
        word: int(subprocess.check_output([sys.executable, "-c", CODE, word]))
        for word in ("keep", "give")
    }
    assert faults["keep"] < faults["give"] / 3
