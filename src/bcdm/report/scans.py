"""The report of a scan that was reconstructed: for the command and the service alike."""

from pathlib import Path

from torch import Tensor

from bcdm.reconstruction.files import Finished
from bcdm.reconstruction.fitting import Fitted
from bcdm.report.facts import describe_scan
from bcdm.report.html import write_report
from bcdm.report.posteriors import make_report
from bcdm.text import printable

__all__ = ["report_scan"]


def report_scan(page: Path, fitted: Fitted, truth: Tensor | None, done: Finished) -> None:
    """Writes the report.

    Args:
        page: Where to.
        fitted: The scan.
        truth: The images behind it in the model's units, if it was simulated.
        done: What was made of it.
    """
    report = make_report(
        done.posteriors,
        done.cards,
        title=printable(fitted.scan.path.name),
        subtitle=f"{fitted.scan.format}, reconstructed by {done.posteriors[0].model.name}",
        units=fitted.units,
        facts=describe_scan(fitted),
        provenance=done.provenance,
        truth=truth,
        features=tuple((printable(one["feature"]), one["in words"]) for one in done.features),
        left_out=done.left_out,
        weights=fitted.weights,
        size=fitted.scan.size,
    )
    write_report(page, report)
