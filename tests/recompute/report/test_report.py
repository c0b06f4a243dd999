"""One report, three views: what each says, that none depends on anything but the report, and that names stay names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledger.errors import visible
from ledger.events.claim import Claim, Prediction
from recompute.decided import Verdict
from recompute.estimate import Estimate
from recompute.lineage import Edge, Link
from recompute.report.charts import charts
from recompute.report.digits import interval_text, value_text
from recompute.report.forest import panels, threshold
from recompute.report.model import Report
from recompute.report.page import to_html
from recompute.report.plain import to_json
from recompute.report.queries import numbered, split
from recompute.report.rows import rows
from recompute.report.scale import Scale
from recompute.report.steps import Steps, steps_of
from recompute.report.text import to_text
from recompute.reported import Plot, Reported, Table
from recompute.rules import Rule
from recompute.standing import Checked, Standing

ENTITIES = "<script>alert(1)</script>\"'&amp; \U0001f600 \u05d0\u05d1\u202e\x1b[2J"
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=16)


class Page(HTMLParser):
    """Tags in order, and the text of each kind of element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: Counter[str] = Counter()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts[data] += 1


# --- text


def test_the_text_says_the_verdict_first_then_what_fails_then_the_claims(samples: ModuleType) -> None:
    lines = to_text(samples.sample()).splitlines()
    assert lines[0] == (
        "FAILS: smollm2: 84 printed numbers: 75 MATCH, 1 MATCH_OTHER_TIE, 1 MC_CONSISTENT, 2 MISMATCH, 1 MISSING, "
        "1 REFUSED, 1 RELATION_ONLY, 1 STALE, 1 UNBOUND; 9 predictions registered: 3 CONFIRMED, 1 DEVIATED, "
        "2 INADMISSIBLE, 1 INCONCLUSIVE, 1 REFUTED, 1 UNRUN"
    )
    assert lines[1] == f"ledger: OK-UNPINNED, 25 entries, head {samples.digest('head')}"
    assert [line.split(":")[0] for line in lines[2:4]] == ["reached", "limits"]
    kinds = [line.split(":")[0] for line in lines[4:]]
    assert kinds[:10] == ["error"] * 6 + ["warning"] * 4
    assert lines[5] == (
        "error: report.md:41: MISMATCH split / 11 of 30 / Identity: split/11 of 30/Identity:value, "
        "3 decimals, ties to even, likely cause: digits swapped (expected 1.871000, found 1.817)"
    )
    claims = lines[14:]
    assert [line.split()[0] for line in claims] == [one.verdict.value for one in samples.sample().decided]
    assert claims[0].startswith("CONFIRMED             C1/P1  -0.44700 [-0.47700, -0.41100] n=60  ")
    assert claims[4].startswith("DEVIATED (CONFIRMED)  C2/P2  1.5530 ")
    assert "[-1.8000, inf)" in claims[5]
    assert "no value" in claims[7]


def test_a_width_cuts_claims_and_nothing_else(samples: ModuleType) -> None:
    whole, cut = (to_text(samples.sample(), width=width).splitlines() for width in (0, 60))
    assert whole[:14] == cut[:14]
    assert all(len(line) <= 60 for line in cut[14:])
    assert all(long.startswith(short.removesuffix("...")) for long, short in zip(whole[14:], cut[14:], strict=True))


def test_an_empty_report_says_so_in_every_view() -> None:
    empty = Report("empty", True, ())
    assert to_text(empty) == (
        "COULD NOT CHECK: empty: 0 values recomputed, no printed number checked; no prediction registered\n"
        "ledger: no ledger: nothing stands behind these numbers\n"
    )
    told = to_json(empty)
    assert (told["ok"], told["exit_code"], told["outcome"]) == (False, 6, "COULD NOT CHECK")
    texts = Page(to_html(empty)).texts
    for said in ("No prediction is registered.", "There is no value and no printed number."):
        assert texts[said] == 1


def test_nothing_that_fails_gives_holds(samples: ModuleType) -> None:
    clean = samples.large(8)
    assert clean.exit_code == 0
    assert to_text(clean).startswith("HOLDS: large: 24 printed numbers: 24 MATCH; no prediction registered\n")
    assert "Everything that was checked holds." in to_html(clean)


# --- JSON


