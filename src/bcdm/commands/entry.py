"""The entry point: one group of all commands, and how each way to fail ends."""

import io
import sys

import click

from bcdm import __version__
from bcdm.commands.benchmarks import benchmark
from bcdm.commands.echo import say
from bcdm.commands.extras import explain_missing
from bcdm.commands.inputs import inspect
from bcdm.commands.models import calibrate, evaluate, train
from bcdm.commands.reconstruct import INTERRUPTED, demo, reconstruct
from bcdm.commands.results import feature, verify
from bcdm.commands.studies import curves, paper, study
from bcdm.errors import InputError, MachineError

__all__ = ["cli", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="bcdm")
def cli() -> None:
    """Reconstruct images from measurements by sampling the true posterior."""


benchmark.add_command(paper)
for _command in (reconstruct, inspect, verify, feature, demo, train, evaluate, calibrate):
    cli.add_command(_command)
for _command in (benchmark, study, curves):
    cli.add_command(_command)


def main() -> None:
    """Runs the command line; an unusable input is one line and exit code 2, Ctrl-C one and 130."""
    for stream in (sys.stdout, sys.stderr):
        # What the terminal's own encoding lacks is shown by its code.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli(standalone_mode=False)
    except (InputError, MachineError, OSError) as error:
        say(f"error: {error}")
        raise SystemExit(2) from None
    except ModuleNotFoundError as error:
        say(f"error: {explain_missing(error)}")
        raise SystemExit(2) from None
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        for line in shown.getvalue().rstrip().split("\n"):
            say(line)
        raise SystemExit(error.exit_code) from None
    except (click.Abort, KeyboardInterrupt):
        say("interrupted")
        raise SystemExit(INTERRUPTED) from None
    raise SystemExit(code)
