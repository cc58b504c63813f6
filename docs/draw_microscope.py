"""The picture of the README: one group of rollouts under two objectives, photographed from a page of `rlzoo inspect`.

rlzoo train train.steps=1 seed=1
rlzoo inspect runs/sums-stapo+clip_higher-1 step=0 objective=justrl against=justrl+entropy20 output=page.html
python docs/draw_microscope.py page.html docs/pictures/microscope.png
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
WIDTH = 520
HEADING = 64
MIXED = """
return [...document.querySelectorAll('div.group')].findIndex((group) => {
  const right = (group.innerText.match(/✓/g) ?? []).length, wrong = (group.innerText.match(/✗/g) ?? []).length;
  return right >= 2 && wrong >= 2;
});
"""
"""The first group with right and wrong responses."""


def photograph(page: Path, picture: Path) -> None:
    """The first group with right and wrong responses, once for each objective of the page."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ARGUMENTS:
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    screen = {"width": WIDTH, "height": 2400, "deviceScaleFactor": 2, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.get(page.resolve().as_uri())
    photographs = [seen(browser, number) for number in (0, 1)]
    browser.quit()
    sheet = Image.new("RGB", (photographs[0].width, sum(it.height for it in photographs)), "white")
    sheet.paste(photographs[0], (0, 0))
    sheet.paste(photographs[1], (0, photographs[0].height))
    sheet.convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(picture, optimize=True)


def seen(browser: WebDriver, view: int) -> Image.Image:
    """The group under one of the objectives, below its name."""
    label = browser.find_element(By.CSS_SELECTOR, f"label:has(#show-{'ab'[view]})")
    label.click()
    group = browser.find_elements(By.CSS_SELECTOR, "div.group")[browser.execute_script(MIXED)]
    rows = Image.open(io.BytesIO(group.screenshot_as_png))
    sheet = Image.new("RGB", (rows.width, rows.height + HEADING), "white")
    ImageDraw.Draw(sheet).text((8, 16), label.text, "black", ImageFont.load_default(30))
    sheet.paste(rows, (0, HEADING))
    return sheet


if __name__ == "__main__":
    photograph(Path(sys.argv[1]), Path(sys.argv[2]))
