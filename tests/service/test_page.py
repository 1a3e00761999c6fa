"""The page in a browser: a file is dropped, its result is shown; nothing is asked of elsewhere."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pages import import_playwright, open_silently
from tests.service.cases import TOKENS, write_scan

from bcdm.benchmark.serving import Server

expect = import_playwright().expect
EVIL = "<img src=x onerror=alert(1)><script>alert(1)</script>.npz"


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    """The page of the service; what it says, or asks of elsewhere, fails the test at its end."""
    home = f"http://127.0.0.1:{server.port}/"
    context = browser.new_context(
        viewport={"width": 1200, "height": 1000},
        http_credentials={"username": "me", "password": TOKENS["clinic"]},
    )
    one, said, asked = open_silently(context)
    one.goto(home)
    yield one
    context.close()
    assert said == []
    assert [url for url in asked if not url.startswith((home, "data:"))] == []


def drop(page: Any, name: str, content: bytes) -> None:
    """Drops a file on the zone, as a pointer would."""
    given = page.evaluate_handle(
        """([name, text]) => {
            const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
            const held = new DataTransfer();
            held.items.add(new File([bytes], name));
            return held;
        }""",
        [name, base64.b64encode(content).decode()],
    )
    page.dispatch_event("#zone", "dragover", {"dataTransfer": given})
    page.dispatch_event("#zone", "drop", {"dataTransfer": given})


def choose_fast(page: Any) -> None:
    page.click("text=Settings")
    for name, value in (("samples", "9"), ("calls", "2"), ("noise_std", "2.5")):
        page.fill(f"input[name={name}]", value)
    page.check("input[name=force]")


def test_a_dropped_file_is_reconstructed_and_shown(page: Any, scan: Path) -> None:
    choose_fast(page)
    drop(page, "brain.npz", scan.read_bytes())
    expect(page.locator("#jobs tr").first).to_contain_text("brain.npz")
    expect(page.locator("#result")).to_be_visible()
    report = page.frame_locator("#report")
    expect(report.locator(".light .verdict")).to_be_visible()
    for name in ("Posterior mean", "Standard deviation"):
        expect(report.locator("h4", has_text=name).first).to_be_visible()
    slider = report.locator(".samples .player input")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(report.locator(".samples .player output")).to_have_text("2 of 9")
    # The frame is as high as the report.
    expect(report.locator("footer")).to_be_visible()
    inner = page.evaluate(
        "document.getElementById('report').contentDocument.documentElement.scrollHeight"
    )
    assert abs(page.locator("#report").bounding_box()["height"] - inner) <= 2
    with page.expect_download() as held:
        page.click("#download")
    assert held.value.path().read_bytes()[:2] == b"PK"


def test_one_switch_turns_page_and_report_dark(page: Any, scan: Path) -> None:
    expect(page.get_by_role("button", name="Show brain.npz").first).to_be_visible()
    page.get_by_role("button", name="Show brain.npz").first.click()
    inside = page.frame_locator("#report").locator("body")
    expect(inside).to_be_visible()
    page.click("#theme")
    for body in (page.locator("body"), inside):
        expect(body).to_have_css("background-color", "rgb(20, 23, 26)")
    expect(page.locator("#theme")).to_have_text("Light theme")


def test_names_and_reasons_stay_text(page: Any) -> None:
    drop(page, EVIL, b"no scan")
    row = page.locator("#jobs tr", has_text="onerror").first
    expect(row).to_contain_text("Failed")
    expect(page.locator("#result-title")).to_have_text(EVIL)
    assert page.locator("main img, main script").count() == 0


def test_it_is_usable_from_the_keyboard(page: Any, scanner: Path, tmp_path: Path) -> None:
    expect(page.locator("#jobs tr").first).to_be_visible()
    seen: list[str] = []
    for _ in range(8):
        page.keyboard.press("Tab")
        found = page.evaluate_handle("document.activeElement")
        seen.append(found.evaluate("one => one.id || one.textContent"))
        if seen[-1] == "file":
            ring = page.evaluate("getComputedStyle(document.getElementById('zone')).outlineStyle")
            assert ring != "none"
            path = write_scan(tmp_path / "keys.npz", scanner, 1)
            page.set_input_files("#file", path)
    assert seen[:3] == ["theme", "file", "Settings"]
    assert "Show" in seen or "Cancel" in seen
    expect(page.locator("#jobs tr", has_text="keys.npz").first).not_to_contain_text("Waiting")


@pytest.mark.parametrize("width", [360, 800])
def test_a_narrow_window_never_scrolls_sideways(page: Any, width: int) -> None:
    expect(page.locator("#jobs tr").first).to_be_visible()
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_address_may_hold_name_and_password(browser: Any, server: Server) -> None:
    """A browser keeps both in the page's address, and fetch refuses such addresses."""
    context = browser.new_context()
    page, _, _ = open_silently(context)
    page.goto(f"http://me:{TOKENS['clinic']}@127.0.0.1:{server.port}/")
    expect(page.locator("#jobs tr").first).to_be_visible()
    expect(page.locator("#status")).to_be_empty()
    context.close()
