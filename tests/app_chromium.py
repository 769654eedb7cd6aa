"""The web page in Chromium, for the tests that use it as people do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from app_visitors import SMALL

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the browser, or skip and say what is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if not CHROMIUM:
        pytest.skip("needs Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


def open_page(browser: Any, url: str, width: int, height: int) -> Any:
    """Open the page in a window of its own; the caller closes its ``context``."""
    opened = browser.new_context(viewport={"width": width, "height": height}).new_page()
    opened.set_default_timeout(120_000)  # the first match may have to compile
    opened.goto(url)
    opened.wait_for_selector("#views img")
    return opened


def choose(page: Any, source: str) -> None:
    """Choose a room, or the visitor's own images."""
    page.locator(f"#source input[value='{source}']").check()


def match_small_room(page: Any, preset: str = "fast") -> None:
    """Match the small room and wait for its result."""
    choose(page, SMALL)
    page.locator("#preset").get_by_label(preset).check()
    page.wait_for_function("document.querySelector('#last input').value === '32'")
    page.click("#match")
    page.wait_for_selector("#status .sc-done")
    page.wait_for_selector("#viewer .sc-frame[data-stamp]")
