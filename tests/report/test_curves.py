"""Diagrams: well-formed, labelled, inside their frame."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from bcdm.report.axes import choose_ticks, format_ticks
from bcdm.report.content import Array, Curve
from bcdm.report.curves import lay_out
from bcdm.report.templating import ENVIRONMENT


def draw_curve(curve: Curve) -> str:
    return ENVIRONMENT.get_template("curve.html").render(diagram=lay_out(curve))


LEVELS = np.linspace(0.1, 0.9, 9)
CASES: dict[str, tuple[Array, Array]] = {
    "line": (LEVELS, LEVELS**2),
    "dense": (np.linspace(-3, 3, 200), np.linspace(-3, 3, 200) ** 3),
    "histogram": (np.linspace(-3, 3, 8), np.array([1.0, 3, 7, 9, 7, 3, 1])),
    "point": (np.array([2.0]), np.array([5.0])),
    "zero": (np.zeros(3), np.zeros(3)),
    "gap": (LEVELS, np.where(LEVELS > 0.5, np.nan, LEVELS)),
    "tiny": (LEVELS * 1e-9, LEVELS * 1e-9),
    "large": (LEVELS * 1e9, -LEVELS * 1e9),
    "integers": (np.arange(4), np.arange(4)),
}


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_every_point_lies_inside_the_frame(case: str, diagonal: bool) -> None:
    figure = ElementTree.fromstring(
        draw_curve(Curve("Title", "x", "y", {case: CASES[case]}, diagonal))
    )
    picture = figure.find("svg")
    assert picture is not None
    marks = [part.get("d", "") for part in picture.iter("path") if "mark" not in part.get("class")]
    for path in marks:
        for x, y in re.findall(r"[ML](\S+) (\S+?)(?=[A-Z]|$)", path):
            assert 59.9 <= float(x) <= 408.1
            assert 11.9 <= float(y) <= 250.1
    texts = [part.text for part in picture.iter("text")]
    assert {"x", "y"} <= set(texts)
    assert len(texts) >= 6


def test_a_level_that_is_not_resolved_is_a_gap_and_says_so() -> None:
    y = np.array([0.1, 0.2, np.nan, 0.4, 0.5])
    drawn = draw_curve(Curve("Coverage", "level", "inside", {"here": (np.arange(5.0), y)}))
    (line,) = re.findall(r'class="line series-0" d="(M[^"]+)"/><path class="mark', drawn)[:1]
    assert line.count("M") == 2
    assert "not resolved" in drawn
    assert "nan" not in drawn


def test_labels_are_text() -> None:
    drawn = draw_curve(Curve("<b>", '"x"', "<i>&", {"</svg>": (LEVELS, LEVELS)}, True))
    figure = ElementTree.fromstring(drawn)
    assert figure.find("figcaption").text == "<b>"
    assert {"<i>&", '"x"'} <= {part.text for part in figure.iter("text")}


@pytest.mark.parametrize(
    ("low", "span"),
    [(0, 1), (-7, 1e-9), (-7, 17), (3e-9, 1e-9), (3e-9, 4e7), (1e6, 0.03), (1e6, 17), (1e6, 4e7)],
)
def test_ticks_are_few_even_and_told_apart(low: float, span: float) -> None:
    ticks = choose_ticks(low, low + span)
    assert 2 <= len(ticks) <= 7
    assert low - 1e-6 * span <= ticks[0]
    assert ticks[-1] <= low + span * (1 + 1e-6)
    np.testing.assert_allclose(np.diff(ticks), ticks[1] - ticks[0], rtol=1e-3)
    assert len(set(format_ticks(ticks))) == len(ticks)
