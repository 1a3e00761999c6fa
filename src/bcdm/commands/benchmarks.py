"""`bcdm benchmark`: exams of samplers, methods and models."""

from pathlib import Path

import click

from bcdm.commands.echo import finish, name_command, say
from bcdm.commands.extras import require
from bcdm.commands.options import (
    count_option,
    data_option,
    device_option,
    exam_options,
    model_argument,
    model_option,
    records_option,
    work_option,
)
from bcdm.commands.settings import SettingsFile
from bcdm.errors import InputError

__all__ = ["benchmark"]


@click.group()
def benchmark() -> None:
    """Measure the library; each command writes records and fails where a requirement is missed."""


@benchmark.command()
@exam_options
def moments(path: Path | None, smoke: bool) -> None:
    """Exact mean and variance error of every sampler on Gaussian posteriors."""
    from bcdm.benchmark import moments as bench

    finish(bench.run(name_command(), smoke=smoke, report=say), path)


@benchmark.command()
@exam_options
def learned(path: Path | None, smoke: bool) -> None:
    """The mixtures again, by networks trained for all their operators and noise levels."""
    from bcdm.benchmark import learned as bench

    finish(bench.run(name_command(), smoke=smoke, report=say), path)


@benchmark.command()
@model_option("--coils", "model", said="A sample of 8 coils instead.")
@exam_options
def overhead(path: Path | None, smoke: bool, model: str | None) -> None:
    """What a sampler step and a solve cost beside the bare network and the bare FFT."""
    if model is not None:
        from bcdm.benchmark import coilcost

        finish(coilcost.run(model, name_command(), smoke=smoke, report=say), path)
        return
    from bcdm.benchmark import overhead as bench

    finish(bench.run(name_command(), smoke=smoke, report=say), path)


@benchmark.command("archive")
@click.option(
    "--exam",
    "exams",
    multiple=True,
    type=click.Choice(["model", "costs", "growth", "ray", "kills", "failures"]),
    help="Only this one; records of the others stay in the file.",
)
@click.option("--items", default=10_000, show_default=True, help="Of archives that are disturbed.")
@exam_options
def measure_archive(path: Path | None, smoke: bool, exams: tuple[str, ...], items: int) -> None:
    """What an archive costs beside a bare loop, and what kills of its processes change."""
    require("zarr")
    from bcdm.assessment.records import read_records
    from bcdm.benchmark import archive as bench

    records = bench.run(name_command(), exams or bench.EXAMS, items=items, smoke=smoke, report=say)
    held = read_records(path) if path is not None and path.exists() else []
    ran = {one.case["exam"] for one in records}
    finish([*(one for one in held if one.case["exam"] not in ran), *records], path)


@benchmark.command("service")
@model_option(said="Of k-space, one mask.", default="ixi64-mri8x")
@click.option("--minutes", default=10.0, show_default=True, help="Of load.")
@click.option("--calls", default=8, show_default=True, help="Network calls per sample.")
@click.option("--scans", default=6, show_default=True, help="Different files.")
@click.option("--queue", default=12, show_default=True, help="Jobs that wait or run at most.")
@exam_options
def measure_service(
    path: Path | None,
    smoke: bool,
    model: str,
    minutes: float,
    calls: int,
    scans: int,
    queue: int,
) -> None:
    """The service under load, while workers are killed: nothing lost, nothing wrong, what cost."""
    require("fastapi", "uvicorn", "zarr")
    from bcdm.benchmark import service as bench

    exam = bench.Exam(minutes=minutes, calls=calls, scans=scans, queue=queue)
    exam = bench.SMOKE if smoke else exam
    finish(bench.run(name_command(), model=model, exam=exam, report=say), path)


@benchmark.command()
@click.argument("comparison", type=SettingsFile())
@data_option
@work_option("runs/families")
@device_option(None)
@records_option
def family(
    comparison: Path, data: Path | None, work: Path, device: str | None, path: Path | None
) -> None:
    """A model of a family on operators it never saw, beside a rival and specialists."""
    from bcdm.benchmark import family as bench

    records = bench.run(comparison, data, work, name_command(), device=device, report=say)
    finish(records, path, bench.KEYS, bench.COLUMNS)


@benchmark.command()
@model_argument
@data_option
@count_option("--limit", 50, "Subjects, one image each.")
@click.option("--samples", default=11, show_default=True, help="Of each image.")
@click.option("--calls", default=12, show_default=True, help="Network calls per sample.")
@click.option("--radius", "radii", multiple=True, type=float, help="Pixels; left out: all.")
@click.option("--contrast", "contrasts", multiple=True, type=float, help="Of the range.")
@click.option("--mask", "masks", multiple=True, help='Such as "points 8x"; left out: all.')
@click.option(
    "--others",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Images of further subjects, stored as the model's data are.",
)
@click.option("--card", is_flag=True, help="Say it in the model's card and in its reports.")
@work_option("runs/lesions")
@device_option()
@records_option
def lesions(
    model: str,
    data: Path | None,
    limit: int,
    samples: int,
    calls: int,
    radii: tuple[float, ...],
    contrasts: tuple[float, ...],
    masks: tuple[str, ...],
    others: Path | None,
    card: bool,
    work: Path,
    device: str,
    path: Path | None,
) -> None:
    """Discs in images of new subjects: seen at all, and does what samples say hold?"""
    from bcdm.benchmark import lesions as bench
    from bcdm.checkpoint import find_model
    from bcdm.checkpoint.facts import read_facts, write_facts

    exam = bench.Exam(
        radii or bench.RADII,
        contrasts or bench.CONTRASTS,
        masks,
        limit,
        samples,
        calls,
    )
    records = bench.run(
        model, data, work, name_command(), exam, others=others, device=device, report=say
    )
    if card:
        folder = find_model(model)
        content = read_facts(folder)
        content["facts"]["lesions"] = bench.summarise(records)
        write_facts(folder, content)
    finish(records, path, bench.KEYS, bench.COLUMNS)


