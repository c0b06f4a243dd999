"""The page in a real headless Chromium: it opens, draws what the numbers say, and asks nobody for anything."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from recompute.report.page import to_html

ODD = "<img src=x onerror=alert(1)>\"' \U0001f600 \u05d0\u05d1\u202e"


def _missing() -> str:
    if find_spec("selenium") is None:
        return 'selenium is not installed; next: pip install "ridgefill[dev]"'
    absent = [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]
    return f"{', '.join(absent)} is not here; next: apt-get install chromium chromium-driver" if absent else ""


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    """A browser that tells its console and every request. Without one: a skip, or a failure where CI requires it."""
    if missing := _missing():
        if os.environ.get("RIDGEFILL_REQUIRE_BROWSER") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(str(shutil.which("chromedriver"))))
    yield driver
    driver.quit()


Show = Callable[..., Any]


@pytest.fixture
def show(chrome: Any, samples: ModuleType, tmp_path: Path) -> Show:
    """Open a report's page: show("sample", width=360, dark=True, script=False)."""
    reports = {
        "sample": samples.sample,
        "large": samples.large,
        "crowded": samples.crowded,
        "odd": lambda: samples.renamed(ODD),
    }

    def opened(name: str, width: int = 1280, *, dark: bool = False, still: bool = True, script: bool = True) -> Any:
        html = to_html(reports[name]())
        if not script:
            html = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
        page = tmp_path / f"{name}.html"
        page.write_text(html, encoding="utf-8", newline="\n")
        features = {"prefers-color-scheme": "dark" if dark else "light"}
        features["prefers-reduced-motion"] = "reduce" if still else "no-preference"
        told = [{"name": feature, "value": value} for feature, value in features.items()]
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": told})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        chrome.get("about:blank")
        for kind in ("browser", "performance"):
            chrome.get_log(kind)
        chrome.get(page.as_uri())
        return chrome

    return opened


def ask(chrome: Any, script: str, *arguments: Any) -> Any:
    return chrome.execute_script(f"const all = (query, from = document) => [...from.querySelectorAll(query)];{script}",
                                 *arguments)  # fmt: skip


def click(chrome: Any, element: Any) -> None:
    """As a person does: in view, with the mouse; then wait until what it opened is filled."""
    ask(chrome, "arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()
    chrome.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0], 0))")


# --- it opens


@pytest.mark.parametrize("name", ["sample", "large", "crowded", "odd"])
def test_nothing_is_said_on_the_console_and_nothing_is_asked_of_the_network(show: Show, name: str) -> None:
    chrome = show(name)
    ask(chrome, "all('details').slice(0, 40).forEach(one => one.open = true)")
    chrome.execute_async_script("setTimeout(arguments[0], 50)")
    events = [json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith("data:")] == [chrome.current_url]
    assert chrome.get_log("browser") == []
    assert ask(chrome, "return performance.getEntriesByType('resource').length") == 0


def test_a_script_that_is_not_its_own_does_not_run(show: Show, tmp_path: Path) -> None:
    chrome = show("sample")
    page = tmp_path / "sample.html"
    html = page.read_text(encoding="utf-8").replace("<main>", "<main><script>window.broken = 1</script>")
    page.write_text(html, encoding="utf-8", newline="\n")
    chrome.get(page.as_uri())
    assert ask(chrome, "return window.broken === undefined")
    assert any("Content Security Policy" in entry["message"] for entry in chrome.get_log("browser"))


# --- traces


TRACE = """
const [details] = arguments;
const depth = (li) => {
  const up = li.parentElement.closest("li");
  return up && details.contains(up) ? 1 + depth(up) : 0;
};
const steps = all(".trace b", details).map((what) => [
  what.textContent, what.previousElementSibling.textContent, depth(what.closest("li")), what.checkVisibility(),
]);
return { steps, query: details.querySelector("pre").textContent };
"""


