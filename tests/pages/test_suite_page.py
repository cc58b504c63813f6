"""The page of the suite in a browser: it fits a phone, is legible in both schemes, sorts, and stays by itself."""

from collections.abc import Callable

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

from rlzoo.lab.suite.suite import SuiteTable
from rlzoo.lab.suite.view import suite_page
from tests.lab.suite.test_suite_view import hostile_suite, small_suite  # noqa: F401  (a fixture)
from tests.pages.test_leaderboard_page import CONTRAST, OVERFLOWING
from tests.pages.test_map_page import OPEN

Visit = Callable[..., WebDriver]


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("change", [lambda found: found, hostile_suite], ids=["plain", "hostile"])
def test_nothing_overflows_the_page(
    width: int,
    change: Callable[[SuiteTable], SuiteTable],
    small_suite: SuiteTable,  # noqa: F811
    visit: Visit,
) -> None:
    browser = visit(suite_page(change(small_suite)), width)
    browser.execute_script(OPEN)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(OVERFLOWING) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_is_legible_in_both_colour_schemes(
    scheme: str,
    small_suite: SuiteTable,  # noqa: F811
    visit: Visit,
) -> None:
    browser = visit(suite_page(small_suite), scheme=scheme)
    browser.execute_script(OPEN)
    assert browser.execute_script(CONTRAST) >= 4.5


def test_the_page_is_silent_and_loads_nothing(small_suite: SuiteTable, visit: Visit) -> None:  # noqa: F811
    browser = visit(suite_page(small_suite))
    browser.execute_script(OPEN)
    loaded = (
        "return performance.getEntriesByType('resource').map((it) => it.name).filter((it) => !it.startsWith('data:'))"
    )
    assert browser.execute_script(loaded) == []
    assert browser.get_log("browser") == []


def test_claims_sort_by_their_verdicts(small_suite: SuiteTable, visit: Visit) -> None:  # noqa: F811
    browser = visit(suite_page(small_suite))
    for _ in range(2):
        browser.find_element(By.CSS_SELECTOR, "thead th:nth-child(2) button").click()
    script = "return [...document.querySelector('table').tBodies[0].rows].map((it) => it.cells[1].textContent.trim())"
    assert [said.split(":")[0] for said in browser.execute_script(script)] == ["holds here", "cannot tell", "void"]
