"""The built site behind a server of its own, and headless Chromium; `make test-docs` sees to both."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.pages.chromium import browser, prepare

__all__ = ["browser"]

ROOT = Path(__file__).parents[3]
SITE = ROOT / "docs" / "_build" / "html"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where the site is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def visit(browser: WebDriver, address: str) -> Callable[..., WebDriver]:
    """Opens a page of the site, `width` pixels wide, in a colour scheme."""

    def show(page: str, width: int = 1280, scheme: str = "light") -> WebDriver:
        prepare(browser, width, scheme)
        browser.get(f"{address}/{page}")
        return browser

    return show
