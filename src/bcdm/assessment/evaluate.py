"""A trained model on held-out images: quality, calibration and consistency with the data."""

from collections.abc import Callable
from pathlib import Path

import torch

from bcdm.assessment.images import open_tested
from bcdm.assessment.judging import judge
from bcdm.assessment.metrics import Scores
from bcdm.assessment.options import Options
from bcdm.assessment.records import Record
from bcdm.assessment.summary import summarise, write_card
from bcdm.checkpoint import Model, find_model, load
from bcdm.report.panels import plot_panels

__all__ = ["run"]

SHOWN = 6  # rows of the figure


def run(
    name: str, options: Options, command: str, *, report: Callable[[str], None] = print
) -> list[Record]:
    """Evaluates a model beside its control, and returns the records."""
    model = load(name).to(options.device)
    tested = open_tested(model, options)
    own, control = (judge(model, tested, options, control=c) for c in (False, True))
    records = summarise(own, control, model, tested.subjects, options, command)
    if options.figure is not None:
        _plot(own.scores, model, options.figure)
        report(f"wrote {options.figure}")
    if options.card:
        write_card(find_model(name), records, command)
    return records


def _plot(scores: Scores, model: Model, path: Path) -> None:
    """One image of each of the first batches, so that rows come from different subjects."""
    columns = {name: torch.cat(images)[:SHOWN] for name, images in scores.shown.items()}
    sizes = {name: columns.pop(name) for name in ("std", "|error|")}
    plot_panels(path, columns, sizes, value_range=model.config.data.value_range)
