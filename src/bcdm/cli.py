"""The command line. Heavy packages are imported inside the commands, so that help is instant."""

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bcdm import __version__
from bcdm.commands import COMMANDS, INTERRUPTED
from bcdm.errors import InputError

if TYPE_CHECKING:
    from bcdm.assessment.records import Column, Record

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="bcdm")
def cli() -> None:
    """Reconstruct images from measurements by sampling the true posterior."""


@cli.group()
def benchmark() -> None:
    """Measure the library; each command writes records and fails where a requirement is missed."""


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every benchmark has."""
    json = click.option(
        "--json",
        "path",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write records here.",
    )
    smoke = click.option("--smoke", is_flag=True, help="A scaled-down run of seconds.")
    return json(smoke(command))


@benchmark.command()
@_options
def moments(path: Path | None, smoke: bool) -> None:
    """Exact mean and variance error of every sampler on Gaussian posteriors."""
    from bcdm.benchmark import moments as bench

    _finish(bench.run(_command(), smoke=smoke, report=_say), path)


@benchmark.command()
@click.option("--full", is_flag=True, help="Also 800 dimensions.")
@_options
def mixture(path: Path | None, smoke: bool, full: bool) -> None:
    """Distance to the exact posterior of Gaussian mixtures: BCDM, PiGDM, DPS, DMPS."""
    from bcdm.benchmark import mixture as bench

    _finish(bench.run(_command(), full=full, smoke=smoke, report=_say), path)


@benchmark.command()
@_options
def learned(path: Path | None, smoke: bool) -> None:
    """The mixtures again, by one network trained for all their operators and noise levels."""
    from bcdm.benchmark import learned as bench

    _finish(bench.run(_command(), smoke=smoke, report=_say), path)


@benchmark.command()
@_options
def overhead(path: Path | None, smoke: bool) -> None:
    """What a sampler step and a solve cost beside the bare network and the bare FFT."""
    from bcdm.benchmark import overhead as bench

    _finish(bench.run(_command(), smoke=smoke, report=_say), path)


def _work_option(folder: str) -> Callable[..., Any]:
    """Where a long command keeps what is done."""
    kind = click.Path(path_type=Path, file_okay=False)
    said = "Where finished parts are kept."
    return click.option("--work", type=kind, default=Path(folder), show_default=True, help=said)


def _study_options(command: Callable[..., None]) -> Callable[..., None]:
    """What comparisons that train their networks have in common."""
    for option in (
        click.option("--smoke", is_flag=True, help="Tiny networks, three images: does it run?"),
        click.option("--fid", type=click.Path(path_type=Path, exists=True, resolve_path=True),
                     help="Weights of Inception, for a true FID (extra fid)."),
        _work_option("runs/tasks"),
        click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True),
        click.option("--data", type=click.Path(path_type=Path),
                     help="Data folder; default BCDM_DATA."),
    ):  # fmt: skip
        command = option(command)
    return command


@benchmark.command()
@click.option("--task", required=True, help="mri, deblur, sr, inpaint or denoise; or a file.")
@_study_options
def paper(task: str, smoke: bool, **given: Any) -> None:
    """One task of the paper: train all networks for equal time, compare all methods alike.

    Writes results.json, table.md, table.tex, curves.png and panel.png; goes on where it stopped.
    """
    from bcdm.comparison import study as bench

    path = bench.find_task(task)
    _finish(bench.run(path, command=_command(), smoke=smoke, report=_say, **given), None)


@benchmark.command()
@click.argument("comparison", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--data", type=click.Path(path_type=Path), help="Data folder; default BCDM_DATA.")
@_work_option("runs/families")
@click.option("--json", "path", type=click.Path(path_type=Path, dir_okay=False))
def family(comparison: Path, path: Path | None, **given: Any) -> None:
    """A model of a family on operators it never saw, beside a rival and specialists."""
    from bcdm.benchmark import family as bench

    records = bench.run(comparison, command=_command(), report=_say, **given)
    _finish(records, path, bench.KEYS, bench.COLUMNS)


@benchmark.command()
@click.argument("model")
@click.option("--data", type=click.Path(path_type=Path), help="Data folder; default BCDM_DATA.")
@click.option("--limit", default=80, show_default=True, help="Test images of each defect.")
@click.option("--intervals", default=60, show_default=True, help="Images for coverage.")
@click.option("--calls", default=20, show_default=True, help="Network calls per sample.")
@click.option("--precision", type=click.Choice(["float32", "bfloat16"]), default="float32")
@_work_option("runs/trust")
@click.option("--json", "path", type=click.Path(path_type=Path, dir_okay=False))
def trust(model: str, path: Path | None, **given: Any) -> None:
    """The trust card on test images: false alarms, what it notices, and intervals that hold."""
    from bcdm.benchmark import trust as bench

    _finish(bench.run(model, command=_command(), report=_say, **given), path)


@benchmark.command()
@click.argument("model")
@click.option("--data", type=click.Path(path_type=Path), help="Data folder; default BCDM_DATA.")
@click.option("--limit", default=100, show_default=True, help="Measurements of a kind.")
@click.option("--together", default=26, show_default=True, help="Images of a volume.")
@click.option("--json", "path", type=click.Path(path_type=Path, dir_okay=False))
def noise(model: str, path: Path | None, **given: Any) -> None:
    """Noise levels read from measurements of a model's test images, beside the true ones."""
    from bcdm.benchmark import noise as bench

    _finish(bench.run(model, command=_command(), report=_say, **given), path, bench.KEYS,
            bench.COLUMNS)  # fmt: skip


