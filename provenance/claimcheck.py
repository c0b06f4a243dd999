"""claims.toml against the ledger: the file is a view of what was registered, and may not drift from it."""

from __future__ import annotations

from pathlib import Path

from ledger.claims import CLAIMS_FILE, read_claims
from ledger.errors import UsageProblem
from ledger.events.claim import Claim
from ledger.findings import Finding, error, warning


def check_claims(registered: dict[str, tuple[str, Claim]], folder: Path) -> list[Finding]:
    """{claim name: (where, newest version)} of the ledger against the study's claims.toml.

    The digests of a claim's files are left to the pins, so that each difference is found once.
    """
    if not (folder / CLAIMS_FILE).exists():
        return [warning("no-claims-file", CLAIMS_FILE, "is not in the study's folder; the ledger's text counts")]
    try:
        written = {claim.claim: claim for claim in read_claims(folder)}
    except UsageProblem as problem:
        return [error("claims-file", CLAIMS_FILE, problem.message, exit_code=5, hint=problem.hint)]
    findings = []
    for name, (where, claim) in registered.items():
        place = f"{where}: claim {name}"
        if name not in written:
            findings.append(
                error("claim-edited", place, f"is not in {CLAIMS_FILE}", exit_code=5, expected=claim.text, found="")
            )
            continue
        before, now = claim.model_dump(exclude={"files"}), written[name].model_dump(exclude={"files"})
        findings += [
            error(
                "claim-edited",
                f"{place}: {field}",
                f"{CLAIMS_FILE} differs from what was registered",
                exit_code=5,
                hint="ridgefill ledger amend, or put the registered text back",
                expected=str(before[field]),
                found=str(now[field]),
            )
            for field in before
            if before[field] != now[field]
        ]
    findings += [
        warning("unregistered", CLAIMS_FILE, f"claim {name} is not registered", "ridgefill ledger register")
        for name in sorted(written.keys() - registered.keys())
    ]
    return findings