def test_every_values_trace_opens_on_a_click_down_to_the_last_step(show: Show, samples: ModuleType) -> None:
    report, chrome = samples.sample(), show("sample")
    links = {value.id: report.links[value.id] for value in report.values}
    rows = chrome.find_elements("css selector", "#rows tbody")
    named = {row.find_element("css selector", "th").text: row for row in rows}
    for name, link in links.items():
        details = named[name].find_element("css selector", "details")
        click(chrome, details.find_element("css selector", "summary"))
        told = ask(chrome, TRACE, details)
        steps = [(below.what, below.edge.value, depth, True) for depth, below in link.walk()]
        assert [tuple(step) for step in told["steps"]] == steps, name
        assert told["query"] == next(value.query for value in report.values if value.id == name)


def test_a_prediction_has_its_trace_too(show: Show, samples: ModuleType) -> None:
    chrome = show("sample")
    summaries = chrome.find_elements("css selector", ".prediction summary")
    assert len(summaries) == sum(one.value is not None for one in samples.sample().decided)
    click(chrome, summaries[0])
    assert "checkpoints/24.note" in chrome.find_element("css selector", ".prediction details").text


def test_without_its_script_rows_open_and_shared_steps_are_a_link_away(show: Show) -> None:
    chrome = show("sample", script=False)
    assert not chrome.find_element("css selector", ".tools").is_displayed()
    click(chrome, chrome.find_element("css selector", "#rows summary"))
    more = chrome.find_element("css selector", "#rows a.more")
    assert more.is_displayed()
    target = more.get_attribute("href").partition("#")[2]
    click(chrome, more)
    assert chrome.find_element("id", target).is_displayed()


# --- what is drawn


AFFINE = """
const [ticks, marks] = arguments, axis = arguments[2];
const middle = (node) => { const box = node.getBoundingClientRect();
  return axis === "x" ? box.x + box.width / 2 : box.y + box.height / 2; };
const [first, last] = [ticks[0], ticks.at(-1)], [a, b] = [Number(first.textContent), Number(last.textContent)];
const [p, q] = [middle(first), middle(last)];
return marks.map((mark) => a + (middle(mark) - p) * (b - a) / (q - p)).concat(Math.abs((b - a) / (q - p)));
"""


LOOKS = """
return all(".key svg:not(svg svg)", arguments[0]).map((key) => {
  const rect = key.querySelector("rect");
  const [mark, line] = [key.querySelector("path"), key.querySelector("line")];
  if (!rect) return [mark.getAttribute("d"), line.getAttribute("stroke-dasharray"), mark.classList.contains("hollow")];
  const pattern = document.querySelector(rect.getAttribute("fill").slice(4, -1));
  return [pattern.getAttribute("patternTransform"), pattern.innerHTML];
});
"""
BOTTOMS = """
const box = (node) => node.getBoundingClientRect();
const [chart] = arguments;
return all("svg[role=img] text", chart).map((text) => box(text).bottom).concat(box(chart.querySelector("summary")).top);
"""
REACH = """
const [bar] = arguments, box = (query) => bar.querySelector(query).getBoundingClientRect();
const middles = all(".cap", bar).map((cap) => cap.getBoundingClientRect()).map((cap) => cap.x + cap.width / 2);
return [[box(".ci").left, box(".ci").right], box(".strip").left, box(".strip").right, ...middles];
"""


@pytest.mark.parametrize("width", [1280, 360])
def test_the_forest_plot_has_every_value_interval_and_threshold_where_the_axis_says(
    show: Show, samples: ModuleType, width: int
) -> None:
    decided = {one.id: one for one in samples.sample().decided if one.value}
    chrome = show("sample", width)
    panels = chrome.find_elements("css selector", ".panel")
    assert len(panels) == 3
    for panel in panels:
        ticks = panel.find_elements("css selector", ".axis text")
        assert len(ticks) >= 2
        for bar in panel.find_elements("css selector", ".bar:has(.dot)"):
            one = decided.pop(bar.find_element("css selector", "a").text)
            estimate = one.value.estimate
            marks = bar.find_elements("css selector", ".dot, .cap, .threshold")
            *found, pixel = ask(chrome, AFFINE, ticks, marks, "x")
            threshold = re.search(r"[<>]=? (\S+)", one.rule)
            assert threshold is not None
            ends = [end for end in estimate.ends if end is not None]
            wanted = [float(threshold[1]), *map(float, ends), float(estimate.value)]
            assert found == pytest.approx(wanted, abs=1.5 * pixel), one.id
            assert one.verdict.value in bar.text
            line, *edges = ask(chrome, REACH, bar)
            open_ends = [index for index, end in enumerate(estimate.ends) if end is None]
            caps = [edges[index] if index in open_ends else None for index in (0, 1)]
            inner = iter(edges[2:])
            assert line == pytest.approx([next(inner) if cap is None else cap for cap in caps], abs=1.5), one.id
    assert decided == {}


