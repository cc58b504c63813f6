"""The leaderboard's page in a browser: it fits a phone, sorts, changes with the colour scheme, and stays by itself."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

from rlzoo.comparing.grid import RowName
from rlzoo.comparing.leaderboard import Leaderboard, Touched
from rlzoo.errors import printable
from rlzoo.report.leaderboard import page
from tests.comparing.finished_runs import make_board
from tests.report.test_page import HOSTILE, hostile

Visit = Callable[..., WebDriver]
PHONE_HEIGHT = 844
OVERFLOWING = """
const wide = [];
for (const element of document.body.querySelectorAll("*")) {
  const box = element.getBoundingClientRect();
  if (box.right > innerWidth + 1 && !element.closest(".scroll, svg")) wide.push(element.outerHTML.slice(0, 200));
}
return wide;
"""
CUT_OFF = """
return [...document.querySelectorAll(".scroll")].filter((it) => it.scrollWidth > it.clientWidth)
  .map((it) => [it.getAttribute("aria-label"), it.scrollWidth - it.clientWidth]);
"""
CONTRAST = """
const channels = (color) => color.match(/[\\d.]+/g).slice(0, 3).map((value) => value / 255);
const linear = (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = (color) => {
  const [r, g, b] = channels(color).map(linear);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
};
const paper = light(getComputedStyle(document.body).backgroundColor);
const ratio = (color) => Math.max(light(color), paper) / Math.min(light(color), paper);
const inks = [...document.querySelectorAll("h1, p, td, th, dt, dd, figcaption, figure text, .better, .worse")];
return Math.min(...inks.map((it) => ratio(getComputedStyle(it)[it.tagName === "text" ? "fill" : "color"])));
"""


BOXES = """
const box = (it) => it.getBoundingClientRect().toJSON();
return [...document.querySelector("table.results").tBodies[0].rows]
  .map((row) => [box(row.closest(".scroll")), box(row.cells[0]), box(row.querySelector(".difference"))]);
"""
LINES = """
return [...document.querySelectorAll("th code")].map((code) => {
  const lines = [], range = document.createRange();
  let last = null;
  for (const node of [...code.childNodes].filter((it) => it.nodeType === 3)) for (let i = 0; i < node.length; i++) {
    range.setStart(node, i);
    range.setEnd(node, i + 1);
    const top = range.getBoundingClientRect().top;
    if (last === null || Math.abs(top - last) > 4) lines.push("");
    last = top;
    lines[lines.length - 1] += node.data[i];
  }
  return lines;
});
"""


@pytest.fixture(scope="session")
def board(tmp_path_factory: pytest.TempPathFactory) -> Leaderboard:
    """Two recipes, two seeds."""
    return make_board(tmp_path_factory.mktemp("runs"))


def long(board: Leaderboard) -> Leaderboard:
    """Expressions and names that are too long for any screen."""
    rows = [replace(row, name=RowName(f"{'x' * 300}{i}", "a" * 200)) for i, row in enumerate(board.rows)]
    environment = {"commit": ["c" * 200], "n" * 100: ["v"]}
    return replace(board, title="t" * 200, rows=rows, environment=environment, notes=["n" * 200])


def ablated(board: Leaderboard) -> Leaderboard:
    """A recipe, and the same without something."""
    names = [RowName("advantage_reweighting"), RowName("grpo", "advantage_reweighting", "dynamic_sampling")]
    rows = [replace(row, name=name) for row, name in zip(board.rows, names, strict=True)]
    return replace(board, rows=rows)


def named(board: Leaderboard) -> Leaderboard:
    """Expressions as people write them, with unequal parts."""
    names = ["advantage_reweighting", "stapo(tau_p=0.005,q=0.8)+clip_higher-dynamic_sampling"]
    parts = ["advantage_reweighting", "clip", "clip_higher", "dynamic_sampling", "s2t", "soft_overlong", "top_entropy"]
    touched = [Touched(part, 0.000123456, 0.123456) for part in parts]
    rows = [
        replace(row, name=RowName(names[i], names[-i]), training=replace(training, touched=touched))
        for i, (row, training) in enumerate(zip(board.rows, board.trainings.values(), strict=True))
    ]
    return replace(board, rows=rows)


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("change", [lambda board: board, long, hostile], ids=["plain", "long", "hostile"])
def test_nothing_overflows_the_page(
    width: int, change: Callable[[Leaderboard], Leaderboard], board: Leaderboard, visit: Visit
) -> None:
    browser = visit(page(change(board)), width)
    for summary in browser.find_elements(By.CSS_SELECTOR, "details:not([open]) > summary"):
        summary.click()
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(OVERFLOWING) == []


@pytest.mark.parametrize(
    "change", [lambda board: board, named, ablated, long], ids=["plain", "named", "ablated", "long"]
)
def test_on_a_phone_the_name_of_a_row_and_its_difference_are_visible_together(
    change: Callable[[Leaderboard], Leaderboard], board: Leaderboard, visit: Visit
) -> None:
    for around, *shown in visit(page(change(board)), 390).execute_script(BOXES):
        assert all(around["left"] <= box["left"] < box["right"] <= around["right"] for box in shown)
        assert 0 < shown[1]["bottom"] - shown[0]["top"] < PHONE_HEIGHT


@pytest.mark.parametrize("change", [lambda board: board, named, ablated], ids=["plain", "named", "ablated"])
def test_at_1280_pixels_nothing_is_cut_off(
    change: Callable[[Leaderboard], Leaderboard], board: Leaderboard, visit: Visit
) -> None:
    browser = visit(page(change(board)), 1280)
    for summary in browser.find_elements(By.CSS_SELECTOR, "details:not([open]) > summary"):
        summary.click()
    assert browser.execute_script(CUT_OFF) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_names_do_not_break_inside_words(width: int, board: Leaderboard, visit: Visit) -> None:
    browser = visit(page(named(board)), width)
    for lines in browser.execute_script(LINES):
        assert not any(line[-1].isalnum() for line in lines[:-1]), lines


def accuracies(browser: WebDriver) -> list[str]:
    """The first figures of the first table."""
    table = browser.find_element(By.CSS_SELECTOR, "table.sortable")
    return [cell.text.split()[0] for cell in table.find_elements(By.CSS_SELECTOR, "tbody td:nth-child(2)")]


def test_a_heading_sorts_its_column_by_mouse_and_by_keyboard(board: Leaderboard, visit: Visit) -> None:
    browser = visit(page(board))
    heading = browser.find_element(By.CSS_SELECTOR, "thead th:nth-child(2)")
    assert heading.get_attribute("aria-sort") == "descending"
    down = accuracies(browser)
    assert down == sorted(down, key=float, reverse=True) and len(set(down)) == 2
    heading.find_element(By.TAG_NAME, "button").click()
    assert accuracies(browser) == down[::-1] and heading.get_attribute("aria-sort") == "ascending"
    heading.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert accuracies(browser) == down and heading.get_attribute("aria-sort") == "descending"
    browser.find_element(By.CSS_SELECTOR, "thead th:first-child button").click()
    assert heading.get_attribute("aria-sort") is None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_in_both_colour_schemes(scheme: str, board: Leaderboard, visit: Visit) -> None:
    browser = visit(page(board), scheme=scheme)
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    assert browser.execute_script(CONTRAST) >= 4.5


def test_hostile_text_is_shown_and_not_run(board: Leaderboard, visit: Visit) -> None:
    browser = visit(page(hostile(board)))
    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert
    assert browser.get_log("browser") == []
    shown = browser.find_element(By.TAG_NAME, "h1").get_attribute("textContent") or ""
    assert printable(HOSTILE) in shown and printable(HOSTILE).startswith(HOSTILE.rstrip("\u202e"))
    browser.find_element(By.CSS_SELECTOR, "thead th:first-child button").click()
    assert browser.find_elements(By.TAG_NAME, "img") == []
