"""The tool that changes the code: every kind of change, named by what it changes."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "mutation"))

from mutants import apply, list_mutants  # noqa: E402
from rooms import ROOMS  # noqa: E402

SOURCE = '''
"""Text."""
LIMIT: float = 0.5
__all__ = ["f"]


def f(a: int | None, b=2):
    """Text that says 1 + 1."""
    assert a > 0
    if not a or b < 3:
        raise ValueError(f"a is {a + 1}")
    b += 1
    print(a, end="")
    return a.sqrt() + b**2
'''


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("LIMIT: float = 0.5", "LIMIT: float = 1.0"),
        ("b=2", "b=3"),
        ("if not a or b < 3", "if a or b < 3"),
        ("if not a or b < 3", "if not a and b < 3"),
        ("if not a or b < 3", "if not a or b <= 3"),
        ("if not a or b < 3", "if not a or b < 4"),
        ("raise ValueError(f'a is {a + 1}')", "pass"),
        ("b += 1", "pass"),
        ("b += 1", "b += 2"),
        ("print(a, end='')", "pass"),
        ("print(a, end='')", "print(a)"),
        ("return a.sqrt() + b ** 2", "return None"),
        ("return a.sqrt() + b ** 2", "return a.sqrt() - b ** 2"),
        ("return a.sqrt() + b ** 2", "return a + b ** 2"),
        ("return a.sqrt() + b ** 2", "return a.sqrt() + b * 2"),
        ("return a.sqrt() + b ** 2", "return a.sqrt() + b ** 3"),
    ],
)
def test_one_thing_is_changed_at_a_time(change: str, found: str) -> None:
    plain = ast.unparse(ast.parse(SOURCE))
    changed = [ast.unparse(apply(SOURCE, m.index)) for m in list_mutants(SOURCE, "a.py")]
    assert changed.count(plain.replace(change, found, 1)) == 1
    # These are all: texts, types, asserts and lists of names are left alone.
    assert len(changed) == 16


def test_names_do_not_depend_on_lines_and_are_never_shared() -> None:
    mutants = list_mutants(SOURCE, "a.py")
    keys = [mutant.key for mutant in mutants]
    assert "a.py f: b < 3 -> b <= 3 in if not a or b < 3:" in keys
    assert len({*keys}) == len(keys)
    assert [mutant.key for mutant in list_mutants("\n\n" + SOURCE, "a.py")] == keys
    assert [mutant.inside for mutant in mutants[:2]] == [False, False]
    assert all(mutant.inside for mutant in mutants[2:])


@pytest.mark.parametrize("name", ROOMS)
def test_the_rooms_are_there(name: str) -> None:
    room = ROOMS[name]
    assert all((ROOT / "src/bcdm" / part).exists() for part in room.sources)
    assert all((ROOT / "tests" / part).exists() for part in room.tests)