def test_the_plots_have_a_point_for_every_value_where_the_axis_says(show: Show, samples: ModuleType) -> None:
    report, chrome = samples.sample(), show("sample")
    values = {value.id: value.estimate for value in report.values}
    line, bars = chrome.find_elements("css selector", ".chart")
    for chart, table, labels, mark in (
        (line, "split", samples.SPLITS, "path"),
        (bars, "speed", samples.LENGTHS, "rect"),
    ):
        series = samples.ARMS if chart is line else tuple(samples.SECONDS)
        wanted = [values[f"{table}/{label}/{name}"] for name in series for label in labels]
        wanted = [estimate for estimate in wanted if estimate is not None]
        points = chart.find_elements("css selector", ".point")
        assert len(points) == len(wanted) == (12 if chart is line else 11)
        assert len(chart.find_elements("css selector", ".point > line")) == len(wanted)
        assert [one.text for one in chart.find_elements("css selector", ".key li")] == list(series)
        ticks = chart.find_elements("css selector", ".plot > svg:first-of-type text")
        marks = [point.find_element("css selector", mark) for point in points]
        whiskers = [point.find_element("css selector", ":scope > line") for point in points]
        *middles, pixel = ask(chrome, AFFINE, ticks, whiskers, "y")
        assert middles == pytest.approx([float(sum(one.ends) / 2) for one in wanted], abs=2 * pixel)
        if chart is line:
            *found, pixel = ask(chrome, AFFINE, ticks, marks, "y")
            assert found == pytest.approx([float(one.value) for one in wanted], abs=2 * pixel)


def test_ten_series_are_told_apart_without_colour_and_no_label_covers_another_thing(show: Show) -> None:
    chrome = show("crowded", 360)
    for chart in chrome.find_elements("css selector", ".chart"):
        looks = ask(chrome, LOOKS, chart)
        assert len(looks) == len({tuple(look) for look in looks}) in (2, 10)
        bottoms = ask(chrome, BOTTOMS, chart)
        assert max(bottoms[:-1]) <= bottoms[-1] + 1


# --- width, colour, motion, print


@pytest.mark.parametrize("name", ["sample", "crowded", "odd"])
@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_the_page_never_scrolls_sideways(show: Show, name: str, width: int) -> None:
    chrome = show(name, width)
    ask(chrome, "all('details').forEach(one => one.open = true)")
    chrome.execute_async_script("setTimeout(arguments[0], 50)")
    assert ask(chrome, "return document.documentElement.scrollWidth <= window.innerWidth")
    assert ask(chrome, "return window.innerWidth") == width
    spilt = ask(chrome, "return all('main *').filter(one => !one.closest('pre, svg, .scroll, .tools')"
                        "&& one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML)")  # fmt: skip
    assert spilt == []


CONTRAST = """
const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
const behind = (node) => { for (; node; node = node.parentElement) {
  const found = rgb(getComputedStyle(node).backgroundColor); if (found.length === 3 || found[3] > 0) return found; } };
const worst = {};
for (const node of all("body *")) {
  if (![...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim())) continue;
  if (!node.getClientRects().length || node.closest("title, desc, .skip")) continue;
  const style = getComputedStyle(node);
  const [a, b] = [light(rgb(node.closest("svg") ? style.fill : style.color)), light(behind(node))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) worst[`${node.tagName} ${node.className} ${node.textContent.slice(0, 20)}`] = ratio;
}
return [getComputedStyle(document.body).backgroundColor, worst];
"""


def test_text_has_enough_contrast_in_light_and_in_dark(show: Show) -> None:
    grounds = []
    for dark in (False, True):
        chrome = show("sample", dark=dark)
        ask(chrome, "all('details').forEach(one => one.open = true)")
        chrome.execute_async_script("setTimeout(arguments[0], 50)")
        ground, worst = ask(chrome, CONTRAST)
        assert worst == {}
        grounds.append([int(part) for part in re.findall(r"\d+", ground)])
    assert min(grounds[0]) > 200
    assert max(grounds[1]) < 50


