"""A map folder against its pin and against its own lists: ridgefill.json and SHA256SUMS."""

from __future__ import annotations

import re
from pathlib import Path

import orjson

from ledger.findings import Finding, error, warning
from provenance.hashing import Advance
from provenance.manifest import check_name, escape
from provenance.measure import REFUSALS, compare, refused, take
from provenance.pins import Pin
from provenance.sources import locate

MANIFEST = "ridgefill.json"
SUMS = "SHA256SUMS"
# What the lists do not cover, by the format: themselves, and documentation (`*.md`).
_UNCOVERED = {MANIFEST, SUMS, "LICENSE"}


def check_maps(pin: Pin, base: Path, where: str, *, advance: Advance | None = None) -> list[Finding]:
    """Hash a pinned map folder or file once; one finding for each file that its pin or its lists contradict."""
    try:
        found = take(pin.kind, pin.name, pin.source, base, walk=pin.walk, advance=advance)
        folder = locate(pin.source, base).path
    except REFUSALS as problem:
        return [refused(where, problem)]
    findings = compare(pin, found, where)
    # Maps in one file, as a fork of llama.cpp reads them, hold no lists.
    for name, read in ((MANIFEST, _listed), (SUMS, _summed)) if found.files is not None else ():
        try:
            listed = read((folder / name).read_bytes())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
            findings.append(
                error(
                    "unreadable",
                    f"{where}: {name}",
                    f"cannot be read: {problem}",
                    exit_code=5,
                    expected="digests",
                )
            )
        else:
            findings += _against(listed, name, found.files or {}, where)
    return list({finding.where: finding for finding in reversed(findings)}.values())[::-1]


def _against(listed: dict[str, str], source: str, files: dict[str, str], where: str) -> list[Finding]:
    """The files as hashed, {escaped name: sha256}, against one list of a map folder."""
    findings = []
    for name, digest in sorted(listed.items()):
        place = f"{where}: {escape(name.encode())}"
        found = files.get(escape(name.encode()), "nothing")
        try:
            check_name(name.encode())
        except ValueError as problem:
            findings.append(error("bad-name", place, f"refused in {source}: {problem}", exit_code=5))
            continue
        if found != digest:
            findings.append(
                error("differs", place, f"differs from {source}", exit_code=5, expected=digest, found=found)
            )
    covered = {escape(name.encode()) for name in listed} | _UNCOVERED
    for name in sorted(files.keys() - covered):
        if not name.endswith(".md"):
            findings.append(warning("unlisted", f"{where}: {name}", f"is not listed in {source}"))
    return findings


def _listed(data: bytes) -> dict[str, str]:
    return {str(name): str(digest) for name, digest in orjson.loads(data)["files"].items()}


def _summed(data: bytes) -> dict[str, str]:
    """The lines of `sha256sum`: digest, two characters, name."""
    lines = data.decode().splitlines()
    stray = next((line for line in lines if not re.fullmatch(r"[0-9a-f]{64} [ *].+", line)), None)
    if stray is not None:
        raise ValueError(f"{stray[:40]!r} is no line of sha256sum")
    return {line[66:]: line[:64] for line in lines}
