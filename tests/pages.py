"""What tests of pages in a browser share."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# Far beyond what any page takes: a busy machine is slow, and not wrong.
PATIENCE = 600_000  # ms


def import_playwright() -> Any:
    """Playwright with patience; skips the test module where it is not installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    playwright.expect.set_options(timeout=PATIENCE)
    return playwright


@contextmanager
def open_browser() -> Iterator[Any]:
    """The browser of this machine; skips where there is none."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the PATH")
    with import_playwright().sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


def open_silently(context: Any) -> tuple[Any, list[str], list[str]]:
    """A page, what it will say (messages, errors, dialogues) and what it will ask for."""
    said: list[str] = []
    asked: list[str] = []
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message) or dialog.dismiss())
    page.on("request", lambda request: asked.append(request.url))
    return page, said, asked
