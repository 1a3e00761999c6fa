"""The report of a reconstruction: one HTML file that needs nothing else, not even a network.

All that it says is visible without its script; the script adds zooming, reading values, playing.
The file's own policy forbids every request and every script but that one.
"""

import base64
import hashlib
import json
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from bcdm import __version__
from bcdm.files import write_text
from bcdm.report.content import Check, Curve, Judgement, Light, Report, Slice, Trust
from bcdm.report.curves import draw_curve
from bcdm.report.slices import dump_json, find_largest_deviation, render_slice

__all__ = ["Check", "Curve", "Report", "Slice", "Trust", "render_report", "write_report"]

_VERDICTS: dict[Light, tuple[str, Judgement]] = {
    "green": ("Green: no objection found", "good"),
    "amber": ("Amber: use with care", "doubtful"),
    "red": ("Red: do not rely on it", "bad"),
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
    script = _read("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    largest = find_largest_deviation(report)
    return Template(_read("report.html")).substitute(
        version=escape(__version__),
        title=escape(report.title),
        subtitle=escape(report.subtitle),
        style=_read("report.css"),
        dark_style=_read("dark.css"),
        script=script,
        script_digest=digest,
        light=_render_light(report.trust),
        simulated=_SIMULATED if report.simulated else "",
        checks=_render_checks(report.trust.checks),
        chooser=_render_chooser(report.slices),
        slices="".join(render_slice(report, one, largest) for one in report.slices),
        curves=_render_curves(report.curves),
        facts=_render_facts(report),
        provenance=_render_provenance(report),
        settings=dump_json({"window": list(map(float, report.window)), "unit": report.unit}),
    )


_SIMULATED = (
    '<aside class="simulated"><strong>Simulated measurement.</strong> The data were computed from '
    "a known image. Effects of a real acquisition that the simulation leaves out do not appear "
    "here.</aside>"
)


def _read(name: str) -> str:
    return resources.files("bcdm.report").joinpath(name).read_text(encoding="utf-8")


def _shape(judgement: Judgement) -> str:
    """A sign that differs in form, so that colour is not needed to tell it."""
    return f'<svg class="sign {judgement}" aria-hidden="true"><use href="#sign-{judgement}"/></svg>'


def _render_light(trust: Trust) -> str:
    words, judgement = _VERDICTS[trust.light]
    return (
        f'<div class="light {judgement}">{_shape(judgement)}<div><p class="verdict">{words}</p>'
        f"<p>{escape(trust.summary)}</p></div></div>"
    )


def _render_checks(checks: tuple[Check, ...]) -> str:
    if not checks:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{escape(check.name)}</th>'
        f'<td class="value">{escape(check.value)}</td>'
        f'<td class="judgement {check.judgement}">{_shape(check.judgement)}'
        f"{_WORDS[check.judgement]}</td><td>{escape(check.reason)}</td></tr>"
        for check in checks
    )
    return (
        '<section aria-labelledby="checks"><h2 id="checks">What the trust rests on</h2>'
        '<table class="checks"><thead><tr><th scope="col">Check</th><th scope="col">Found</th>'
        '<th scope="col">Judgement</th><th scope="col">Reason</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></section>"
    )


def _render_chooser(slices: tuple[Slice, ...]) -> str:
    if len(slices) < 2:
        return ""
    options = "".join(f"<option>{escape(one.name)}</option>" for one in slices)
    return (
        '<div class="group"><label for="slice">Slice</label>'
        '<button type="button" id="previous" aria-label="Previous slice">&lsaquo;</button>'
        f'<select id="slice">{options}</select>'
        '<button type="button" id="next" aria-label="Next slice">&rsaquo;</button></div>'
    )


def _render_curves(curves: tuple[Curve, ...]) -> str:
    if not curves:
        return ""
    return (
        '<section aria-labelledby="curves"><h2 id="curves">Diagnostics</h2>'
        f'<div class="curves">{"".join(map(draw_curve, curves))}</div></section>'
    )


def _render_facts(report: Report) -> str:
    if not report.facts:
        return ""
    tables = "".join(
        f"<table><caption>{escape(section)}</caption><tbody>"
        + "".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
            for name, value in rows
        )
        + "</tbody></table>"
        for section, rows in report.facts
    )
    return (
        '<section aria-labelledby="facts"><h2 id="facts">Facts</h2>'
        f'<div class="facts">{tables}</div></section>'
    )


def _render_provenance(report: Report) -> str:
    if not report.provenance:
        return ""
    text = json.dumps(dict(report.provenance), indent=2, ensure_ascii=False, default=str)
    return (
        '<section aria-labelledby="provenance"><h2 id="provenance">Provenance</h2>'
        '<details class="provenance"><summary>Hashes, versions and settings</summary>'
        '<div class="copy" data-script hidden><button type="button" id="copy">Copy</button>'
        f'<span role="status" id="copied"></span></div><pre id="record">{escape(text)}</pre>'
        "</details></section>"
    )
