"""The report as one JSON object: everything, in an order that depends on nothing but the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recompute.report.model import Report
from recompute.report.steps import steps_of
from recompute.report.summary import outcome


def to_json(report: Report) -> dict[str, Any]:
    """Plain values. Exact fractions are text beside their floats (`Estimate.as_dict`).

    `traces` gives each value's first step by its number in `steps`; a step's `links` are such numbers too, so what
    many values share is there once.
    """
    steps = steps_of(report.links.items())
    return {
        "ok": report.exit_code == 0,
        "exit_code": report.exit_code,
        "outcome": outcome(report)[0],
        "study": report.study,
        "strict": report.strict,
        "ended": report.ended,
        "standings": report.standings,
        "verdicts": report.verdicts,
        "ledger": ordered(report.ledger),
        "values": [value.as_dict() for value in report.values],
        "checked": [checked.as_dict() for checked in report.checked],
        "decided": [decided.as_dict() for decided in report.decided],
        "findings": [finding.as_dict() for finding in report.all_findings],
        "traces": dict(steps.roots),
        "steps": [step.as_dict() for step in steps.steps],
        "machine": ordered(report.machine),
        "plots": [plot.model_dump(mode="json") for plot in report.plots],
    }


def ordered(value: Any) -> Any:
    """The same with every mapping in order of its keys."""
    if isinstance(value, Mapping):
        return {key: ordered(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [ordered(one) for one in value]
    return value
