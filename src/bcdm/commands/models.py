"""Commands that make and judge models: prepare, train, evaluate, calibrate."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bcdm.commands.echo import answer, finish, name_command, say
from bcdm.commands.extras import require
from bcdm.commands.options import (
    ANY_OPERATOR,
    count_option,
    data_option,
    device_option,
    model_argument,
    precision_option,
    records_option,
)
from bcdm.commands.settings import SettingsFile
from bcdm.errors import InputError

if TYPE_CHECKING:
    from bcdm.checkpoint.calibration import Calibration
    from bcdm.machine import Precision

__all__ = ["calibrate", "evaluate", "prepare", "show_calibration", "train"]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--size",
    type=(click.IntRange(min=1), click.IntRange(min=1)),
    help="Rows and columns; those of the first scan if not.",
)
def prepare(folder: Path, out: Path, size: tuple[int, int] | None) -> None:
    """Make a training set in OUT of the fully sampled raw scans in FOLDER, for several coils.

    It takes files of k-space in the layout of fastMRI, ISMRMRD or npz, and splits them by subject.
    Then train a model on it: bcdm train OUT/train.yaml --data OUT
    """
    require("h5py")
    from bcdm.training import raw

    settings = raw.prepare(folder, out, size=size, report=say)
    answer(f"wrote {settings}; next: bcdm train {settings} --data {out}")


@click.command()
@click.argument("config", type=SettingsFile())
@data_option
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, file_okay=False), help="Default runs/NAME."
)
@click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Change a setting.")
@click.option(
    "--operator",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A stored operator, instead of what CONFIG says.",
)
@click.option(
    "--branch",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="RUN",
    help="Go on from where the rate of this shorter run began to fall (training.decay=0.2).",
)
@device_option("auto")
@click.option("--dry-run", is_flag=True, help="Print plan, parameters, memory and ETA only.")
def train(
    config: Path,
    data: Path | None,
    out: Path | None,
    overrides: tuple[str, ...],
    operator: Path | None,
    branch: Path | None,
    device: str,
    dry_run: bool,
) -> None:
    """Train a model from one YAML file; the same command goes on after any interruption.

    CONFIG is a file, or one of those that come with bcdm: `bcdm settings` lists them. To train on
    a folder of pictures of your own, start from one and name it:

    bcdm train faces64-inpaint.yaml --set data.path=/my/pictures --set name=mine

    With several processes: torchrun --nproc-per-node 2 -m bcdm train CONFIG.
    """
    from bcdm.checkpoint import load_operator
    from bcdm.machine import keep_memory
    from bcdm.training import run

    keep_memory()
    given = load_operator(operator) if operator is not None else None
    run.run(
        config,
        overrides,
        data,
        out,
        dry_run=dry_run,
        report=say,
        operator=given,
        device=device,
        branch=branch,
    )


@click.command()
@model_argument
@data_option
@click.option("--split", default="test", show_default=True)
@count_option("--limit", None, "At most this many images, evenly spaced.")
@count_option("--samples", 20, "Samples per image; 20 resolve 90 %.", least=2)
@count_option("--calls", 30, "Network calls per sample; 30 here, 20 elsewhere: as in records.")
@click.option("--churn", default=1.0, show_default=True, help="Of DPM-Solver++; 0: ODE, 1: SDE.")
@click.option("--operator", metavar=ANY_OPERATOR, help="Measure with this instead of the model's.")
@click.option("--noise-std", type=float, help="Of the measurements, in the units of the images.")
@count_option("--batch", 16)
@click.option("--seed", default=0, show_default=True)
@precision_option
@device_option()
@click.option(
    "--lpips", type=click.Path(path_type=Path), help="Weights, in the data folder or not."
)
@click.option("--figure", type=click.Path(path_type=Path, dir_okay=False), help="PNG to draw.")
@click.option("--strict", is_flag=True, help="Fail where the experiments' requirements are missed.")
@click.option("--card", is_flag=True, help="Write the numbers into the model's card.")
@records_option
def evaluate(
    model: str,
    data: Path | None,
    split: str,
    limit: int | None,
    samples: int,
    calls: int,
    churn: float,
    operator: str | None,
    noise_std: float | None,
    batch: int,
    seed: int,
    precision: "Precision",
    device: str,
    lpips: Path | None,
    figure: Path | None,
    strict: bool,
    card: bool,
    path: Path | None,
) -> None:
    """Evaluate a model on held-out images: quality, calibration, consistency with the data."""
    if figure is not None:
        require("matplotlib")
    from bcdm.assessment import evaluate as bench
    from bcdm.assessment.options import Options
    from bcdm.assessment.table import format_beside

    options = Options(
        data=data,
        split=split,
        limit=limit,
        samples=samples,
        calls=calls,
        churn=churn,
        operator=operator,
        noise_std=noise_std,
        batch=batch,
        seed=seed,
        precision=precision,
        device=device,
        lpips=lpips,
        figure=figure,
        strict=strict,
        card=card,
    )
    records = bench.run(model, options, name_command(), report=say)
    finish(records, path, form=format_beside)


@click.command()
@model_argument
@data_option
@count_option("--limit", None, "At most this many validation images.")
@count_option("--samples", 20, least=9)
@count_option("--calls", None, "Network calls per sample; as before when left out.")
@count_option("--intervals", 60, "Images for interval widths.")
@count_option("--typical", 400, "Training images for what is typical.", least=40)
@click.option("--keep-intervals", is_flag=True, help="Keep the widths that are stored.")
@click.option("--keep-looks", is_flag=True, help="Keep what is stored as typical.")
@count_option("--times", 1, "Measure each image so often, where they are few.")
@click.option(
    "--only-family",
    is_flag=True,
    help="Only store what a family's operators look like; needs no images.",
)
@click.option(
    "--only-regions",
    is_flag=True,
    help="Only fit the widths of contrasts of regions anew, on --intervals images.",
)
@click.option(
    "--only-fallback",
    is_flag=True,
    help="Only fit the widths of intervals that MMPS draws (--method auto), on --intervals images.",
)
@click.option(
    "--operator",
    metavar="PACKAGE.MODULE:NAME",
    help="What makes the operator, of a model that was trained with one of your own.",
)
@precision_option
@device_option()
@click.option("--seed", default=0, show_default=True)
def calibrate(
    model: str,
    data: Path | None,
    limit: int | None,
    samples: int,
    calls: int | None,
    intervals: int,
    typical: int,
    keep_intervals: bool,
    keep_looks: bool,
    times: int,
    only_family: bool,
    only_regions: bool,
    only_fallback: bool,
    operator: str | None,
    precision: "Precision",
    device: str,
    seed: int,
) -> None:
    """Fit a model's trust card and the width of its intervals on validation images."""
    from bcdm.assessment.calibrate import Only, calibrate_model
    from bcdm.checkpoint import find_model, load, store_cloud

    if only_family + only_regions + only_fallback > 1:
        raise InputError("--only-family, --only-regions or --only-fallback: one at a time")
    if (only_family or only_regions or only_fallback) and (keep_intervals or keep_looks):
        raise InputError("--only-... keeps all else: leave out --keep-intervals and --keep-looks")
    only: Only | None = "regions" if only_regions else "fallback" if only_fallback else None
    if only_family or (only is None and load(model).familiarity is not None):
        store_cloud(find_model(model))
        answer("stored what operators of its family look like")
    if only_family:
        return
    found = calibrate_model(
        model,
        operator=operator,
        data=data,
        limit=limit,
        samples=samples,
        calls=calls,
        intervals=intervals,
        typical=typical,
        keep_intervals=keep_intervals,
        keep_looks=keep_looks,
        only=only,
        times=times,
        precision=precision,
        device=device,
        seed=seed,
        report=say,
    )
    show_calibration(found)


def show_calibration(found: "Calibration") -> None:
    """Answers what was fitted."""
    for level, factor in found.factors.items():
        answer(f"intervals of {level:.0%}: {factor:.3f} times as wide")
        if found.local is not None:
            each = ", ".join(f"{one:.3f}" for one in found.local.list_factors(level))
            answer(f"  from dark to bright: {each}")
        if found.regions is not None and level in found.regions.factors:
            each = ", ".join(f"{one:.3f}" for one in found.regions.factors[level])
            answer(f"  of contrasts of small to large regions: {each}")
    if (guided := found.fallback) is not None:
        for level in guided.factors:
            each = ", ".join(f"{one:.3f}" for one in guided.list_factors(level))
            answer(f"intervals of {level:.0%} where MMPS draws, from dark to bright: {each}")
    answer(f"flags at a tail probability below {found.usual.threshold:.3f}")
    if found.taken is not None:
        taken = found.taken.threshold
        answer(f"  where the scale is taken from the data: below {taken:.3f}")
