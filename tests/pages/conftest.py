"""Opens the pages that rlzoo writes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.pages.chromium import browser, prepare

__all__ = ["browser"]


@pytest.fixture
def visit(browser: WebDriver, tmp_path: Path) -> Callable[..., WebDriver]:
    """Opens the text of a page, `width` pixels wide, in a colour scheme."""

    def show(text: str, width: int = 1200, scheme: str = "light") -> WebDriver:
        (tmp_path / "page.html").write_text(text, encoding="utf-8")
        prepare(browser, width, scheme)
        browser.get((tmp_path / "page.html").as_uri())
        return browser

    return show