def test_the_json_is_whole_and_exact(samples: ModuleType) -> None:
    report = samples.sample()
    told = orjson.loads(orjson.dumps(to_json(report)))
    assert [value["id"] for value in told["values"]] == [value.id for value in report.values]
    for value, original in zip(told["values"], report.values, strict=True):
        if original.estimate is not None:
            assert Fraction(value["estimate"]["exact"][0]) == original.estimate.value
            assert value["estimate"]["value"] == float(original.estimate.value)
    assert told["standings"] == dict(sorted(Counter(one["standing"] for one in told["checked"]).items()))
    assert sum(told["verdicts"].values()) == len(told["decided"]) == len(report.decided)
    assert len(told["findings"]) == len(report.all_findings)
    assert set(told["machine"]) == {"a1", "b22"}
    assert told["ended"] == report.ended

    def whole(number: int) -> dict[str, Any]:
        step = told["steps"][number]
        return {**step, "links": [whole(below) for below in step["links"]]}

    assert {name: whole(number) for name, number in told["traces"].items()} == {
        name: link.as_dict() for name, link in report.links.items()
    }


# --- pieces


def expanded(steps: Steps, number: int) -> Link:
    step = steps.steps[number]
    link = step.link
    return Link(link.what, link.name, link.told, link.edge, tuple(expanded(steps, below) for below in step.links))


LINKS = st.recursive(
    st.builds(Link, st.sampled_from("ab"), st.sampled_from("xy"), st.just(""), st.sampled_from(Edge)),
    lambda below: st.builds(
        Link, st.sampled_from("ab"), st.sampled_from("xy"), st.just(""), st.sampled_from(Edge), st.tuples(below, below)
    ),
    max_leaves=12,
)


@given(st.lists(LINKS, max_size=4))
def test_shared_steps_are_the_same_trees_with_each_subtree_once(links: list[Link]) -> None:
    steps = steps_of((str(number), link) for number, link in enumerate(links))
    assert [expanded(steps, steps.roots[str(number)]) for number in range(len(links))] == links
    subtrees = {below for link in links for _, below in link.walk()}
    assert len(steps.steps) == len(subtrees)
    gravity = [Edge.FAIL, Edge.UNCHECKED, Edge.OK]
    for step in steps.steps:
        edges = {below.edge for _, below in expanded(steps, steps.steps.index(step)).walk()}
        assert step.worst is next(edge for edge in gravity if edge in edges)
    asked = Counter(below for step in steps.steps for below in step.links) + Counter(steps.roots.values())
    assert [step.uses for step in steps.steps] == [asked[number] for number in range(len(steps.steps))]


@given(st.lists(st.sampled_from(["a = ", "'it''s'", "'x'", " 12 ", "t1", "\n", "''"])).map("".join))
def test_a_query_is_its_form_and_its_literals(query: str) -> None:
    form, literals = split(query)
    assert "".join(part for pair in zip(form, (*literals, ""), strict=True) for part in pair) == query
    assert len(numbered([query, query.replace("'x'", "'other'")])) == min(1, len(query))


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=5), st.booleans())
def test_ticks_are_where_their_text_says_and_a_few(numbers: list[float], zero: bool) -> None:
    scale = Scale.over(numbers, zero=zero)
    assert all(-1e-9 <= scale.at(number) <= 1 + 1e-9 for number in numbers)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 13
    assert len({text for text, _ in ticks}) == len(ticks)
    for text, place in ticks:
        assert place == pytest.approx(scale.at(float(text)), abs=1e-6)


@given(st.fractions(-1000, 1000), st.fractions(0, 10))
def test_a_value_and_its_ends_are_shown_to_the_same_place_and_rounded_rightly(value: Fraction, wide: Fraction) -> None:
    estimate = Estimate(value, 9, 1, (value - wide, None))
    low, high = interval_text(estimate)[1:-1].split(", ")
    places = len(value_text(estimate).partition(".")[2])
    assert high == "inf"
    for text, number in ((value_text(estimate), value), (low, value - wide)):
        assert len(text.partition(".")[2]) == places
        assert abs(Fraction(text) - number) <= Fraction(1, 2 * 10**places)


