"""Questions to a finished reconstruction: `bcdm verify` and `bcdm feature`."""

from pathlib import Path

import click

from bcdm.commands.echo import answer
from bcdm.commands.extras import require
from bcdm.commands.options import device_option, model_option

__all__ = ["feature", "verify"]


@click.command()
@click.argument("result", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--input",
    "source",
    type=click.Path(path_type=Path, exists=True),
    help="To check it as well.",
)
@model_option(said="Where the model is, if it is not one of the shipped.")
@click.option(
    "--method",
    metavar="PACKAGE.MODULE:NAME",
    help="What drew the samples, if that is no part of bcdm.",
)
@device_option()
def verify(
    result: Path, source: Path | None, model: str | None, method: str | None, device: str
) -> None:
    """Check a result against its provenance, and draw its first sample again.

    RESULT is a folder that `bcdm reconstruct` wrote, or a file in it.
    """
    require("zarr")
    from bcdm.reconstruction.verification import verify as check

    verdicts = check(result, source, model, method, device)
    for one in verdicts:
        answer(f"{'right' if one.right else 'WRONG'}  {one.name}: {one.found}")
    if not all(one.right for one in verdicts):
        raise SystemExit(1)


@click.command()
@click.argument("out", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--box",
    "boxes",
    multiple=True,
    required=True,
    metavar="[SLICE,]ROW0:ROW1,COL0:COL1",
    help="A box of pixels, or a mask file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print numbers instead of words.")
def feature(out: Path, boxes: tuple[str, ...], as_json: bool) -> None:
    """Ask the samples of a finished reconstruction: is this feature real?

    Prints in how many samples the region is brighter or darker than the ring of 3 pixels around
    it, with a 95 % interval for that fraction, and its contrast in the units of the file.
    """
    import json

    require("zarr")
    from bcdm.reconstruction.features import judge_stored, read_card

    found = judge_stored(out, boxes)
    cards = {one["slice"]: read_card(out, one["slice"]) for one in found}
    if as_json:
        found = [one | {"trust card": cards[one["slice"]]} for one in found]
        for line in json.dumps(found, indent=1).splitlines():
            answer(line)
        return
    for one in found:
        answer(f"{one['feature']}: {one['in words']}")
    for number, card in sorted(cards.items()):
        answer(f"trust card of slice {number}: {card}")
