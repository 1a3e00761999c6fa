"""The page in a browser: silent, offline, linked, and usable from the keyboard."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.pages import import_playwright, open_silently

from bcdm.report.content import Gap, Slice, Trust
from bcdm.report.html import Report, write_report

expect = import_playwright().expect
Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a report from disk; what the page says or asks for fails the test at its end."""
    opened = []

    def start(report: Report, **settings: Any) -> Any:
        path = tmp_path / "report.html"
        write_report(path, report)
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 1000}} | settings)
        page, said, asked = open_silently(context)
        opened.append((context, said, asked))
        page.goto(path.as_uri())
        return page

    yield start
    home = (tmp_path / "report.html").as_uri()
    for context, said, asked in opened:
        context.close()
        assert said == []
        assert [url for url in asked if not url.startswith("data:")] == [home]


def transforms(page: Any) -> set[tuple[float, ...]]:
    """The maps from picture to screen of the panels in view: zoom, and shifts in panel widths.

    Columns of a grid differ in width by a 64th of a pixel, so pixels would differ, too.
    """
    maps = page.locator(".slice:not([hidden]) .linked .layer").evaluate_all(
        """all => all.map(one => {
            const { a, e, f } = new DOMMatrix(getComputedStyle(one).transform);
            const box = one.parentElement.getBoundingClientRect();
            return [a, e / box.width, f / box.height];
        })"""
    )
    return {tuple(round(number, 4) for number in one) for one in maps}


def shown(page: Any, kind: str = "samples") -> str:
    return page.locator(f".slice:not([hidden]) .{kind} .layer img:visible").get_attribute("alt")


def point_at(page: Any, row: float, column: float, panel: int = 1) -> None:
    """Moves the pointer to a pixel of an unzoomed panel of 24 x 20."""
    view = page.locator(".slice:not([hidden]) .linked .view").nth(panel)
    view.scroll_into_view_if_needed()
    box = view.bounding_box()
    x, y = (column + 0.5) / 20 * box["width"], (row + 0.5) / 24 * box["height"]
    page.mouse.move(box["x"] + x, box["y"] + y)


def test_hostile_text_stays_text(open_page: Open, make_report: Callable[..., Report]) -> None:
    title = "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>"
    page = open_page(make_report(title=title, unit=title, provenance={title: title}))
    assert page.title() == page.locator("h1").text_content() == title
    page.wait_for_timeout(100)


def test_all_images_zoom_and_move_as_one(
    open_page: Open, make_report: Callable[..., Report]
) -> None:
    page = open_page(make_report())
    still = transforms(page)
    assert len(still) == 1
    point_at(page, 5, 5)
    page.mouse.wheel(0, -100)
    assert transforms(page) == still, "a page that scrolls past must not zoom"
    page.evaluate("scrollTo(0, 0)")
    point_at(page, 5, 5)
    page.mouse.down()
    page.mouse.up()
    page.mouse.wheel(0, -100)
    expect(page.locator("#zoom")).not_to_have_text("1.0×")
    zoomed = transforms(page)
    assert len(zoomed) == 1
    assert zoomed != still
    page.mouse.down()
    page.mouse.move(400, 500)
    page.mouse.up()
    assert len(transforms(page)) == 1
    assert transforms(page) != zoomed
    page.click("#next")
    assert len(transforms(page)) == 1, "the other slice keeps the place"
    page.click("#reset")
    assert transforms(page) == still


def test_the_pixel_under_the_pointer_stays_there_when_zoomed(
    open_page: Open, make_report: Callable[..., Report]
) -> None:
    page = open_page(make_report())
    page.locator(".panels").first.focus()
    point_at(page, 7, 13)
    expect(page.locator("#readout")).to_contain_text("row, column7, 13")
    before = page.locator("#readout").text_content()
    page.mouse.wheel(0, -100)
    expect(page.locator("#zoom")).not_to_have_text("1.0×")
    page.mouse.move(0, 0)
    point_at(page, 7, 13)
    assert page.locator("#readout").text_content() == before


