"""Exams of one model by itself: `bcdm benchmark trust` and `bcdm benchmark calls`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bcdm.commands.echo import finish, name_command, say
from bcdm.commands.options import (
    ANY_OPERATOR,
    count_option,
    data_option,
    device_option,
    model_argument,
    precision_option,
    records_option,
    work_option,
)
from bcdm.errors import InputError

if TYPE_CHECKING:
    from bcdm.machine import Precision

__all__ = ["calls", "trust"]


@click.command()
@model_argument
@data_option
@count_option("--limit", 80, "Test images of each defect.")
@click.option("--intervals", default=60, show_default=True, help="Images for coverage.")
@click.option("--calls", default=20, show_default=True, help="Network calls per sample.")
@click.option("--seed", default=100, show_default=True, help="Of measurements and samples.")
@precision_option
@device_option()
@work_option("runs/trust")
@click.option(
    "--scores",
    type=click.Path(path_type=Path, dir_okay=False),
    help="What every card rests on: what it holds is judged again and not computed.",
)
@records_option
def trust(
    model: str,
    data: Path | None,
    limit: int,
    intervals: int,
    calls: int,
    precision: "Precision",
    device: str,
    work: Path,
    seed: int,
    scores: Path | None,
    path: Path | None,
) -> None:
    """The trust card on test images: false alarms, what it notices, and intervals that hold."""
    from bcdm.benchmark import trust as bench

    records = bench.run(
        model,
        data,
        work,
        name_command(),
        scores=scores,
        limit=limit,
        intervals=intervals,
        calls=calls,
        seed=seed,
        precision=precision,
        device=device,
        report=say,
    )
    finish(records, path)


@click.command()
@model_argument
@data_option
@click.option("--calls", default="5,10,20,50,100,500", show_default=True, help="Numbers to try.")
@count_option("--limit", 32, "Images, evenly spaced.")
@click.option("--samples", default=20, show_default=True)
@click.option("--churn", default=1.0, show_default=True)
@click.option("--operator", metavar=ANY_OPERATOR, help="Measure with this instead of the model's.")
@click.option("--noise-std", type=float)
@precision_option
@device_option()
@records_option
def calls(
    model: str,
    data: Path | None,
    calls: str,
    limit: int,
    samples: int,
    churn: float,
    operator: str | None,
    noise_std: float | None,
    precision: "Precision",
    device: str,
    path: Path | None,
) -> None:
    """Quality and calibration over the number of network calls, and their cost."""
    from bcdm.assessment.options import Options
    from bcdm.benchmark import calls as bench

    try:
        counts = tuple(int(count) for count in calls.split(","))
    except ValueError:
        raise InputError(f"--calls takes numbers such as 5,20,500, got {calls!r}") from None
    options = Options(
        data=data,
        limit=limit,
        samples=samples,
        churn=churn,
        operator=operator,
        noise_std=noise_std,
        precision=precision,
        device=device,
    )
    records = bench.run(model, options, name_command(), calls=counts, report=say)
    finish(records, path, ["calls"], bench.COLUMNS)
