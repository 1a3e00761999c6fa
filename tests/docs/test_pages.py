"""README and docs say what is there: names, commands, pages."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import click
import pytest

import bcdm
from bcdm.commands import cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Decisions tell of their day; names may have moved since.
CURRENT = [page for page in PAGES if page.parent.name != "decisions"]


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_exist(page: Path) -> None:
    for name in re.findall(r"`(bcdm(?:\.\w+)+)(?:\(\))?`", page.read_text()):
        found, rest = import_module("bcdm"), name.split(".")[1:]
        for part in rest:
            if not hasattr(found, part):  # a room that was not imported yet
                import_module(f"{found.__name__}.{part}")
            found = getattr(found, part)


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_their_options_exist(page: Path) -> None:
    text = page.read_text().replace("\\\n", " ")
    fences = "\n".join(re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    shown = re.findall(r"^(?:\$ )?bcdm ([a-z][^#\n]*)", fences, re.MULTILINE)
    for words in [*shown, *re.findall(r"`bcdm ([a-z][^`\n]*)`", text)]:
        command: click.Command = cli
        rest = words.split()
        while rest and isinstance(command, click.Group):
            assert rest[0] in command.commands, f"bcdm {words}"
            command = command.commands[rest.pop(0)]
        known = {name for option in command.params for name in option.opts}
        given = {word for word in rest if re.fullmatch(r"--[a-z-]+|-[a-z]", word)} - {"--help"}
        assert given <= known, f"bcdm {words}: {given - known}"


def list_commands(command: click.Command, words: str) -> list[str]:
    if not isinstance(command, click.Group):
        return [words]
    inside = command.commands.items()
    return [found for name, one in inside for found in list_commands(one, f"{words} {name}")]


def test_every_command_is_listed() -> None:
    text = (ROOT / "docs/commands.md").read_text()
    missing = [
        words
        for words in list_commands(cli, "bcdm")
        if not re.search(rf"`{re.escape(words)}[ `]", text)
    ]
    assert missing == []


def test_every_page_is_in_the_navigation() -> None:
    listed = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES[1:]]
    assert [page for page in pages if "decisions/" not in page and page not in listed] == []


def test_every_room_is_in_the_reference() -> None:
    text = (ROOT / "docs/api/README.md").read_text()
    rooms = [path.parent.name for path in (ROOT / "src/bcdm").glob("*/__init__.py")]
    assert [room for room in rooms if f"`{room}`" not in text] == []


# Rooms whose names have no page, and why.
UNLISTED = {
    "commands": "the command line: docs/commands.md describes it",
    "machine": "choices that commands make; settings and options name them",
}


def list_public() -> list[str]:
    """Names that the rooms which `import bcdm` reaches give out, by their paths."""
    rooms = {path.parent.name for path in (ROOT / "src/bcdm").glob("*/__init__.py")}
    rooms |= {name for name in dir(bcdm) if name in bcdm._ROOMS}
    return [
        f"bcdm.{room}.{name}"
        for room in sorted(rooms - set(UNLISTED))
        for name in getattr(import_module(f"bcdm.{room}"), "__all__", ())
    ]


def is_described(path: str) -> bool:
    """Whether a name has a docstring; the site shows no other."""
    room, name = path.rsplit(".", 1)
    found = getattr(import_module(room), name)
    if isinstance(found, type) or inspect.isfunction(found):
        return bool(found.__doc__)
    # That of a value is the text below it.
    home = ROOT / "src" / room.replace(".", "/")
    files = home.glob("*.py") if home.is_dir() else [home.with_suffix(".py")]
    text = "\n".join(file.read_text() for file in files)
    return re.search(rf'^{name}\b.* = .*(?:\n[ )}}\]].*)*\nr?"""', text, re.MULTILINE) is not None


def test_every_public_name_has_a_page() -> None:
    pages = (ROOT / "docs/api").glob("*.md")
    shown = {path for page in pages for path in re.findall(r"^::: (\S+)", page.read_text(), re.M)}
    names = list_public()
    assert len(names) > 180
    # A room is shown with all it gives out, or name by name.
    missing = [name for name in names if not {name, name.rsplit(".", 1)[0]} & shown]
    assert missing == []
    assert [name for name in names if not is_described(name)] == []


def test_the_readme_takes_two_minutes() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) < 900
    assert text.count("![") == 1
