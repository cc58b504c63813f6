"""The page of the map in a browser: it fits a phone, is legible in both schemes, sorts, and stays by itself."""

from collections.abc import Callable

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

from rlzoo.lab.map.view import map_page
from rlzoo.lab.map.zoo_map import ZooMap
from tests.lab.map.test_map_view import hostile_map, small_map  # noqa: F401  (a fixture)
from tests.pages.test_leaderboard_page import CONTRAST, OVERFLOWING

Visit = Callable[..., WebDriver]
OPEN = "document.querySelectorAll('details').forEach((it) => { it.open = true; })"


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("change", [lambda found: found, hostile_map], ids=["plain", "hostile"])
def test_nothing_overflows_the_page(
    width: int,
    change: Callable[[ZooMap], ZooMap],
    small_map: ZooMap,  # noqa: F811
    visit: Visit,
) -> None:
    browser = visit(map_page(change(small_map)), width)
    browser.execute_script(OPEN)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(OVERFLOWING) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_is_legible_in_both_colour_schemes(scheme: str, small_map: ZooMap, visit: Visit) -> None:  # noqa: F811
    browser = visit(map_page(small_map), scheme=scheme)
    browser.execute_script(OPEN)
    assert browser.execute_script(CONTRAST) >= 4.5


def test_the_page_is_silent_and_loads_nothing(small_map: ZooMap, visit: Visit) -> None:  # noqa: F811
    browser = visit(map_page(small_map))
    browser.execute_script(OPEN)
    loaded = (
        "return performance.getEntriesByType('resource').map((it) => it.name).filter((it) => !it.startsWith('data:'))"
    )
    assert browser.execute_script(loaded) == []
    assert browser.get_log("browser") == []


def test_a_table_sorts_by_its_headings(small_map: ZooMap, visit: Visit) -> None:  # noqa: F811
    browser = visit(map_page(small_map))
    browser.find_element(By.CSS_SELECTOR, "th:nth-child(2) button").click()
    script = (
        "return [...document.querySelector('table').tBodies[0].rows].map((it) => Number(it.cells[1].dataset.value))"
    )
    values = browser.execute_script(script)
    assert values == sorted(values, reverse=True)
