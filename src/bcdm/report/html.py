"""The report of a reconstruction: one HTML file that needs nothing else, not even a network.

All that it says is visible without its script; the script adds zooming, reading values, playing.
The file's own policy forbids every request and every script but that one. Every text that comes
from a file or a model is escaped by the templates.
"""

import base64
import hashlib
import json
from pathlib import Path
from typing import NamedTuple

from bcdm import __version__
from bcdm.files import write_text
from bcdm.report.content import Check, Curve, Judgement, Light, Report, Slice, Trust
from bcdm.report.curves import lay_out
from bcdm.report.pictures import plot_deviation_scale, plot_phase_scale
from bcdm.report.slices import (
    Section,
    find_largest_deviation,
    lay_out_slice,
    leave_out_samples,
)
from bcdm.report.templating import ENVIRONMENT, read_markup

__all__ = ["Check", "Curve", "Report", "Slice", "Trust", "render_report", "write_report"]

LIMIT = 10_000_000  # characters that a page should stay below; samples are left out for it
_REST = 200_000  # style, script, diagrams, facts
_WORDS_OF_SLICE = 12_000


class Verdict(NamedTuple):
    """A light in words, and the judgement whose sign and colour it takes."""

    words: str
    judgement: Judgement


_VERDICTS: dict[Light, Verdict] = {
    "green": Verdict("Green: no objection found", "good"),
    "amber": Verdict("Amber: use with care", "doubtful"),
    "red": Verdict("Red: do not rely on it", "bad"),
}
_WORDS: dict[Judgement, str] = {
    "good": "Good",
    "doubtful": "Doubtful",
    "bad": "Bad",
    "none": "Not judged",
}


def write_report(path: Path | str, report: Report) -> None:
    """Writes the report; the file is whole or not there."""
    write_text(Path(path), render_report(report))


def render_report(report: Report) -> str:
    """Renders the report as one page."""
    script = read_markup("report.js")
    record = json.dumps(dict(report.provenance), indent=2, ensure_ascii=False, default=str)
    return ENVIRONMENT.get_template("report.html").render(
        report=report,
        version=__version__,
        verdicts=_VERDICTS,
        words=_WORDS,
        sections=_lay_out(report),
        lit=any(one.trust is not None for one in report.slices),
        diagrams=[lay_out(curve) for curve in report.curves],
        provenance=record,
        settings={"window": [float(end) for end in report.window], "unit": report.unit},
        style=read_markup("report.css"),
        dark_style=read_markup("dark.css"),
        deviation_scale=plot_deviation_scale(),
        phase_scale=plot_phase_scale() if any(one.asides for one in report.images) else "",
        script=script,
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _lay_out(report: Report) -> list[Section]:
    """All slices, with as many samples of each as the page has room for."""
    largest = find_largest_deviation(report)
    sections = [lay_out_slice(report, one, largest) for one in report.slices]
    fixed = sum(_count(one) for one in sections)
    return leave_out_samples(sections, LIMIT - _REST - fixed)


def _count(section: Section) -> int:
    """The characters of a slice in the page without its samples, about."""
    panels = (*section.panels, *section.asides)
    pictures = sum(panel.size for panel in panels if "samples" not in panel.kind)
    return pictures + len(json.dumps(section.packed)) + _WORDS_OF_SLICE
