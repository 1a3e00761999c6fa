"""The former place of the command line, kept for scripts that an earlier version installed."""

from bcdm.commands import cli, main

__all__ = ["cli", "main"]
