"""The entry point: one group of all commands, and how each way to fail ends."""

import io
import sys

import click

from bcdm import __version__
from bcdm.commands.archive import archive
from bcdm.commands.benchmarks import benchmark
from bcdm.commands.data import data
from bcdm.commands.doctor import doctor, models
from bcdm.commands.echo import listen, say
from bcdm.commands.exam import deepinv, mixture
from bcdm.commands.examples import show_examples
from bcdm.commands.failures import EXIT_CODES, INTERRUPTED, describe_failure
from bcdm.commands.inputs import inspect
from bcdm.commands.judging import calls, trust
from bcdm.commands.models import calibrate, evaluate, prepare, train
from bcdm.commands.reconstruct import demo, reconstruct
from bcdm.commands.results import feature, verify
from bcdm.commands.service import serve
from bcdm.commands.settings import settings
from bcdm.commands.specialise import specialise
from bcdm.commands.studies import curves, paper, study
from bcdm.errors import InputError, MachineError

__all__ = ["cli", "main"]


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
@click.version_option(__version__, prog_name="bcdm")
def cli() -> None:
    """Reconstruct images from measurements.

    Posterior samples, how sure each pixel is, and what speaks against it.
    """


for _command in (calls, deepinv, mixture, paper, trust):
    benchmark.add_command(_command)
for _command in (reconstruct, inspect, verify, feature, demo, prepare, train, specialise):
    cli.add_command(_command)
for _command in (evaluate, calibrate, archive, serve, benchmark, study, curves, data):
    cli.add_command(_command)

for _command in (doctor, models, settings):
    cli.add_command(_command)
show_examples(cli)


def main() -> None:
    """Runs the command line; what users or machines can cause ends in one line, no traceback."""
    listen()
    for stream in (sys.stdout, sys.stderr):
        # What the terminal's own encoding lacks is shown by its code.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli(standalone_mode=False)
    except (InputError, MachineError, OSError, MemoryError, ModuleNotFoundError) as error:
        line, code = describe_failure(error)
        say(line)
        raise SystemExit(code) from None
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
