"""claims.toml against the ledger: the file is a view of what was registered, and may not drift from it."""

from __future__ import annotations

from pathlib import Path

from ledger.claims import CLAIMS_FILE, read_claims
from ledger.errors import UsageProblem
from ledger.events.claim import Claim
from ledger.findings import Finding, error, warning


def check_claim(name: str, registered: Claim, folder: Path, where: str) -> list[Finding]:
    """The newest registered version of a claim against the study's claims.toml, field by field.

    The digests of a claim's files are left to the pins, so that each difference is found once.
    """
    place = f"{where}: claim {name}"
    if not (folder / CLAIMS_FILE).exists():
        return [warning("no-claims-file", place, f"there is no {CLAIMS_FILE}; the ledger's text counts")]
    try:
        written = {claim.claim: claim for claim in read_claims(folder)}
    except UsageProblem as problem:
        return [error("claims-file", place, problem.message, exit_code=5, hint=problem.hint)]
    if name not in written:
        return [error("claim-edited", place, f"is not in {CLAIMS_FILE}", exit_code=5, expected=registered.text)]
    before, now = registered.model_dump(exclude={"files"}), written[name].model_dump(exclude={"files"})
    return [
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
