"""A thing on the disk -> its Pin, and two pins of one thing -> how they differ."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

from ledger.errors import CannotCheck, Differs, UsageProblem
from ledger.findings import Finding, error
from provenance.cache import HashCache
from provenance.hashing import Advance, Hashed, hash_file
from provenance.pins import Kind, Pin, Walk
from provenance.sources import Located, locate
from provenance.tree import hash_tree

# Why a thing cannot be measured.
REFUSALS = (Differs, CannotCheck, UsageProblem)


def take(
    kind: Kind,
    name: str,
    source: str,
    base: Path,
    *,
    walk: Walk | None = None,
    cache: HashCache | None = None,
    advance: Advance | None = None,
) -> Pin:
    """Pin what `source` names as it is on the disk now: a file by its bytes, a folder as a tree.

    Raises UsageProblem, CannotCheck, Differs as `locate` and `hash_tree` do, each naming the pin.
    """
    located = locate(source, base)
    if located.path.is_dir():
        walk = walk or Walk()
        tree = hash_tree(located.path, walk, within=located.within, cache=cache, advance=advance)
        return Pin(
            kind=kind,
            name=name,
            source=source,
            method="sha256-tree",
            digest=tree.digest,
            size=tree.size,
            walk=walk,
            files=tree.files,
        )
    hashed = hash_located(located, cache, advance)
    return Pin(kind=kind, name=name, source=source, digest=hashed.sha256, size=hashed.size)


def hash_located(located: Located, cache: HashCache | None = None, advance: Advance | None = None) -> Hashed:
    """The digest of a located file, or of a member of a wheel. Raises CannotCheck when it cannot be read."""
    try:
        if not located.member:
            return hash_file(os.fsencode(located.path), cache, advance)
        with zipfile.ZipFile(located.path) as archive, archive.open(located.member) as member:
            size = archive.getinfo(located.member).file_size
            return Hashed(hashlib.file_digest(member, "sha256").hexdigest(), size)  # type: ignore[arg-type]
    except (OSError, zipfile.BadZipFile, KeyError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise CannotCheck(f"'{located.path.name}' cannot be read: {why}") from None


def compare(pin: Pin, found: Pin, where: str = "") -> list[Finding]:
    """One finding per difference between what was pinned and what was found; empty when the pin holds."""
    where = where or pin.label
    if pin.method != found.method:
        return [_differs(where, "is of another sort", pin.method, found.method)]
    if pin.digest == found.digest:
        return []
    if pin.files is None or found.files is None:
        if pin.size is not None and pin.size != found.size:
            return [_differs(where, "differs in length and content", f"{pin.size} bytes", f"{found.size} bytes")]
        return [_differs(where, "differs", pin.digest, found.digest)]
    return compare_files(pin.files, found.files, where)


def compare_files(expected: dict[str, str], found: dict[str, str], where: str) -> list[Finding]:
    """One finding for each missing, extra and changed file of a tree, in order of names."""
    return [
        _differs(
            f"{where}: {name}",
            _change(expected.get(name), found.get(name)),
            expected.get(name),
            found.get(name),
        )
        for name in sorted(expected.keys() | found.keys())
        if expected.get(name) != found.get(name)
    ]


def _change(expected: str | None, found: str | None) -> str:
    if found is None:
        return "is missing"
    return "was not there" if expected is None else "differs"


def _differs(where: str, message: str, expected: str | None, found: str | None) -> Finding:
    return error("differs", where, message, exit_code=5, expected=expected or "nothing", found=found or "nothing")


def check(
    pin: Pin, base: Path, where: str = "", *, was_here: bool = False, advance: Advance | None = None
) -> list[Finding]:
    """Compute a pin again, the way it was computed, and compare; a failure to do so is a finding too.

    was_here: it is known to have been there, so that what is gone differs. Never uses the cache.
    """
    where = where or pin.label
    try:
        found = take(pin.kind, pin.name, pin.source, base, walk=pin.walk, advance=advance)
    except REFUSALS as problem:
        # An input may never have been fetched; what the study registered or sealed itself was there.
        return [refused(where, problem, was_here=was_here or pin.kind in ("study", "records"))]
    return compare(pin, found, where)


def refused(where: str, problem: Differs | CannotCheck | UsageProblem, *, was_here: bool = False) -> Finding:
    """The finding of a thing that could not be measured: refused or no source (5), not here (6, or 5 if it was)."""
    absent = isinstance(problem, CannotCheck) and not was_here
    return error(
        "cannot-check" if absent else "differs",
        where,
        problem.message,
        exit_code=6 if absent else 5,
        hint=problem.hint,
        expected=problem.expected,
        found=problem.found,
    )
