"""Documents of a data set: a folder of UTF-8 text files, named by their paths in it."""

from __future__ import annotations

from pathlib import Path

from ledger.errors import CannotCheck, UsageProblem


def names(folder: Path) -> list[str]:
    """The names of the documents, in byte order. Raises UsageProblem when there is none."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    if not found:
        raise UsageProblem(f"the data set {folder.name} holds no document", expected="text files", found="none")
    return found


def read(folder: Path, name: str) -> str:
    """One document. Raises CannotCheck when it cannot be read as text."""
    try:
        return (folder / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        raise CannotCheck(f"the document {name} cannot be read: {wrong}", expected="UTF-8 text") from None
