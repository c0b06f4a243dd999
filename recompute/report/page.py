"""The report as one HTML file that needs nothing else: no network, no font, no library."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ledger.errors import visible
from ledger.findings import Severity
from recompute.decided import Decided
from recompute.report.charts import charts
from recompute.report.digits import interval_text, value_text
from recompute.report.forest import panels
from recompute.report.model import Report
from recompute.report.plain import ordered
from recompute.report.queries import numbered, split
from recompute.report.rows import how, rows
from recompute.report.steps import steps_of
from recompute.report.summary import ledger_line, outcome, worth_a_look

_HERE = Path(__file__).parent


def to_html(report: Report) -> str:
    """The page. The same report gives the same bytes; a browser that obeys its policy lets it load nothing."""
    style, script = stylesheet("drawing.css", "page.css"), stylesheet("page.js")
    table, steps = rows(report), steps_of(report.links.items())
    values = (*report.values, *(one.value for one in report.decided if one.value))
    html = environment().get_template("page.html.j2")
    return html.render(
        report=report,
        outcome=outcome(report),
        ledger=ledger_line(report),
        errors=sum(one.severity is Severity.ERROR for one in report.all_findings),
        numbers_failing=sum(checked.fails(strict=report.strict) for checked in report.checked),
        findings=worth_a_look(report),
        panels=panels(report.decided),
        claims=_by_claim(report.decided),
        anchors={one.id: number for number, one in enumerate(report.decided, start=1)},
        charts=charts(report),
        rows=table,
        failing=sum(row.fails for row in table),
        steps=steps,
        shared=[number for number in range(len(steps.steps)) if steps.shared(number)],
        forms=numbered(value.query for value in values),
        machines=_alike(report.machine),
        style=style,
        script=script,
        style_digest=_digest(style),
        script_digest=_digest(script),
    )


def stylesheet(*names: str) -> Markup:
    """Files of this folder, one after the other, that go into a page as they are."""
    return Markup("".join((_HERE / name).read_text(encoding="utf-8") for name in names))  # noqa: S704


@cache
def environment() -> Environment:
    """Everything that is printed into the page is one visible line, then escaped."""
    made = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else visible(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(lines=_lines, split=split, how=how, value=value_text, interval=interval_text)
    return made


def _lines(text: str) -> Markup:
    """Text of several lines, each a visible one."""
    return Markup("\n").join(escape(visible(line)) for line in text.split("\n"))


def _by_claim(decided: Iterable[Decided]) -> dict[str, list[Decided]]:
    claims: dict[str, list[Decided]] = {}
    for one in decided:
        claims.setdefault(one.claim, []).append(one)
    return claims


def _alike(machine: Mapping[str, Any]) -> list[tuple[list[str], Any]]:
    """Runs by the machine they ran on."""
    groups: dict[bytes, tuple[list[str], Any]] = {}
    for run, told in machine.items():
        plain = ordered(told)
        groups.setdefault(orjson.dumps(plain), ([], plain))[0].append(run)
    return list(groups.values())


def _digest(text: str) -> str:
    """As a content security policy names a text."""
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()