def test_the_readout_gives_the_embedded_values(
    open_page: Open, make_report: Callable[..., Report]
) -> None:
    report = make_report()
    page = open_page(report)
    page.click("#next")
    for row, column, panel in [(0, 0, 0), (12, 9, 1), (23, 19, 4)]:
        point_at(page, row, column, panel)
        expect(page.locator("#readout")).to_contain_text(f"row, column{row}, {column}mean")
        text = page.locator("#readout").text_content().replace("−", "-")
        one, at = report.slices[1], (row, column)
        mean, std, unit = re.search(r"std([\d.-]+) ± ([\d.]+) (\S+?)ref", text).groups()
        (reference,) = re.search(r"reference([\d.-]+)", text).groups()
        assert float(mean) == pytest.approx(one.mean[at], abs=0.001)
        assert float(std) == pytest.approx(one.std[at], abs=0.001)
        assert float(reference) == pytest.approx(one.reference[at], abs=0.001)
        assert unit == "a.u."
    page.mouse.move(2, 2)
    assert "Point at an image" in page.locator("#readout").text_content()


def test_colour_has_a_value_per_channel(
    open_page: Open, make_report: Callable[..., Report], make_slice: Callable[..., Any]
) -> None:
    one = make_slice(shape=(24, 20, 3), count=1)
    page = open_page(make_report(slices=(one,)))
    point_at(page, 12, 3)
    expect(page.locator("#readout")).to_contain_text("row, column12, 3red mean")
    text = page.locator("#readout").text_content()
    for channel, name in enumerate(("red", "green", "blue")):
        (mean,) = re.search(rf"{name} mean ± std([\d.]+)", text).groups()
        assert float(mean) == pytest.approx(one.mean[12, 3, channel], abs=0.002)
    assert page.locator(".samples .player").count() == 0


def test_everything_works_from_the_keyboard(
    open_page: Open, make_report: Callable[..., Report]
) -> None:
    page = open_page(make_report(), reduced_motion="reduce")
    point_at(page, 12, 10)
    expect(page.locator("#readout")).to_contain_text("row, column12, 10mean")
    page.mouse.move(2, 2)
    seen: list[str] = []
    while "BODY" not in seen:
        page.keyboard.press("Tab")
        element = page.evaluate_handle("document.activeElement")
        seen.append(element.evaluate("one => one.id || one.className || one.tagName"))
        ring = element.evaluate("one => getComputedStyle(one).outlineStyle")
        name = seen[-1]
        assert ring != "none" or name == "BODY", seen
        if name.startswith("panels"):
            still = transforms(page)
            page.keyboard.press("+")
            assert len(transforms(page)) == 1
            assert transforms(page) != still
            zoomed = transforms(page)
            page.keyboard.press("ArrowRight")
            assert transforms(page) != zoomed
            page.keyboard.press("Shift+ArrowDown")
            assert "13, 10" in page.locator("#readout").text_content()
            page.keyboard.press("0")
            assert transforms(page) == still
        if name == "INPUT" and "range" not in seen:
            seen[-1] = "range"
            page.keyboard.press("ArrowRight")
            assert shown(page) == "Sample 2 of 5"
            page.keyboard.press("Home")
            assert shown(page) == "Sample 1 of 5"
    assert {"theme", "previous", "slice", "next", "out", "in", "level", "width", "reset"} <= {*seen}
    assert "panels columns-3" in seen
    assert "range" in seen
    assert seen.count("SUMMARY") == 3


def test_a_light_leads_to_its_slice(
    open_page: Open, make_report: Callable[..., Report], make_slice: Callable[..., Slice]
) -> None:
    lights = ("green", "red", "amber")
    slices = [make_slice(k, trust=Trust(light, "Because.")) for k, light in enumerate(lights)]
    gap = Gap("slice 3", "nothing is finite", Trust("red", "No numbers."))
    # So narrow that the tools take two rows.
    size = {"width": 1000, "height": 900}
    page = open_page(make_report(slices=(*slices, gap)), viewport=size)
    for k in (1, 3, 0):
        page.locator(".lights a").nth(k).click()
        expect(page.locator(f"#slice-{k}")).to_be_visible()
        assert page.locator(".slice:visible").count() == 1
        assert page.locator("#slice").input_value().startswith(f"slice {k}")
        assert page.locator(".lights a[aria-current=true]").all_inner_texts()[0].startswith(str(k))
        tools, heading = (
            page.locator(name).bounding_box() for name in (".tools", f"#slice-{k} h3")
        )
        assert heading["y"] >= tools["y"] + tools["height"], "the tools cover no heading"
    assert shown(page) == "Sample 1 of 5"


