"""`bcdm specialise`: from a model of a family to one of the operator that is at hand."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bcdm.commands.echo import answer, say
from bcdm.commands.models import show_calibration
from bcdm.commands.options import (
    count_option,
    data_option,
    device_option,
    model_argument,
    precision_option,
)
from bcdm.errors import InputError

if TYPE_CHECKING:
    from bcdm.machine import Precision

__all__ = ["specialise"]


@click.command()
@model_argument
@click.option(
    "--operator",
    required=True,
    metavar="FILE|YAML",
    help="A stored operator, a mask (picture, .npy, .npz, NIfTI), or such as "
    '"{kind: gaussian_blur, std: 1.3}".',
)
@click.option("--noise-std", type=float, help="In the units of MODEL's images.")
@click.option("--minutes", type=float, help="Of training; 10 where --steps is not given.")
@count_option("--steps", None, "Of training, instead of minutes.")
@data_option
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, file_okay=False), help="Default runs/NAME."
)
@click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Change a setting.")
@count_option("--limit", 200, "Validation images of the calibration.", least=40)
@count_option("--intervals", 30, "Of these, for interval widths.")
@precision_option
@device_option("auto")
@click.option("--dry-run", is_flag=True, help="Print plan, parameters, memory and ETA only.")
def specialise(
    model: str,
    operator: str,
    noise_std: float | None,
    minutes: float | None,
    steps: int | None,
    data: Path | None,
    out: Path | None,
    overrides: tuple[str, ...],
    limit: int,
    intervals: int,
    precision: "Precision",
    device: str,
    dry_run: bool,
) -> None:
    """Train a model for one operator and noise level, from the weights of MODEL; then calibrate it.

    It needs the images that MODEL was trained on. Minutes are turned into steps by timing the
    first ones, and are of training alone; the number of steps is stored, and fixes the result. The
    same command goes on after any interruption.
    """
    from bcdm.assessment.calibrate import calibrate_model, check_enough
    from bcdm.checkpoint import load
    from bcdm.checkpoint.calibration import Calibration
    from bcdm.checkpoint.given import read_operator_for
    from bcdm.machine import keep_memory
    from bcdm.training import specialising

    keep_memory()
    base = specialising.load_base(model)
    if any(one.startswith("operator=") for one in overrides):
        raise InputError("--operator says which one: leave out --set operator")
    if not dry_run and not any(one.startswith("data.") for one in overrides):
        check_enough(base, data)
    folder = specialising.specialise(
        model,
        read_operator_for(operator, base),
        label=Path(operator).name if Path(operator).is_file() else operator,
        noise_std=noise_std,
        minutes=minutes,
        steps=steps,
        overrides=overrides,
        data=data,
        out=out,
        device=device,
        precision=precision,
        dry_run=dry_run,
        report=say,
    )
    if dry_run:
        return
    if Calibration.of(load(folder)) is None:
        found = calibrate_model(
            str(folder),
            data=data,
            limit=limit,
            intervals=intervals,
            precision=precision,
            device=device,
            report=say,
        )
        show_calibration(found)
    answer(f"{folder} is trained and calibrated; next: bcdm reconstruct SCAN --model {folder}")
