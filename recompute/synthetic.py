"""Numbers that come from made-up samples: told apart wherever they stand; they confirm and refute nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ledger.findings import Finding, warning
from recompute.reported import Reported
from recompute.standing import Checked, Standing
from recompute.valued import Valued

LABEL = "SYNTHETIC stand-in samples, which confirm and refute nothing"

_STANDINGS = {
    Standing.MATCH: Standing.RELATION_ONLY,
    Standing.MATCH_OTHER_TIE: Standing.RELATION_ONLY,
    Standing.MC_CONSISTENT: Standing.RELATION_ONLY,
    Standing.MISMATCH: Standing.UNBOUND,
}


def labelled(checked: Iterable[Checked], values: Mapping[str, Valued], reported: Reported) -> Iterator[Checked]:
    """What agrees with synthetic samples is RELATION_ONLY, since they were made from these numbers; what differs is
    UNBOUND, since nobody says that they are the real ones. The rule says so.
    """
    made_up = {data.file for data in reported.data if data.synthetic}
    for one in checked:
        value = values.get(one.value)
        if value is None or made_up.isdisjoint(value.files):
            yield one
        else:
            yield replace(one, standing=_STANDINGS.get(one.standing, one.standing), rule=f"{LABEL}: {one.rule}")


def findings(reported: Reported) -> Iterator[Finding]:
    """A warning for each such file."""
    for file in dict.fromkeys(data.file for data in reported.data if data.synthetic):
        yield warning("synthetic", file, f"{LABEL}: no number that comes from it is more than consistent")
