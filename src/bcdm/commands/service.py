"""`bcdm serve`: reconstruct over HTTP."""

from pathlib import Path

import click

from bcdm.commands.echo import say
from bcdm.commands.extras import require
from bcdm.commands.options import device_option, model_option

__all__ = ["serve"]


@click.command()
@model_option(said="A name of a shipped model, or a folder.", required=True)
@click.option(
    "--work",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("service"),
    show_default=True,
    help="Folder of jobs and their files.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8000, show_default=True, help="0 takes one that is free.")
@click.option(
    "--tokens",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of tokens; default BCDM_TOKENS, else one is made in the folder of jobs.",
)
@click.option("--workers", default=1, show_default=True, help="Processes that draw.")
@click.option("--threads", default=1, show_default=True, help="Of each worker.")
@device_option()
@click.option("--queue", default=100, show_default=True, help="Jobs that wait or run at most.")
@click.option("--megabytes", default=64, show_default=True, help="That a file may have.")
@click.option("--keep-hours", default=168.0, show_default=True, help="Of finished jobs.")
@click.option("--job-seconds", default=3600.0, show_default=True, help="Longest time of a job.")
@click.option("--lease", default=60.0, show_default=True, help="Seconds of a silent worker.")
@click.option("--grace", default=30.0, show_default=True, help="Seconds to finish jobs at the end.")
def serve(
    model: str,
    work: Path,
    host: str,
    port: int,
    tokens: Path | None,
    workers: int,
    threads: int,
    device: str,
    queue: int,
    megabytes: int,
    keep_hours: float,
    job_seconds: float,
    lease: float,
    grace: float,
) -> None:
    """Serve reconstructions over HTTP, with a page for people at the address itself.

    Jobs that were accepted survive any kill: the same command goes on with them. Ends by SIGTERM or
    Ctrl-C, after the jobs that run, or as many of them as are finished in time. The log is lines of
    JSON on stderr. Listens on this machine alone unless --host says otherwise.
    """
    require("fastapi", "uvicorn", "zarr")
    from bcdm.service.server import serve as run
    from bcdm.service.settings import ServiceSettings
    from bcdm.service.tokens import make_tokens, read_tokens
    from bcdm.shelf import find_model

    settings = ServiceSettings(
        model=str(find_model(model).absolute()),
        work=work,
        host=host,
        port=port,
        workers=workers,
        threads=threads,
        device=device,
        queue=queue,
        body=megabytes << 20,
        keep_hours=keep_hours,
        job_seconds=job_seconds,
        lease=lease,
        grace=grace,
    )
    known = read_tokens(tokens)
    if known is None:
        path = work / "tokens"
        known = make_tokens(path)
        say(f"the token is in {path}")
    run(settings, known)
