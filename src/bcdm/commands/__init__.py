"""The command line, one file a group. Heavy packages are imported inside the commands."""

from bcdm.commands.entry import cli, main

__all__ = ["cli", "main"]