@benchmark.command()
@model_option(said="A model of complex images; left out: what needs none.")
@data_option
@click.option("--sets", default="brain16", show_default=True, help="Of brain16,ixi,openms,hku.")
@click.option("--patterns", default="equispaced,poisson", show_default=True)
@click.option("--accelerations", default="2,4,6,8", show_default=True)
@click.option("--methods", default="", help="Rows, by name; all when left out.")
@count_option("--limit", 16, "Slices of a set.")
@click.option("--sampled", default=0, show_default=True, help="Of them, sampled; 0: all.")
@click.option("--tuning", default=2, show_default=True, help="Other slices, to tune weights on.")
@click.option("--widths", default=1, show_default=True, help="Of validation, for intervals.")
@count_option("--samples", 9, "Of each slice; fewer than 9 give no intervals.", least=2)
@click.option("--calls", default=20, show_default=True, help="Per sample; MMPS has 40.")
@click.option("--panel", type=click.Path(path_type=Path, dir_okay=False), help="PNG to draw.")
@click.option("--add", is_flag=True, help="Keep what the file says of other rows.")
@work_option("runs/scans")
@device_option()
@records_option
def scans(
    model: str | None,
    data: Path | None,
    sets: str,
    patterns: str,
    accelerations: str,
    methods: str,
    limit: int,
    sampled: int,
    tuning: int,
    widths: int,
    samples: int,
    calls: int,
    panel: Path | None,
    add: bool,
    work: Path,
    device: str,
    path: Path | None,
) -> None:
    """Scans of several coils: a model beside CG-SENSE, l1-wavelet, total variation and MMPS."""
    require("sigpy", "scipy", *(["matplotlib"] if panel is not None else []))
    from bcdm.assessment.records import keep_others
    from bcdm.benchmark import scans as bench

    try:
        numbers = tuple(float(number) for number in accelerations.split(","))
    except ValueError:
        raise InputError(f"--accelerations takes 4,8, got {accelerations!r}") from None
    exam = bench.Exam(
        tuple(sets.split(",")),
        tuple(patterns.split(",")),
        numbers,
        tuple(filter(None, methods.split(","))),
        limit,
        sampled,
        tuning,
        widths,
        samples,
        calls,
    )
    records = bench.run(
        model, data, work, name_command(), exam, device=device, report=say, panel=panel
    )
    if add and path is not None:
        records = keep_others(path, records, *bench.KEYS) + records
    finish(records, path, bench.KEYS, bench.COLUMNS)


@benchmark.command()
@model_argument
@click.option("--draws", default=200, show_default=True, help="Masks of each kind.")
@click.option("--size", type=int, nargs=2, help="Of the masks, rows and columns.")
@records_option
def masks(model: str, draws: int, size: tuple[int, int] | None, path: Path | None) -> None:
    """Which k-space masks a model takes; MODEL is a model, or a YAML file of its settings."""
    from bcdm.benchmark import masks as bench

    records = bench.run(model, name_command(), draws=draws, size=size, report=say)
    finish(records, path, bench.KEYS, bench.COLUMNS)


@benchmark.command()
@model_argument
@model_option("--rival", said="Another model, on the same images and masks.")
@data_option
@count_option("--limit", 24, "Test subjects, one image each.")
@click.option("--sampled", default=8, show_default=True, help="Of them, sampled; or 0.")
@click.option("--samples", default=8, show_default=True, help="Of each of these.")
@click.option("--calls", default=8, show_default=True, help="Network calls per sample.")
@work_option("runs/patterns")
@device_option()
@records_option
def patterns(
    model: str,
    rival: str | None,
    data: Path | None,
    limit: int,
    sampled: int,
    samples: int,
    calls: int,
    work: Path,
    device: str,
    path: Path | None,
) -> None:
    """How well a model does by the kind of k-space mask, beside the linear estimate."""
    from bcdm.benchmark import patterns as bench

    exam = bench.Exam(limit, sampled, samples, calls)
    records = bench.run(model, rival, data, work, name_command(), exam, device=device, report=say)
    finish(records, path, bench.KEYS, bench.COLUMNS)


@benchmark.command()
@model_argument
@data_option
@count_option("--limit", 100, "Measurements of a kind.")
@click.option("--together", default=26, show_default=True, help="Images of a volume.")
@records_option
def noise(model: str, data: Path | None, limit: int, together: int, path: Path | None) -> None:
    """Noise levels read from measurements of a model's test images, beside the true ones."""
    from bcdm.benchmark import noise as bench

    records = bench.run(
        model, data=data, limit=limit, together=together, command=name_command(), report=say
    )
    finish(records, path, bench.KEYS, bench.COLUMNS)