@pytest.mark.parametrize("comparator", ["<", "<=", ">", ">=", "=="])
def test_the_threshold_is_read_from_the_rules_own_words(comparator: str) -> None:
    prediction = Prediction.model_validate(
        {
            "id": "p1", "metric": "a: < 7 (b", "statistic": "mean", "comparator": comparator, "threshold": "-0.25",
            "arm": "x > 3", "n": 5, "seeds": [1], "exclusions": "none", "stop_rule": "none",
        }
    )  # fmt: skip
    claim = Claim(claim="c", text="t", exploratory=False, predictions=[prediction], files={})
    rule = Rule(claim, prediction, ("0",), 2, None, True, False, None, ())
    assert threshold(rule.words()) == (comparator, Fraction(-1, 4))
    assert threshold("(withheld)") is None


def test_a_panel_has_one_metric_statistic_and_unit_and_a_place_for_every_number(samples: ModuleType) -> None:
    decided = samples.sample().decided
    found = panels(decided)
    assert [len(panel.bars) for panel in found] == [3, 2, 2]
    assert [bar.decided.id for panel in found for bar in panel.bars] == [one.id for one in decided if one.value]
    bars = {bar.decided.id: bar for panel in found for bar in panel.bars}
    assert bars["C3/P1"].ends is not None
    assert bars["C3/P1"].ends[1] == "100%"
    assert len(bars["C3/P1"].caps) == 1
    assert all(bar.threshold for bar in bars.values())


def test_every_value_and_every_printed_number_is_in_one_row(samples: ModuleType) -> None:
    report = samples.sample()
    found = rows(report)
    assert [row.id for row in found if row.value] == [value.id for value in report.values]
    assert {row.standing for row in found} == {*Standing, None}
    assert sum(row.fails for row in found) == 5
    by_id = {row.id: row for row in found}
    cell = by_id["split/8 of 30/No fill"]
    assert (cell.prints[0].text, cell.recomputed, cell.prints[0].where) == (
        "0.712 [0.542, 0.916]", "0.712000", "report.md:40",
    )  # fmt: skip
    assert by_id["speed/1K/Exact"].prints[0].text.startswith("nothing")
    assert by_id["gain"].standing is Standing.RELATION_ONLY
    assert by_id[""].prints[0].cell == "Table 3 / Ceiling / Cost"
    assert by_id["calibration"].standing is None


def test_a_chart_has_a_point_for_every_value_and_says_what_is_missing(samples: ModuleType) -> None:
    line, bar = charts(samples.sample())
    assert [series.name for series in line.series] == list(samples.ARMS)
    assert [len(series.points) for series in line.series] == [4, 4, 4]
    assert [text for text, _ in line.x_ticks] == ["8", "11", "15", "19"]
    places = [float(place.rstrip("%")) for _, place in line.x_ticks]
    assert (places[1] - places[0]) / (places[3] - places[0]) == pytest.approx(3 / 11, abs=1e-3)
    assert [series.name for series in bar.series] == ["Exact", "Map", "No fill"]
    assert (bar.missing, sum(len(series.points) for series in bar.series)) == (1, 11)
    assert bar.floor == 240


def test_labels_may_hold_slashes_and_numbers_and_a_cell_several_values(samples: ModuleType) -> None:
    table = Table(id="t", file="f.md", name="T", rows="arm", columns={"KL / doc": "kl", "loss": ["loss", "kl"]})
    names = [f"t/{row}/{column}" for row in ("16 / 4K", "2K", "n/a") for column in ("KL / doc", "loss#1", "loss#2")]
    spec = samples.decisions()[0].value.spec
    values = tuple(samples.valued(name, spec, samples.estimate(str(at))) for at, name in enumerate(names))
    plots = (
        Plot(table="t", title="all"),
        Plot(table="t", title="some", series="columns", only=("loss#2", "2K", "16 / 4K"), kind="bar"),
    )
    report = Report("s", False, values, reported=Reported(tables=(table,), plots=plots))
    whole, some = charts(report)
    assert [series.name for series in whole.series] == ["16 / 4K", "2K", "n/a"]
    assert [text for text, _ in whole.x_ticks] == ["KL / doc", "loss#1", "loss#2"]
    assert [[point.text.split()[0] for point in series.points] for series in some.series] == [["2.0000", "5.0000"]]
    assert [text for text, _ in some.x_ticks] == ["16 / 4K", "2K"]
    assert not some.slanted


