"""Committed records can be made again: their commands name no place of one machine."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORDS = sorted([*ROOT.glob("benchmarks/*.json"), *ROOT.glob("experiments/**/*.json")])


def test_there_are_some() -> None:
    assert len(RECORDS) > 20


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_name_no_absolute_path(path: Path) -> None:
    for command in set(re.findall(r'"command": "([^"]*)"', path.read_text())):
        assert not [word for word in command.split() if word.startswith("/")], command
