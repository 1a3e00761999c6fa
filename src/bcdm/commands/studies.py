"""Commands that train several networks and compare them, and the figures of trainings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bcdm.commands.echo import finish, name_command, say
from bcdm.commands.extras import require
from bcdm.commands.options import data_option, device_option, output_folder, work_option
from bcdm.commands.settings import SettingsFile

__all__ = ["curves", "paper", "study"]

# By the tables and figures at the end of a study.
NEEDED = ("matplotlib", "scipy", "skimage")


def _study_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What comparisons that train their networks have in common."""
    smoke = click.option("--smoke", is_flag=True, help="Tiny networks, three images: does it run?")
    weights = click.Path(path_type=Path, exists=True, resolve_path=True)
    fid = click.option(
        "--fid", type=weights, help="Weights of Inception, for a true FID (extra fid)."
    )
    where = device_option("auto")
    return data_option(output_folder(work_option("runs/tasks")(where(fid(smoke(command))))))


@click.command()
@click.option("--task", required=True, help="mri, deblur, sr, inpaint or denoise; or a file.")
@_study_options
def paper(
    task: str,
    data: Path | None,
    out: Path,
    work: Path,
    device: str,
    fid: Path | None,
    smoke: bool,
) -> None:
    """One task of the paper: train all networks for equal time, compare all methods alike.

    Writes results.json, table.md, table.tex, curves.png and panel.png; goes on where it stopped.
    """
    require(*NEEDED)
    from bcdm.comparison import study as bench

    path = bench.find_task(task)
    records = bench.run(
        path, data, out, work, name_command(), fid=fid, smoke=smoke, device=device, report=say
    )
    finish(records, None)


@click.command()
@click.argument("task", type=SettingsFile())
@_study_options
def study(
    task: Path,
    data: Path | None,
    out: Path,
    work: Path,
    device: str,
    fid: Path | None,
    smoke: bool,
) -> None:
    """Train several networks for equal time and compare them alike; goes on where it stopped.

    TASK is a file of settings, or one of those that `bcdm settings` lists. Writes results.json,
    table.md, table.tex, curves.png and panel.png.
    """
    require(*NEEDED)
    from bcdm.comparison import study as bench

    records = bench.run(
        task, data, out, work, name_command(), fid=fid, smoke=smoke, device=device, report=say
    )
    finish(records, None)


@click.command()
@click.argument(
    "logs",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="PNG to draw.",
)
def curves(logs: tuple[Path, ...], out: Path) -> None:
    """Draw what trainings learnt over their steps; LOGS are their log.jsonl files."""
    from bcdm.comparison.learning import name_log, plot_curves

    named = {name_log(log): log for log in logs}
    if len(named) < len(set(logs)):
        named = {str(log): log for log in logs}
    plot_curves(out, named)
    say(f"wrote {out}")
