"""Documents of a data set: a folder of UTF-8 text files, named by their paths in it; and the tasks made of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ledger.errors import CannotCheck, UsageProblem
from runs.tasks.base import Encode, Task


class OfDocuments(Task):
    """A task with one sample for each document of `dataset`, named as the document is."""

    dataset: str

    @property
    def datasets(self) -> tuple[str, ...]:
        return (self.dataset,)

    def ids(self, data: Mapping[str, Path], seed: int) -> list[str]:
        return names(data[self.dataset])


def names(folder: Path) -> list[str]:
    """The names of the documents, in byte order. Raises UsageProblem when there is none."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    if not found:
        raise UsageProblem(f"the data set {folder.name} holds no document", expected="text files", found="none")
    return found


def check(folder: Path, name: str) -> None:
    """Raises UsageProblem unless there is a document of this name."""
    if name not in (there := names(folder)):
        raise UsageProblem(f"no document is called {name!r}", expected=f"one of {len(there)}, as {there[0]}")


def read(folder: Path, name: str) -> str:
    """One document. Raises CannotCheck when it cannot be read as text."""
    try:
        return (folder / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        raise CannotCheck(f"the document {name} cannot be read: {wrong}", expected="UTF-8 text") from None


def tokens(folder: Path, name: str, needed: int, encode: Encode) -> tuple[int, ...]:
    """The first `needed` tokens of one document. Raises CannotCheck when it has fewer, or cannot be read."""
    found = tuple(encode(read(folder, name)))
    if len(found) < needed:
        raise CannotCheck(
            f"the document {name} is too short", expected=f"{needed} tokens", found=f"{len(found)} tokens"
        )
    return found[:needed]


def domain(name: str) -> str:
    """What sort of text a document is: the folder it lies in, or "text"."""
    return name.rpartition("/")[0] or "text"
