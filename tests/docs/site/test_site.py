"""The site in a browser: every page fits a phone and a desk, light and dark, says no error and asks nobody outside."""

from collections.abc import Callable

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait

from tests.docs.site.conftest import SITE

Visit = Callable[..., WebDriver]
PAGES = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html") if "_static" not in path.parts)
ASKED = "return performance.getEntriesByType('resource').map((it) => it.name)"
WIDTH = "return document.documentElement.scrollWidth"
LOST = "return [...document.images].filter((it) => it.complete && !it.naturalWidth).map((it) => it.src)"
CUT = """
const scrolls = (it) => it.tagName != 'ARTICLE'
  && (/auto|scroll/.test(getComputedStyle(it).overflowX) || scrolls(it.parentElement));
return [...document.querySelectorAll('article *')].filter((it) => it.getBoundingClientRect().right > arguments[0] + 1)
  .filter((it) => !scrolls(it)).map((it) => it.textContent.slice(0, 80));
"""
PAPER = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"


def test_there_is_a_page_for_each_method() -> None:
    from objectives import names

    recipes = {name.name for name in names() if name.kind == "recipe"}
    assert recipes <= {page.rpartition("/")[2].removesuffix(".html") for page in PAGES if "/methods/" in page}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_and_keeps_to_itself(page: str, address: str, visit: Visit) -> None:
    for width in (390, 1280):
        for scheme in ("light", "dark"):
            browser = visit(page, width, scheme)
            assert browser.execute_script(WIDTH) <= width, f"{width} pixels, {scheme}"
            assert browser.execute_script(CUT, width) == [], f"{width} pixels, {scheme}"
            assert [it for it in browser.get_log("browser") if it["level"] == "SEVERE"] == []
            assert [it for it in browser.execute_script(ASKED) if not it.startswith((address, "data:"))] == []
            assert browser.execute_script(LOST) == []
            assert (sum(browser.execute_script(PAPER)) < 200) == (scheme == "dark")


@pytest.mark.parametrize("words", ["clip_higher", "advantage mass", "kv_cache_gib"])
def test_search_finds(words: str, visit: Visit) -> None:
    browser = visit(f"search.html?q={words.replace(' ', '+')}")
    WebDriverWait(browser, 30).until(lambda it: it.find_elements(By.CSS_SELECTOR, "#search-results li a"))
    assert [it for it in browser.get_log("browser") if it["level"] == "SEVERE"] == []
