"""Numbers that come from made-up samples: told apart wherever they stand, and never a confirmation. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ledger.findings import Finding, warning
from recompute.reported import Reported
from recompute.standing import FAILS, Checked, Standing
from recompute.valued import Valued

LABEL = "SYNTHETIC stand-in samples, which confirm nothing"


def labelled(checked: Iterable[Checked], values: Mapping[str, Valued], reported: Reported) -> Iterator[Checked]:
    """What agrees with synthetic samples is RELATION_ONLY, and its rule says so: they were made from these numbers."""
    made_up = {data.file for data in reported.data if data.synthetic}
    for one in checked:
        value = values.get(one.value)
        if value is None or made_up.isdisjoint(value.files):
            yield one
        else:
            standing = one.standing if one.standing in FAILS else Standing.RELATION_ONLY
            yield replace(one, standing=standing, rule=f"{LABEL}: {one.rule}")


def findings(reported: Reported) -> Iterator[Finding]:
    """A warning for each such file."""
    for data in reported.data:
        if data.synthetic:
            yield warning("synthetic", data.file, f"{LABEL}: no number that comes from it is more than consistent")
