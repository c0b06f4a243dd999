"""Document formats: one file a format, and the registry.

To add one: write `documents/NAME.py` with a class that is a `Reader`, and a line for it below.
"""

from __future__ import annotations

from pathlib import Path

from ledger.errors import CannotCheck, EnvironmentProblem, UsageProblem
from recompute.documents.base import Cell, Document, Reader, Table
from recompute.documents.delimited import Delimited
from recompute.documents.latex import Latex
from recompute.documents.markdown import Markdown
from recompute.documents.objects import Objects

__all__ = ["READERS", "Cell", "Document", "Reader", "Table", "read_document"]

READERS: dict[str, Reader] = {
    suffix: reader for reader in (Markdown(), Latex(), Delimited(), Objects()) for suffix in reader.suffixes
}


def read_document(folder: Path, file: str) -> Document:
    """A text of the study, as UTF-8 with its line ends as they are, so that every place is a place in the file.

    file: relative to the folder and inside it. Raises UsageProblem for a format or a place that is none of ours,
    CannotCheck for a file that is not there or is not text, EnvironmentProblem for one that cannot be opened.
    """
    reader = READERS.get(Path(file).suffix.lower())
    if reader is None:
        raise UsageProblem(f"{file} is no document", expected=" ".join(READERS), found=Path(file).suffix or "no suffix")
    path = folder / file
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
        data = path.read_bytes() if inside else b""
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError):
        raise CannotCheck(
            f"there is no file {file}", cause="it moved, or reported.toml misspells it", hint=f"ls {folder}"
        ) from None
    except (OSError, RuntimeError) as refused:
        raise EnvironmentProblem(f"{file} cannot be read", found=str(refused)) from None
    if not inside:
        raise UsageProblem(f"{file} lies outside the study's folder", expected=f"a file below {folder}")
    try:
        source = data.decode()
    except UnicodeDecodeError as bad:
        line = data.count(b"\n", 0, bad.start) + 1
        raise CannotCheck(
            f"{file}:{line} is not UTF-8", cause="another encoding, or no text", hint=f"iconv -f latin1 -t utf-8 {file}"
        ) from None
    return reader.read(file, source)
