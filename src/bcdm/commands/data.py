"""`bcdm data`: the files that settings name, from their public sources."""

from pathlib import Path

import click

from bcdm.commands.echo import answer, say
from bcdm.commands.extras import require

__all__ = ["data"]

_FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)
_OUT = click.Path(path_type=Path, file_okay=False)


@click.group()
def data() -> None:
    """Make the data files that settings name from their public sources, with hashes.

    The same sources give the same bits. For raw scans, such as fastMRI's, see bcdm prepare.
    """


@data.command()
@click.argument("folder", type=_FOLDER)
@click.argument("out", type=_OUT)
@click.option("--masks", type=_FOLDER, help="Brain masks or segmentations of the subjects, NIfTI.")
def ixi(folder: Path, out: Path, masks: Path | None) -> None:
    """Make the brain slices from FOLDER, IXI's T1 volumes (IXI-T1.tar of brain-development.org).

    OUT becomes a data folder: bcdm train ixi64-mri.yaml --data OUT
    """
    require("nibabel")
    from bcdm.data.ixi import make_ixi

    answer(f"wrote {make_ixi(folder, out, masks=masks, report=say)}")


@data.command()
@click.argument("folder", type=_FOLDER)
@click.argument("out", type=_OUT)
def faces(folder: Path, out: Path) -> None:
    """Make the faces from FOLDER, aligned portraits in a folder for each person.

    OUT becomes a data folder: bcdm train faces64.yaml --data OUT
    """
    require("PIL")
    from bcdm.data.faces import make_faces

    answer(f"wrote {make_faces(folder, out, report=say)}")
