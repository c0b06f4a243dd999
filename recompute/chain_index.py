"""A published ledger beside the samples: whether its chain holds, and the printed counts of its entries against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from ledger.errors import CannotCheck, Problem, Tampered, UsageProblem
from ledger.findings import Finding, Severity, error, note
from ledger.publish import ENTRIES, HEADER, INDEX, verify_published
from recompute.bound import Bindings, Bound
from recompute.check import told
from recompute.equations import Reference
from recompute.reported import Chain, Reported
from recompute.standing import Checked, Standing
from runs.crosscheck import nearest

SHOWN = 3  # of a chain's own findings: a row that is missing moves all that follow
_COUNTS = ("entries", "full", "hashed")


@dataclass
class Counted:
    """checked: the standing of each place that prints a count, by its id and slot; findings: how each chain stands."""

    checked: dict[Reference, list[Checked]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def over(self, related: Iterable[Checked]) -> Iterator[Checked]:
        """What relations say of each number; what counting says where no relation fails."""
        for one in related:
            counts = self.checked.get((one.value, one.slot), []) if not one.fails(strict=False) else []
            yield next((count for count in counts if (count.file, count.line) == (one.file, one.line)), one)


def check_chains(reported: Reported, bindings: Bindings, folder: Path) -> Counted:
    """Verify the chain of every [[chain]] and hold its counts against the printed ones.

    Raises UsageProblem for an id that no number is printed for.
    """
    counted = Counted()
    for chain in reported.chains:
        printed = {name: _printed(getattr(chain, name), bindings) for name in _COUNTS}
        try:
            counts = _counts(chain, folder, counted.findings)
        except Problem as why:
            for name, bounds in printed.items():
                unread = isinstance(why, CannotCheck)
                refused = [told(bound, Standing.REFUSED, cause=why.line(), unread=unread) for bound in bounds]
                counted.checked[getattr(chain, name), "value"] = refused
            continue
        # What is printed may be of a part of the index: then its counts are the most that there can be.
        larger = counts["entries"] > (printed["entries"][0].digits.value or 0)
        for name, bounds in printed.items():
            standings = [_standing(bound, chain, counts[name], larger=larger) for bound in bounds]
            counted.checked[getattr(chain, name), "value"] = standings
    return counted


def _printed(name: str, bindings: Bindings) -> list[Bound]:
    if (name, "value") not in bindings.printed:
        known = {value for value, slot in bindings.printed if slot == "value"}
        raise UsageProblem(f"[[chain]]: no number is printed for {name!r}{nearest(name, known)}")
    return bindings.printed[name, "value"]


def _counts(chain: Chain, folder: Path, findings: list[Finding]) -> dict[str, int]:
    """How many entries there are, in full and as hashes. Raises CannotCheck or Tampered when nobody can say."""
    name, place = f"{chain.folder}/{INDEX}", folder / chain.folder
    try:
        _hold_form(place / INDEX)
        result = verify_published(place, ())
    except Problem as problem:
        told_of = {"expected": problem.expected, "found": problem.found, "hint": problem.hint}
        findings.append(error("chain-unread", name, problem.message, exit_code=problem.exit_code, **told_of))
        raise type(problem)(f"{name}: {problem.message}") from None
    wrong = [finding for finding in result.findings if finding.severity is Severity.ERROR]
    told_here = [finding for finding in result.findings if finding not in wrong[SHOWN:]]
    findings += (replace(finding, where=f"{chain.folder}/{finding.where}") for finding in told_here)
    if wrong[SHOWN:]:
        more = f"{len(wrong) - SHOWN} more findings about this chain"
        findings.append(error("chain-more", name, more, exit_code=result.exit_code, hint="ridgefill ledger verify"))
    if wrong:
        kind = CannotCheck if result.exit_code == CannotCheck.exit_code else Tampered
        raise kind(f"{name}: {wrong[0].message}")
    full = (place / ENTRIES).read_bytes().count(b"\n")  # each of them is in the index: it verified
    hashed = result.size - full
    held = f"{result.verdict}: {full} of {result.size} entries in full, {hashed} as hashes; {result.reached()}"
    findings.append(note("chain", name, held, hint="ridgefill ledger verify --pin"))
    return {"entries": result.size, "full": full, "hashed": hashed}


def _hold_form(index: Path) -> None:
    """Raise CannotCheck for an index that is not there, or was never ours: in another form, not edited."""
    try:
        header = index.read_bytes().split(b"\n", 1)[0]
    except OSError as refused:
        raise CannotCheck(f"cannot be read: {refused.strerror}", hint="name its folder in [[chain]]") from None
    columns = [cell.strip() for cell in header.decode("utf-8", "replace").split("\t")]
    if header and len(set(HEADER) - set(columns)) > 1:
        raise CannotCheck(
            "a chain index in another form, whose hashes nobody here knows how to make",
            expected=f"tab-separated {', '.join(HEADER)}, as `ridgefill ledger publish` writes them",
            found=", ".join(columns)[:200],
        )


def _standing(bound: Bound, chain: Chain, count: int, *, larger: bool) -> Checked:
    rule = f"counted in {chain.folder}/{INDEX}"
    printed = bound.digits.value or Fraction(0)
    if larger and count >= printed:
        cause = f"{count} of the whole index, which holds more entries than the text speaks of and not which"
        return told(bound, Standing.REFUSED, recomputed=f"at most {count}", rule=rule, cause=cause, unread=True)
    standing = Standing.MATCH if count == printed else Standing.MISMATCH
    return told(bound, standing, recomputed=str(count), rule=rule)