def test_it_moves_only_for_those_who_do_not_mind_and_prints_without_its_tools(show: Show) -> None:
    scrolls = "return getComputedStyle(document.documentElement).scrollBehavior"
    assert ask(show("sample", still=True), scrolls) == "auto"
    chrome = show("sample", still=False)
    assert ask(chrome, scrolls) == "smooth"
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not chrome.find_element("css selector", ".tools").is_displayed()
    assert not chrome.find_element("css selector", "nav").is_displayed()
    assert chrome.find_element("css selector", "#rows").is_displayed()


# --- choosing rows


def shown(chrome: Any) -> list[str]:
    return [str(name) for name in ask(chrome, "return all('#rows tbody').filter(row => row.offsetParent)"
                                              ".map(row => row.querySelector('th').textContent)")]  # fmt: skip


def test_the_filter_shows_what_disagrees_and_the_search_what_is_asked(show: Show, samples: ModuleType) -> None:
    report, chrome = samples.sample(), show("sample")
    whole = shown(chrome)
    assert len(whole) == 32
    click(chrome, chrome.find_element("xpath", "//label[contains(., 'Disagrees')]"))
    failing = {checked.value for checked in report.checked if checked.fails(strict=report.strict)}
    assert len(failing) == 5
    assert set(shown(chrome)) == failing
    assert chrome.find_element("css selector", "output").text == "5 of 32 rows"
    find = chrome.find_element("css selector", "input[type=search]")
    find.send_keys("IDENTITY split")
    assert shown(chrome) == ["split/11 of 30/Identity"]
    find.send_keys(" nowhere")
    assert shown(chrome) == []
    assert chrome.find_element("id", "no-rows").is_displayed()
    chrome.execute_script("location.hash = 'v1'")
    chrome.execute_async_script("setTimeout(arguments[0], 50)")
    assert shown(chrome) == whole
    assert chrome.find_element("css selector", "#v1 details").get_attribute("open")


def test_the_keyboard_is_enough(show: Show) -> None:
    from selenium.webdriver.common.keys import Keys

    chrome = show("sample")
    press = lambda key: chrome.switch_to.active_element.send_keys(key)  # noqa: E731
    chrome.find_element("css selector", "body").send_keys(Keys.TAB)
    assert chrome.switch_to.active_element.text == "Skip to the values"
    press(Keys.ENTER)
    press(Keys.TAB)
    assert chrome.switch_to.active_element.get_attribute("value") == "all"
    press(Keys.ARROW_RIGHT)
    assert len(shown(chrome)) == 5
    press(Keys.TAB)
    assert chrome.switch_to.active_element.get_attribute("type") == "search"
    press(Keys.TAB)
    assert chrome.switch_to.active_element.tag_name == "summary"
    press(Keys.ENTER)
    assert ask(chrome, "return document.activeElement.parentElement.open")


def test_names_stay_names(show: Show) -> None:
    chrome = show("odd")
    assert chrome.find_elements("css selector", "img") == []
    assert chrome.find_element("css selector", "h1").text == ODD.replace("\u202e", "\\u202e")


def test_every_drawing_has_a_name_and_headings_go_down_one_by_one(show: Show) -> None:
    chrome = show("sample")
    unnamed = ask(chrome, "return all('svg[role=img]').filter(svg => svg.getAttribute('aria-labelledby').split(' ')"
                          ".some(id => !document.getElementById(id)?.textContent.trim())).length")  # fmt: skip
    assert unnamed == 0
    assert ask(chrome, "return all('svg:not([role=img])').every(svg => svg.parentElement.closest('svg')"
                       "|| svg.closest('[aria-hidden=true]'))")  # fmt: skip
    levels = ask(chrome, "return all('h1, h2, h3').map(one => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert ask(chrome, "const ids = all('[id]').map(one => one.id); return ids.length === new Set(ids).size")
    missing = "return all('a[href^=\"#\"]').filter(a => !document.getElementById(a.hash.slice(1))).length"
    assert ask(chrome, missing) == 0
