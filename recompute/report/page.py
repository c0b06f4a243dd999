"""The report as one HTML file that needs nothing else: no network, no font, no library."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ledger.errors import visible
from ledger.findings import Finding, Severity
from recompute.decided import Decided
from recompute.report.charts import charts
from recompute.report.digits import interval_text, value_text
from recompute.report.forest import panels
from recompute.report.model import Report
from recompute.report.plain import ordered
from recompute.report.rows import described, how, rows
from recompute.report.steps import steps_of
from recompute.report.summary import ledger_line, numbers_line, outcome, predictions_line

_HERE = Path(__file__).parent


def to_html(report: Report) -> str:
    """The page. The same report gives the same bytes; a browser that obeys its policy lets it load nothing."""
    style, script = (Markup((_HERE / name).read_text(encoding="utf-8")) for name in ("page.css", "page.js"))  # noqa: S704
    table, steps = rows(report), steps_of(report.links.items())
    values = (*report.values, *(one.value for one in report.decided if one.value))
    html = _environment().get_template("page.html.j2")
    return html.render(
        report=report,
        outcome=outcome(report),
        numbers=numbers_line(report),
        predictions=predictions_line(report),
        ledger=ledger_line(report),
        wrong=sum(checked.fails(strict=report.strict) for checked in report.checked),
        findings=_findings(report),
        panels=panels(report.decided),
        claims=_by_claim(report.decided),
        charts=charts(report),
        rows=table,
        failing=sum(row.fails for row in table),
        steps=steps,
        shared=[number for number in range(len(steps.steps)) if steps.shared(number)],
        queries=_repeated(value.query for value in values),
        machines=_alike(report.machine),
        style=style,
        script=script,
        style_digest=_digest(style),
        script_digest=_digest(script),
    )


def _environment() -> Environment:
    """Everything that is printed into the page is one visible line, then escaped."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else visible(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(lines=_lines, described=described, how=how, value=value_text, interval=interval_text)
    return environment


def _lines(text: str) -> Markup:
    """Text of several lines, each a visible one."""
    return Markup("\n").join(escape(visible(line)) for line in text.split("\n"))


def _findings(report: Report) -> list[Finding]:
    """All but the notes of numbers that match: those are rows of the values table."""
    of_numbers = report.all_findings[len(report.findings) :]
    return [*report.findings, *(one for one in of_numbers if one.severity is not Severity.NOTE)]


def _by_claim(decided: Iterable[Decided]) -> dict[str, list[Decided]]:
    claims: dict[str, list[Decided]] = {}
    for one in decided:
        claims.setdefault(one.claim, []).append(one)
    return claims


def _repeated(texts: Iterable[str]) -> dict[str, int]:
    """A number for each text that is there more than once, in the order they are met."""
    often = [text for text, times in Counter(texts).items() if text and times > 1]
    return {text: number for number, text in enumerate(often)}


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