def test_players_start_and_stop_on_request_only(
    open_page: Open, make_report: Callable[..., Report]
) -> None:
    page = open_page(make_report())
    page.wait_for_timeout(600)
    assert shown(page) == "Sample 1 of 5"
    page.get_by_role("button", name="Play the samples").focus()
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Pause the samples").is_visible()
    expect(page.locator(".samples img[alt='Sample 3 of 5']").first).to_be_visible()
    page.keyboard.press("Space")
    stopped = shown(page)
    page.wait_for_timeout(600)
    assert shown(page) == stopped


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_until_switched(
    open_page: Open, make_report: Callable[..., Report], scheme: str
) -> None:
    page = open_page(make_report(), color_scheme=scheme)

    def is_dark() -> bool:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return bool(np.mean([int(part) for part in re.findall(r"\d+", colour)]) < 128)

    assert is_dark() == (scheme == "dark")
    page.click("#theme")
    assert is_dark() != (scheme == "dark")
    page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
    page.click("#theme")
    assert is_dark() == (scheme == "dark")
    page.emulate_media(media="print")
    assert not is_dark()


def test_level_and_width_move_every_grey_image_and_its_scale(
    open_page: Open, make_report: Callable[..., Report]
) -> None:
    page = open_page(make_report())
    page.locator("#width").fill("50")
    page.locator("#level").fill("40")
    ticks = page.locator(".slice:not([hidden]) .grey .ticks").all_inner_texts()
    assert {re.sub(r"\s+", " ", text) for text in ticks} == {"0.15 0.4 0.65"}
    slope, intercept = (
        float(page.locator("#window feFuncG").get_attribute(name))
        for name in ("slope", "intercept")
    )
    assert slope * 0.15 + intercept == pytest.approx(0)
    assert slope * 0.65 + intercept == pytest.approx(1)
    filters = page.locator(".grey .layer img").evaluate_all(
        "all => all.map(one => getComputedStyle(one).filter)"
    )
    assert set(filters) == {'url("#window")'}


def test_paper_shows_every_slice_and_no_control(
    open_page: Open, make_report: Callable[..., Report]
) -> None:
    page = open_page(make_report())
    assert page.locator(".slice:visible").count() == 1
    page.emulate_media(media="print")
    assert page.locator(".slice:visible").count() == 2
    assert page.locator(".panel:visible .layer img:visible").count() == 18
    for control in ("button", "input", "select", "#readout"):
        assert page.locator(f"{control}:visible").count() == 0
    assert len(page.pdf()) > 10_000


def test_without_script_all_is_there_but_controls(
    open_page: Open, make_report: Callable[..., Report]
) -> None:
    page = open_page(make_report(), java_script_enabled=False)
    assert page.locator(".slice:visible").count() == 2
    assert page.locator(".panel .layer img:visible").count() == 18
    assert page.locator("button:visible, input:visible").count() == 0


@pytest.mark.parametrize("width", [320, 400, 800])
def test_a_narrow_window_never_scrolls_sideways(
    open_page: Open, make_report: Callable[..., Report], width: int
) -> None:
    page = open_page(make_report(), viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_record_can_be_copied(open_page: Open, make_report: Callable[..., Report]) -> None:
    page = open_page(make_report(), permissions=["clipboard-read", "clipboard-write"])
    page.click("summary:has-text('Hashes')")
    page.click("#copy")
    expect(page.locator("#copied")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("#record").text_content()
    assert "9f86d081" in copied