@cli.command()
@click.argument("config", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--data", type=click.Path(path_type=Path), help="Data folder; default BCDM_DATA.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Default runs/NAME.")
@click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Change a setting.")
@click.option("--operator", type=click.Path(path_type=Path), metavar="FILE",
              help="A stored operator, instead of what CONFIG says.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print plan, parameters, memory and ETA only.")
def train(
    config: Path,
    data: Path | None,
    out: Path | None,
    overrides: tuple[str, ...],
    operator: Path | None,
    dry_run: bool,
) -> None:
    """Train a model from one YAML file; the same command goes on after any interruption.

    To train on a folder of pictures of your own, start from a file in experiments/ and name it:

    bcdm train experiments/faces/inpaint64.yaml --set data.path=/my/pictures --set name=mine

    With several processes: torchrun --nproc-per-node 2 -m bcdm train CONFIG.
    """
    from bcdm.checkpoint import load_operator
    from bcdm.training import run

    given = load_operator(operator) if operator is not None else None
    run.run(config, overrides, data, out, dry_run=dry_run, report=_say, operator=given)


@benchmark.command()
@click.argument("model")
@click.option("--data", type=click.Path(path_type=Path), help="Data folder; default BCDM_DATA.")
@click.option("--calls", default="5,10,20,50,100,500", show_default=True, help="Numbers to try.")
@click.option("--limit", default=32, show_default=True, help="Images, evenly spaced.")
@click.option("--samples", default=20, show_default=True)
@click.option("--churn", default=1.0, show_default=True)
@click.option("--operator", metavar="YAML", help="Measure with this instead of the model's own.")
@click.option("--noise-std", type=float)
@click.option("--precision", type=click.Choice(["float32", "bfloat16"]), default="float32")
@click.option("--json", "path", type=click.Path(path_type=Path, dir_okay=False))
def calls(model: str, calls: str, path: Path | None, **given: Any) -> None:
    """Quality and calibration over the number of network calls, and their cost."""
    from bcdm.assessment.options import Options
    from bcdm.benchmark import calls as bench

    try:
        counts = tuple(int(count) for count in calls.split(","))
    except ValueError:
        raise InputError(f"--calls takes numbers such as 5,20,500, got {calls!r}") from None
    records = bench.run(model, Options(**given), _command(), calls=counts, report=_say)
    _finish(records, path, ["calls"], bench.COLUMNS)


@cli.command()
@click.argument("model")
@click.option("--data", type=click.Path(path_type=Path), help="Data folder; default BCDM_DATA.")
@click.option("--split", default="test", show_default=True)
@click.option("--limit", type=int, help="At most this many images, evenly spaced.")
@click.option(
    "--samples", default=20, show_default=True, help="Samples per image; 20 resolve 90 %."
)
@click.option("--calls", default=30, show_default=True, help="Network calls per sample.")
@click.option("--churn", default=1.0, show_default=True, help="Of DPM-Solver++; 0: ODE, 1: SDE.")
@click.option("--operator", metavar="YAML", help="Measure with this instead of the model's own.")
@click.option("--noise-std", type=float, help="Of the measurements, in the units of the images.")
@click.option("--batch", default=16, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--precision", type=click.Choice(["float32", "bfloat16"]), default="float32")
@click.option(
    "--lpips", type=click.Path(path_type=Path), help="Weights, in the data folder or not."
)
@click.option("--figure", type=click.Path(path_type=Path, dir_okay=False), help="PNG to draw.")
@click.option("--strict", is_flag=True, help="Fail where the experiments' requirements are missed.")
@click.option("--card", is_flag=True, help="Write the numbers into the model's card.")
@click.option("--json", "path", type=click.Path(path_type=Path, dir_okay=False))
def evaluate(model: str, path: Path | None, **given: Any) -> None:
    """Evaluate a model on held-out images: quality, calibration, consistency with the data."""
    from bcdm.assessment import evaluate as bench
    from bcdm.assessment.options import Options

    _finish(bench.run(model, Options(**given), _command(), report=_say), path)


@cli.command()
@click.argument("task", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@_study_options
def study(task: Path, smoke: bool, **given: Any) -> None:
    """Train several networks for equal time and compare them alike; goes on where it stopped.

    TASK is a file of settings such as those in experiments/parameterisation. Writes results.json,
    table.md, table.tex, curves.png and panel.png.
    """
    from bcdm.comparison import study as bench

    _finish(bench.run(task, command=_command(), smoke=smoke, report=_say, **given), None)


@cli.command()
@click.argument("logs", nargs=-1, required=True,
                type=click.Path(path_type=Path, dir_okay=False, exists=True))  # fmt: skip
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), required=True,
              help="PNG to draw.")  # fmt: skip
def curves(logs: tuple[Path, ...], out: Path) -> None:
    """Draw what trainings learnt over their steps; LOGS are their log.jsonl files."""
    from bcdm.comparison.learning import draw_curves, name_log

    draw_curves(out, {name_log(log): log for log in logs})
    _say(f"wrote {out}")


for _command_object in COMMANDS:
    cli.add_command(_command_object)


def _finish(
    records: "Sequence[Record]",
    path: Path | None,
    keys: "Sequence[str]" = (),
    columns: "Sequence[Column]" = (),
) -> None:
    """Shows records, and writes them; with columns a page of them, too, beside the file."""
    from bcdm.assessment.records import all_hold, format_table, make_page, write_records

    click.echo(format_table(records))
    if path is not None:
        write_records(path, records)
        _say(f"wrote {path}")
        if columns:
            page = path.with_suffix(".md")
            page.write_text(make_page(records, keys, columns))
            _say(f"wrote {page}")
    if not all_hold(records):
        missed = sum(record.holds is False for record in records)
        raise SystemExit(f"{missed} of {len(records)} rows miss what is required")


def _command() -> str:
    return shlex.join(["bcdm", *sys.argv[1:]])


def _say(line: str) -> None:
    click.echo(line, err=True)


def main() -> None:
    """Runs the command line; an unusable input is one line and exit code 2, Ctrl-C one and 130."""
    try:
        code = cli(standalone_mode=False)
    except (InputError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(2) from None
    except click.ClickException as error:
        error.show()
        raise SystemExit(error.exit_code) from None
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        raise SystemExit(INTERRUPTED) from None
    raise SystemExit(code)
