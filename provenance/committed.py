"""The source of a package as a commit has it: what a run computed with, after the tree has moved on."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
from fnmatch import fnmatchcase
from pathlib import Path

from ledger.findings import Finding, error, note
from provenance.gitcall import ask
from provenance.hashing import Advance
from provenance.manifest import escape, tree_digest
from provenance.measure import check
from provenance.pins import Pin, Walk

# A ledger may say anything: a name could mean another commit tomorrow, and an option is no commit.
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def check_source(pin: Pin, folder: Path, where: str, commit: str, *, advance: Advance | None = None) -> list[Finding]:
    """A source pin against the disk; where that has moved on, against `commit` in the repository of `folder`."""
    findings = check(pin, folder, where, advance=advance)
    if not findings or not _COMMIT.fullmatch(commit) or pin.walk is None:
        return findings
    files = files_at(folder, commit, pin.name, pin.walk)
    if files is None:
        return [
            error(
                "no-commit",
                where,
                "is not what is here now, and the commit that ran is not here either",
                exit_code=6,
                expected=commit,
                hint="look from a clone with all its history: git fetch --unshallow",
            )
        ]
    if tree_digest(files) != pin.digest:
        return findings
    return [note("at-commit", where, f"is what commit {commit[:12]} has; what is here now is another")]


def files_at(folder: Path, commit: str, package: str, walk: Walk) -> dict[str, str] | None:
    """{escaped name: sha256} of a top-level package of the repository around `folder` at a commit, links by their text.

    None where there is no repository or no such commit in it.
    """
    top = ask(folder, "rev-parse", "--show-toplevel")
    if top.status != 0 or ask(folder, "cat-file", "-e", f"{commit}^{{commit}}").status != 0:
        return None
    archive = ask(Path(top.text), "archive", "--format=tar", commit, "--", package)
    if archive.status != 0:
        return {}
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive.out)) as tar:
        for member in tar:
            name = member.name.removeprefix(f"{package}/")
            if any(fnmatchcase(part, pattern) for part in name.split("/") for pattern in walk.ignore):
                continue
            if member.issym():
                files[escape(os.fsencode(name))] = "link:" + hashlib.sha256(os.fsencode(member.linkname)).hexdigest()
            elif content := tar.extractfile(member):
                files[escape(os.fsencode(name))] = hashlib.sha256(content.read()).hexdigest()
    return files
