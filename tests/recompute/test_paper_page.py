"""The report of the paper's study as a page: small, silent in a real browser, and a filter for what disagrees."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from recompute.recomputation import recompute
from recompute.report.page import to_html

STUDY = Path(__file__).parents[2] / "studies" / "paper"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("paper") / "paper.html"
    path.write_text(to_html(recompute(STUDY, trace=True).report), encoding="utf-8", newline="\n")
    return path


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    absent = [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]
    if absent or find_spec("selenium") is None:
        told = f"missing: {', '.join(absent) or 'selenium'}; next: apt-get install chromium chromium-driver"
        (pytest.fail if os.environ.get("RIDGEFILL_REQUIRE_BROWSER") == "1" else pytest.skip)(told)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in (
        "--headless=new",
        "--window-size=1280,900",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(str(shutil.which("chromedriver"))))
    yield driver
    driver.quit()


def test_the_page_is_under_two_megabytes_and_the_same_each_time(page: Path) -> None:
    assert page.stat().st_size < 2_000_000
    assert page.read_text(encoding="utf-8") == to_html(recompute(STUDY, trace=True).report)


def test_it_opens_without_a_word_and_shows_what_disagrees(page: Path, chrome: Any) -> None:
    chrome.get(page.as_uri())
    assert chrome.get_log("browser") == []
    count = "return [...document.querySelectorAll('#rows tbody')].filter(row => !row.hidden).length"
    assert chrome.execute_script(count) == 1346
    chosen = chrome.find_element("css selector", ".tools label:has([value=failing])")
    chrome.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", chosen)
    chrome.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0], 50))")
    chosen.click()
    assert chrome.execute_script(count) == 7
    shown = chrome.execute_script(
        "return [...document.querySelectorAll('#rows tbody')].filter(row => !row.hidden).map(row => row.textContent)"
    )
    for told in ("79.6", "n = 136 or 137 would fit", "16.547", "1,452,188,032", "30.874 to 31.499", "42.504 to 43.164"):
        assert any(told in row for row in shown), told
    assert chrome.get_log("browser") == []
