"""A recorded build against this machine, and what really ran against what had been pinned."""

from __future__ import annotations

import os
from collections.abc import Collection
from importlib import metadata
from pathlib import Path

from ledger.findings import Finding, error
from provenance.hashing import Advance, Hashed, hash_files
from provenance.mapped import unlabel
from provenance.measure import REFUSALS
from provenance.pins import Pin
from provenance.source import source_pin


def check_build(pin: Pin, where: str, *, apart: Collection[str] = (), advance: Advance | None = None) -> list[Finding]:
    """One finding for each binary, package version and source tree that is another one here, or not here.

    apart: digests of source trees with pins of their own, which `check_source` holds against the commit too.
    """
    return _binaries(pin, where, advance) + _words(pin, where, apart)


def compare_builds(pinned: Pin, ran: Pin, where: str) -> list[Finding]:
    """What a finish entry says really ran, against what its start entry had pinned."""
    findings = []
    before = {**(pinned.files or {}), **(pinned.detail or {})}
    after = {**(ran.files or {}), **(ran.detail or {})}
    for name, expected in sorted(before.items()):
        if after.get(name) != expected:
            findings.append(
                error(
                    "other-build",
                    f"{where}: {name}",
                    "what ran is not what was pinned",
                    exit_code=5,
                    expected=str(expected),
                    found=str(after.get(name, "nothing")),
                )
            )
    return findings


def _binaries(pin: Pin, where: str, advance: Advance | None) -> list[Finding]:
    """The binaries of a build against those on this machine."""
    expected, findings = {}, []
    for name, digest in sorted((pin.files or {}).items()):
        try:
            expected[bytes(unlabel(name))] = name, digest
        except ValueError as problem:
            findings.append(error("bad-pin", where, str(problem), exit_code=5))
    results = hash_files([(path, _size(path)) for path in expected], advance=advance)
    absent = [path for path, result in results.items() if isinstance(result, FileNotFoundError)]
    if absent and len(absent) == len(expected):
        return [*findings, _absent(where, f"none of its {len(absent)} binaries is on this machine")]
    for path, (name, digest) in expected.items():
        result = results[path]
        if isinstance(result, FileNotFoundError):
            findings.append(_absent(f"{where}: {name}", "is not on this machine"))
        elif not isinstance(result, Hashed):
            findings.append(_absent(f"{where}: {name}", f"cannot be read: {result}"))
        elif result.sha256 != digest:
            findings.append(
                error(
                    "differs",
                    f"{where}: {name}",
                    "differs",
                    exit_code=5,
                    expected=digest,
                    found=result.sha256,
                )
            )
    return findings


def _words(pin: Pin, where: str, apart: Collection[str]) -> list[Finding]:
    """The versions and the source digest a build recorded, against what is installed."""
    findings = []
    detail = pin.detail or {}
    packages = detail.get("packages")
    for name, version in sorted(packages.items()) if isinstance(packages, dict) else []:
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            findings.append(_absent(f"{where}: {name}", f"is not installed; expected version {version}"))
            continue
        if found != version:
            findings.append(
                error("differs", f"{where}: {name}", "differs", exit_code=5, expected=str(version), found=found)
            )
    expected = str(detail.get("source_sha256", ""))
    if expected and expected not in apart:
        try:
            found = source_pin("ridgefill", Path()).digest
        except REFUSALS as problem:
            return [*findings, _absent(f"{where}: source", problem.message)]
        if found != expected:
            findings.append(
                error("differs", f"{where}: source", "differs", exit_code=5, expected=expected, found=found)
            )
    return findings


def _absent(where: str, message: str) -> Finding:
    return error("cannot-check", where, message, exit_code=6, hint="audit on the machine that ran it")


def _size(path: bytes) -> int:
    try:
        return Path(os.fsdecode(path)).stat().st_size
    except OSError:
        return 0
