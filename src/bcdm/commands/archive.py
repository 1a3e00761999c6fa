"""`bcdm archive`: reconstruct very many measurements, and ask what became of them."""

from dataclasses import replace
from pathlib import Path

import click

from bcdm.commands.echo import answer, say
from bcdm.commands.extras import require
from bcdm.commands.failures import INTERRUPTED
from bcdm.commands.options import (
    device_option,
    mask_option,
    model_option,
    operator_option,
    plan_options,
)

__all__ = ["archive"]


@click.group()
def archive() -> None:
    """Reconstruct very many measurements, by processes, array jobs or Ray."""


@archive.command()
@click.argument("source", metavar="INPUT")
@click.argument("out")
@model_option(said="A name of a shipped model, or a folder.", required=True)
@plan_options
@mask_option
@operator_option
@click.option("--noise-std", type=float, help="In the files' units; estimated when left out.")
@click.option("--force", is_flag=True, help="Write items although their trust cards are red.")
@click.option("--keep", is_flag=True, help="Write samples, too.")
@click.option("--cards", is_flag=True, help="Write the checks behind each light, too.")
@click.option(
    "--shard",
    type=int,
    help="About how many items in a shard; default a hundredth of all, from a batch to 1000.",
)
@click.option("--threads", default=1, show_default=True, help="Of each worker.")
@device_option()
@click.option("--workers", type=int, help="Processes; default all processors, or 1 for a part.")
@click.option("--part", metavar="I/N", help="Only part I of N, counted from 0: for array jobs.")
@click.option("--ray", metavar="ADDRESS", help="By Ray: an address, or local to start one here.")
@click.option(
    "--metrics",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for Prometheus (textfile collector), written every 10 s.",
)
def run(
    source: str,
    out: str,
    model: str,
    samples: int,
    calls: int | None,
    seed: int,
    batch: int,
    mask: Path | None,
    key: str | None,
    operator: str | None,
    noise_std: float | None,
    force: bool,
    keep: bool,
    cards: bool,
    shard: int | None,
    threads: int,
    device: str,
    workers: int | None,
    part: str | None,
    ray: str | None,
    metrics: Path | None,
) -> None:
    """Reconstruct INPUT, shard by shard, into the archive OUT.

    INPUT is a zarr group or HDF5 file whose rows are measurements (with `mask` and `noise_std`
    beside them, if they have their own), a folder, a pattern of files, or an address such as
    s3://bucket/scans. The same command goes on after any interruption, also on several machines
    at once, and gives the same bits; other settings are refused. Another device is not: its results
    agree to rounding, and the marker of each shard says where it was made. Exit code 2 where not
    one item was reconstructed.
    """
    require("zarr")
    from bcdm.archive.cluster import protect, run_ray
    from bcdm.archive.heads import begin, choose_shard, read_head
    from bcdm.archive.job import Job
    from bcdm.archive.local import count_processors, run_local
    from bcdm.archive.places import is_remote, open_place
    from bcdm.archive.progress import Tally
    from bcdm.archive.shards import choose_part
    from bcdm.errors import InputError
    from bcdm.shelf import find_calls, find_model

    # Before anything is written: what is begun is held to its settings.
    if part is not None:
        choose_part(part, 0)
    if workers is not None and workers < 1:
        raise InputError(f"workers must be 1 or more, got {workers}")
    if ray is not None:
        protect(ray)
        require("ray")
    if is_remote(source) or is_remote(out):
        require("obstore")
    # Absolute, because workers of other machines may have another current folder.
    job = Job(
        source=source if is_remote(source) else str(Path(source).absolute()),
        out=out if is_remote(out) else str(Path(out).absolute()),
        model=str(find_model(model).absolute()),
        samples=samples,
        calls=find_calls(model) if calls is None else calls,
        seed=seed,
        batch=batch,
        force=force,
        keep=keep,
        cards=cards,
        mask=None if mask is None else str(mask.absolute()),
        operator=_make_absolute(operator),
        key=key,
        noise_std=noise_std,
        threads=threads,
        device=device,
    )
    job = choose_shard(job) if shard is None else replace(job, shard=shard)
    if job.calls < find_calls(model):
        told = f"{job.calls} calls a sample, fewer than {find_calls(model)}"
        say(f"{told}: right data may be found wrong")
    if read_head(open_place(job.out)) is None:
        # Here, because it loads the model, which takes longer than to go on.
        from bcdm.archive.unit import check_job

        check_job(job)
    head = begin(job, say)
    shards = range(head.shards) if part is None else choose_part(part, head.shards)
    count = workers or (1 if part else count_processors())
    if ray is None and 0 < len(shards) < count:
        say(f"{len(shards)} shards keep no more workers busy: a smaller --shard gives more of them")
    tally = Tally(head, len(shards), say, metrics)
    try:
        if ray is None:
            run_local(job, shards, count, tally)
        else:
            run_ray(job, shards, ray, workers, tally)
    except KeyboardInterrupt:
        say("interrupted: the same command goes on from here")
        raise SystemExit(INTERRUPTED) from None
    tally.tell(last=True)
    counts = tally.counts
    for reason, count in counts.reasons.most_common(5):
        say(f"{count:,} x {reason}")
    # A part of an archive may hold nothing but what is refused: a job that failed is run again.
    if part is None and counts.items and not counts.status["done"]:
        raise InputError("no item was reconstructed: the lines above say why")


def _make_absolute(operator: str | None) -> str | None:
    """The file of an operator; settings stay as they are."""
    is_file = operator is not None and Path(operator).suffix == ".safetensors"
    return str(Path(operator).absolute()) if is_file and operator else operator


@archive.command()
@click.argument("out")
def status(out: str) -> None:
    """Say how far an archive is; exit code 1 while it is not finished."""
    from bcdm.archive.status import summarise

    found = summarise(out)
    for line in found.describe():
        answer(line)
    if not found.is_finished:
        raise SystemExit(1)


@archive.command()
@click.argument("out")
@click.option("--draw", default=3, show_default=True, help="Items to draw again.")
@click.option("--seed", default=0, show_default=True, help="Which items.")
@model_option(said="Where the model is, if it has moved.")
@click.option("--input", "source", help="Where the measurements are, if they have moved.")
@device_option()
def verify(
    out: str, draw: int, seed: int, model: str | None, source: str | None, device: str
) -> None:
    """Check all hashes of an archive, and draw a few items again."""
    require("zarr")
    from bcdm.archive.verification import verify as check

    is_right = True
    checks = check(out, draw=draw, seed=seed, model=model, source=source, device=device, report=say)
    for one in checks:
        answer(f"{'right' if one.right else 'WRONG'}  {one.name}: {one.found}")
        is_right = is_right and one.right
    if not is_right:
        raise SystemExit(1)


@archive.command()
@click.argument("out")
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--format", "format", type=click.Choice(["zarr", "hdf5", "csv"]), required=True, help="What."
)
@click.option("--array", "arrays", multiple=True, help="Which images; default all but samples.")
def export(out: str, target: Path, format: str, arrays: tuple[str, ...]) -> None:
    """Write a finished archive to TARGET as one zarr group, HDF5 file or table of items."""
    require("zarr")
    from bcdm.archive.export import export as write
    from bcdm.archive.store import IMAGES

    count = write(out, target, format, arrays or IMAGES, say)
    answer(f"wrote {target}, {count} items")
