"""`bcdm settings`: the files of settings that come with bcdm."""

import re
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from bcdm.commands.echo import answer
from bcdm.errors import InputError
from bcdm.shelf import find_settings, list_settings

__all__ = ["SettingsFile", "settings"]

_OTHER = re.compile(r"^(extends|base): *(\S+)$")


class SettingsFile(click.ParamType):  # type: ignore[type-arg]
    """A file of settings: a path, or a name that `bcdm settings` lists."""

    name = "settings"

    def convert(
        self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """Finds the file."""
        return find_settings(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names that begin so; files where none does."""
        names = [CompletionItem(name) for name in list_settings() if name.startswith(incomplete)]
        return names or [CompletionItem(incomplete, type="file")]


@click.command()
@click.argument("name", required=False, type=SettingsFile())
def settings(name: Path | None) -> None:
    """List the settings that come with bcdm, by the command that takes them; or show NAME.

    To change more than a few, write one to a file and train from that.
    """
    if name is not None:
        try:
            lines = name.read_text().splitlines()
        except UnicodeDecodeError:
            raise InputError(f"{name} holds no settings: it is no text in UTF-8") from None
        for line in lines:
            answer(_name_other(line, name))
        return
    files: dict[Path, str] = {}
    for known, file in list_settings().items():
        files.setdefault(file, known)  # the name of a model comes first
    told: dict[str, list[str]] = {}
    for file, known in files.items():
        if command := _find_command(file):
            told.setdefault(command, []).append(f"  {known:32} {_read_purpose(file)}")
    for command, lines in sorted(told.items()):
        answer(command)
        for line in sorted(lines):
            answer(line)


def _name_other(line: str, file: Path) -> str:
    """A line of a file; another that it names by its place is named as it is found anywhere."""
    found = _OTHER.match(line)
    if found is None:
        return line
    place = (file.parent / found[2]).resolve()
    known = next((name for name, other in list_settings().items() if other == place), found[2])
    return f"{found[1]}: {known}"


def _find_command(file: Path) -> str | None:
    """The command that takes a file; None for parts that other files are made of."""
    import yaml

    content = yaml.safe_load(file.read_text())
    if "training" in content:
        return "bcdm train"
    if "cases" in content:
        return "bcdm benchmark family"
    # What studies share extends others, too, but is none by itself.
    whole = "figure" in content or file.stem in ("task", "equal")
    is_study = "extends" in content and whole and not file.stem.startswith("common")
    return "bcdm study" if is_study else None


def _read_purpose(file: Path) -> str:
    """The comment in a file's first line, at most a line of the terminal."""
    first = file.read_text().partition("\n")[0]
    told = first.lstrip("# ") if first.startswith("#") else ""
    return told if len(told) <= 100 else f"{told[:97]}..."
