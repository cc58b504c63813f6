"""The microscope's page in a browser: a token opens by key and by finger, and everything is legible and fits."""

from collections.abc import Callable

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement

from rlzoo.inspecting.microscope import Microscope
from rlzoo.report.microscope_page import microscope_page
from tests.inspecting.microscopes import hostile, make_run, make_scope
from tests.pages.test_leaderboard_page import CONTRAST, OVERFLOWING
from tests.report.test_page import HOSTILE

Visit = Callable[..., WebDriver]
TOKEN_CONTRAST = """
const parts = (color) => {
  const numbers = color.match(/-?[\\d.]+(e-?\\d+)?/g).map(Number);
  const unit = color.startsWith("color(") ? 1 : 255;
  return [...numbers.slice(0, 3).map((value) => value / unit), numbers[3] ?? 1];
};
const paper = parts(getComputedStyle(document.body).backgroundColor);
const linear = (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) + 0.05;
return Math.min(...[...document.querySelectorAll(".tokens i, .verdict .chip")].map((token) => {
  const style = getComputedStyle(token), [r, g, b, a] = parts(style.backgroundColor);
  const ground = light([r, g, b].map((c, i) => a * c + (1 - a) * paper[i])), ink = light(parts(style.color));
  return Math.max(ground, ink) / Math.min(ground, ink);
}));
"""


@pytest.fixture(scope="session")
def scope(tmp_path_factory: pytest.TempPathFactory) -> Microscope:
    """Two objectives; one masks most tokens."""
    words = ("objective=lopti+stapo(tau_p=0.5,q=1)+ar", "rollout.prompts_per_step=16", "rollout.responses_per_prompt=8")
    run = make_run(tmp_path_factory.mktemp("runs") / "run", *words)
    return make_scope(run, "step=0", "against=entropy20")


def panel(browser: WebDriver) -> WebElement:
    """Where a token's numbers appear."""
    return browser.find_element(By.ID, "panel")


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("change", [lambda scope: scope, hostile], ids=["plain", "hostile"])
def test_nothing_overflows_the_page(
    width: int, change: Callable[[Microscope], Microscope], scope: Microscope, visit: Visit
) -> None:
    browser = visit(microscope_page(change(scope)), width)
    browser.execute_script("document.querySelectorAll('details').forEach((it) => { it.open = true; })")
    browser.execute_script("document.querySelector('.tokens[role=listbox] i').click()")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(OVERFLOWING) == []


def test_the_keys_walk_over_the_tokens(scope: Microscope, visit: Visit) -> None:
    browser = visit(microscope_page(scope))
    first, second = browser.find_elements(By.CSS_SELECTOR, ".tokens[role=listbox]")[:2]
    first.send_keys(Keys.HOME)
    assert "token 1 of" in panel(browser).text
    first.send_keys(Keys.ARROW_RIGHT)
    assert "token 2 of" in panel(browser).text and "importance ratio" in panel(browser).text
    chosen = first.find_element(By.ID, first.get_attribute("aria-activedescendant") or "")
    assert chosen.get_attribute("aria-selected") == "true"
    first.send_keys(Keys.ARROW_DOWN)
    assert browser.switch_to.active_element == second
    assert first.get_attribute("aria-activedescendant") is None
    second.send_keys(Keys.END)
    count = len(second.find_elements(By.TAG_NAME, "i"))
    assert f"token {count} of {count}" in panel(browser).text


def test_a_finger_opens_a_token_and_closes_it_again(scope: Microscope, visit: Visit) -> None:
    browser = visit(microscope_page(scope), 390)
    assert not panel(browser).is_displayed()
    token = browser.find_element(By.CSS_SELECTOR, ".tokens[role=listbox] i")
    browser.execute_script("arguments[0].scrollIntoView({block: 'start'})", token)
    token.click()
    at = token.rect["y"] - browser.execute_script("return scrollY")
    box = browser.execute_script("return document.getElementById('panel').getBoundingClientRect().toJSON()")
    assert panel(browser).is_displayed() and box["bottom"] <= 844 and box["top"] >= 0.4 * 844 and 0 <= at < box["top"]
    panel(browser).find_element(By.TAG_NAME, "button").click()
    assert not panel(browser).is_displayed()


def test_a_masked_token_says_which_part_masks_it(scope: Microscope, visit: Visit) -> None:
    browser = visit(microscope_page(scope))
    browser.find_element(By.CSS_SELECTOR, ".tokens[role=listbox] i.as").click()
    assert "The token is masked by s2t. Without s2t its gradient would be +" in panel(browser).text


def test_the_switches_change_which_gradient_is_seen(scope: Microscope, visit: Visit) -> None:
    browser = visit(microscope_page(scope))

    def colours() -> list[str]:
        script = "return [...document.querySelectorAll('.reply i')].map((it) => getComputedStyle(it).background)"
        return list(browser.execute_script(script))

    seen = [colours()]
    for name in ("show-b", "show-d", "on-logit"):
        browser.find_element(By.ID, name).find_element(By.XPATH, "..").click()
        seen.append(colours())
    assert all(a != b for i, a in enumerate(seen) for b in seen[:i])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("shown", ["on-gradient", "on-logit"])
def test_every_shade_is_legible_in_both_colour_schemes(
    scheme: str, shown: str, scope: Microscope, visit: Visit
) -> None:
    browser = visit(microscope_page(scope), scheme=scheme)
    browser.execute_script(f"document.getElementById('{shown}').click()")
    assert browser.execute_script(TOKEN_CONTRAST) >= 4.5
    assert browser.execute_script(CONTRAST) >= 4.5


def test_hostile_text_is_shown_and_not_run(scope: Microscope, visit: Visit) -> None:
    browser = visit(microscope_page(hostile(scope)))
    assert browser.get_log("browser") == [] and browser.find_elements(By.TAG_NAME, "img") == []
    browser.find_element(By.CSS_SELECTOR, ".tokens[role=listbox] i").click()
    assert HOSTILE.split("<")[0] in panel(browser).text and browser.find_elements(By.TAG_NAME, "img") == []
