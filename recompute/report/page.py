"""The report as one HTML file that needs nothing else: no network, no font, no library."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ledger.errors import visible
from recompute.report.model import Report
from recompute.report.summary import ledger_line, numbers_line, outcome, predictions_line


def to_html(report: Report) -> str:
    """The page. The same report gives the same bytes."""
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            report=report,
            outcome=outcome(report),
            numbers=numbers_line(report),
            predictions=predictions_line(report),
            ledger=ledger_line(report),
        )
    )


def _environment() -> Environment:
    """Everything that is printed into the page is one visible line, then escaped."""
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else visible(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
    )
