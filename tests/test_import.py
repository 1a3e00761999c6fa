"""`import bcdm` reaches every room, and costs next to nothing until one is used."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import bcdm

# Each is in a process of its own: what one room imports must not hide that another is missing.
# They share torch, which takes seconds to import.
REACH = """
import os, sys, torch
wrong = []
for room in sys.argv[1:]:
    child = os.fork()
    if not child:
        code = 1
        try:
            import bcdm
            code = 0 if getattr(bcdm, room).__name__ == "bcdm." + room else 1
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        wrong.append(room)
print(wrong)
"""
LIST = "import json, sys; print(json.dumps(sorted(sys.modules)))"
HEAVY = {"torch", "numpy", "scipy", "pydantic", "yaml", "PIL", "h5py", "ray", "matplotlib"}
# The audience of a room are those who import it; the command line is reached by its command.
PRIVATE = {"commands"}


def run(code: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()[-1]


def list_rooms() -> set[str]:
    home = Path(bcdm.__file__).parent
    return {path.parent.name for path in home.glob("*/__init__.py")} - PRIVATE


def test_every_room_is_listed() -> None:
    assert list_rooms() <= set(dir(bcdm))
    assert {"conditioning", "errors", "machine", "measurement", "tensors"} <= set(dir(bcdm))


def test_every_name_is_reached_in_a_fresh_process() -> None:
    rooms = [name for name in dir(bcdm) if name in bcdm._ROOMS]
    assert run(REACH, *rooms) == "[]"


@pytest.mark.parametrize(
    "code",
    [
        "import bcdm; dir(bcdm)",
        "import bcdm.cli, sys; sys.argv = ['bcdm', '--help']\n"
        "try: bcdm.cli.main()\nexcept SystemExit: pass",
    ],
    ids=["import", "help"],
)
def test_nothing_heavy_is_imported_before_it_is_used(code: str) -> None:
    found = {name.split(".")[0] for name in json.loads(run(f"{code}\n{LIST}"))}
    assert "bcdm" in found
    assert found & HEAVY == set()


def test_an_import_is_the_package_alone() -> None:
    found = json.loads(run(f"import bcdm\n{LIST}"))
    assert [name for name in found if name.startswith("bcdm")] == ["bcdm"]
