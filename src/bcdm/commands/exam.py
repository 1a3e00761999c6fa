"""Exams of what comes from elsewhere: `bcdm benchmark mixture` and `bcdm benchmark deepinv`."""

from pathlib import Path

import click

from bcdm.commands.echo import finish, name_command, say
from bcdm.commands.extras import require
from bcdm.commands.options import device_option, exam_options, records_option
from bcdm.errors import InputError

__all__ = ["deepinv", "mixture"]


@click.command()
@click.option("--full", is_flag=True, help="Also 800 dimensions.")
@click.option(
    "--method",
    "paths",
    multiple=True,
    metavar="PACKAGE.MODULE:NAME",
    help="Examine this method instead: called with an unconditional denoiser, it gives a method.",
)
@click.option("--weight", "weights", multiple=True, type=float, help="Second argument of --method.")
@click.option(
    "--sampler",
    metavar="PACKAGE.MODULE:NAME",
    help="Of --method: called without arguments; left out: the better of ODE and SDE.",
)
@click.option("--calls", default=100, show_default=True, help="Per sample, of --method.")
@click.option("--case", "cases", multiple=True, metavar="D/DY", help="Such as 8/1; left out: all.")
@click.option("--add", is_flag=True, help="Keep what the file of records says of other cases.")
@exam_options
def mixture(
    path: Path | None,
    smoke: bool,
    full: bool,
    paths: tuple[str, ...],
    weights: tuple[float, ...],
    sampler: str | None,
    calls: int,
    cases: tuple[str, ...],
    add: bool,
) -> None:
    """Distance to the exact posterior of Gaussian mixtures: ours, and guided methods.

    A method from elsewhere takes the same exam; of several weights the best counts:

    bcdm benchmark mixture --method mypackage.methods:Mine --weight 0.5 --weight 1 --case 8/2
    """
    from bcdm.assessment.records import keep_others
    from bcdm.benchmark import mixture as bench
    from bcdm.benchmark.instances import CASES, FULL_CASES
    from bcdm.imports import find_object

    known = {"/".join(map(str, case)): case for case in FULL_CASES}
    if unknown := [name for name in cases if name not in known]:
        raise InputError(f"{unknown[0]!r} is no case: choose among {', '.join(known)}")
    chosen = [known[name] for name in cases] or (FULL_CASES if full else CASES)
    if paths:
        step = None if sampler is None else find_object(sampler)()
        others = [
            bench.Contestant(name.split(":")[-1], find_object(name), weights, step, calls)
            for name in paths
        ]
        records = bench.examine(others, name_command(), cases=chosen, smoke=smoke, report=say)
    elif weights or sampler:
        raise InputError("--weight and --sampler are for --method: give one")
    else:
        records = bench.run(name_command(), cases=chosen, smoke=smoke, report=say)
    if add and path is not None:
        records = keep_others(path, records, "d/dy") + records
    finish(records, path)


@click.command()
@click.option("--only", multiple=True, metavar="PHYSICS", help="Such as MRI; left out: all.")
@click.option(
    "--fallback", is_flag=True, help="Reconstruct by MMPS, too, what the model was not made for."
)
@click.option("--add", is_flag=True, help="Keep what the file of records says of others.")
@device_option()
@records_option
def deepinv(
    only: tuple[str, ...], fallback: bool, add: bool, device: str, path: Path | None
) -> None:
    """Physics of deepinv as operators: exact beside dense, time of a call, PSNR beside linear.

    It needs deepinv, which needs a newer torch than the package index has for processors alone:
    `make test-deepinv` makes an environment of its own.
    """
    require("deepinv", "PIL")
    from bcdm.assessment.records import keep_others
    from bcdm.benchmark import physics as bench

    records = bench.run(name_command(), only=only, fallback=fallback, device=device, report=say)
    if add and path is not None:
        records = keep_others(path, records, "physics") + records
    finish(records, path, bench.KEYS, bench.COLUMNS)