def test_a_range_over_tenfold_is_drawn_by_its_logarithm_and_says_so(samples: ModuleType) -> None:
    table = Table(id="t", file="f.md", name="T", rows="length", columns={"Map": "loss"})
    spec = samples.decisions()[0].value.spec
    values = tuple(samples.valued(f"t/{row}/Map", spec, samples.estimate("1")) for row in ("512", "2K", "8K"))
    plot = Plot(table="t", title="t", series="columns", x="prompt")
    (chart,) = charts(Report("s", False, values, reported=Reported(tables=(table,), plots=(plot,))))
    first, middle, last = (float(place.rstrip("%")) for _, place in chart.x_ticks)
    assert middle - first == pytest.approx(last - middle, abs=0.02)
    assert [text for text, _ in chart.x_ticks] == ["512", "2K", "8K"]
    assert chart.x == "prompt, logarithmic"


def test_a_plot_of_a_table_that_has_no_value_is_there_and_says_so(samples: ModuleType) -> None:
    report = Report("s", False, (), reported=Reported(plots=(Plot(table="nosuch", title="Nothing"),)))
    assert charts(report)[0].series == ()
    assert "The table <code>nosuch</code> has no value to show." in to_html(report)


# --- the page


def test_the_page_loads_nothing_and_runs_only_its_own_script(samples: ModuleType) -> None:
    html = to_html(samples.sample())
    assert "://" not in html
    assert set(re.findall(r'(?:src|href)="([^#"][^"]*)"', html)) == {"data:,"}
    assert re.findall(r"url\((?!#)", html) == []
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ")
    assert "unsafe" not in policy[1]


def test_fourteen_hundred_values_are_under_two_megabytes(samples: ModuleType) -> None:
    html = to_html(samples.large(1400))
    assert len(html.encode()) < 2_000_000
    assert html.count("<tbody id=") == 1400
    shared = html[html.index('id="shared"') :]
    assert shared.count("<b>run</b>") == 5  # each run's way back is there once
    assert html.count("<b>run</b>") == 5


@settings(max_examples=60, deadline=None)
@example(ENTITIES)
@example("a\nb")
@example("'")
@example("1K")
@given(NAMES)
def test_no_name_changes_the_page_or_adds_a_line(samples: ModuleType, name: str) -> None:
    hostile, harmless = (Page(to_html(samples.renamed(one))) for one in (name, "plain"))
    assert hostile.tags == harmless.tags
    assert hostile.texts[visible(name)] >= 20  # whole, wherever it is neither SQL nor an axis' label
    text = to_text(samples.renamed(name))
    assert text.count("\n") == to_text(samples.renamed("plain")).count("\n")
    assert text.replace("\n", "").isprintable()
    orjson.dumps(to_json(samples.renamed(name)))


def test_the_views_depend_on_nothing_but_the_report() -> None:
    program = (
        "import hashlib, orjson, sample_report as s\n"
        "from recompute.report.page import to_html\n"
        "from recompute.report.plain import to_json\n"
        "from recompute.report.text import to_text\n"
        "r = s.sample()\n"
        "for view in (to_html(r).encode(), orjson.dumps(to_json(r)), to_text(r).encode()):\n"
        "    print(hashlib.sha256(view).hexdigest())\n"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parent,
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    ]
    assert told[0] == told[1]
    assert len(set(told[0].split())) == 3


def test_every_standing_verdict_and_edge_has_a_tone(samples: ModuleType) -> None:
    tones = Path(to_html.__code__.co_filename).with_name("parts.html.j2").read_text(encoding="utf-8")
    for word in (*Standing, *Verdict, *Edge):
        assert f'"{word.value}": ' in tones


def test_many_warnings_of_one_kind_are_counted_and_no_error_is_left_out() -> None:
    unbound = [Checked(Standing.UNBOUND, "report.md", line, printed=str(line)) for line in range(1, 31)]
    wrong = [Checked(Standing.MISMATCH, "report.md", line, value=f"v{line}") for line in range(31, 61)]
    lines = to_text(Report("s", strict=False, values=(), checked=(*unbound, *wrong))).splitlines()
    assert sum("MISMATCH" in line for line in lines[1:]) == 30
    assert sum("UNBOUND" in line for line in lines[1:]) == 10
    assert lines[-1].startswith("warning: 20 more are unbound")
