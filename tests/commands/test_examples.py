"""Every command shows an example, and every example is one of the options that there are."""

import shlex

import click
import pytest
from click.testing import CliRunner

from bcdm.commands import cli
from bcdm.commands.examples import EXAMPLES


def list_commands(group: click.Group, path: tuple[str, ...] = ()) -> dict[str, click.Command]:
    found: dict[str, click.Command] = {" ".join(path): group}
    for name, command in group.commands.items():
        here = (*path, name)
        if isinstance(command, click.Group):
            found |= list_commands(command, here)
        else:
            found[" ".join(here)] = command
    return found


def find_command(words: list[str]) -> click.Command:
    """What words after "bcdm" run: a command, or the one that an example of a group takes."""
    command: click.Command = cli
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.commands[word]
    return command


COMMANDS = list_commands(cli)


def test_every_command_has_one() -> None:
    assert sorted(EXAMPLES) == sorted(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_example_fits_the_command(name: str) -> None:
    example = EXAMPLES[name]
    shown = CliRunner().invoke(cli, [*name.split(), "--help"])
    assert example in shown.output
    words = shlex.split(example)
    assert words[: 1 + len(name.split())] == ["bcdm", *name.split()]
    command = find_command(words[1:])
    assert not isinstance(command, click.Group)
    known = {option for parameter in command.params for option in parameter.opts}
    given = [word for word in words if word.startswith("-")]
    assert set(given) <= known
    needed = [one for one in command.params if one.required and isinstance(one, click.Option)]
    assert all(set(one.opts) & set(given) for one in needed)
