"""Texts that every Python carries, so that maps can be fitted and judged where nothing can be downloaded.

Python's documentation topics and standard library sources (PSF licence), read where they are installed and
never copied. They are the same on every machine with the same Python; a map folder keeps their digests.
"""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ridgefill.errors import FillEnvironmentError, FillUsageError

SUFFIXES = (".txt", ".md", ".rst", ".py")

# Sections that a longer topic repeats word for word: they would be seen twice, or leak between the sets.
REPEATED = (
    *("async", "attribute-access", "augassign", "class", "context-managers", "customization"),
    *("dynamic-features", "else", "exceptions", "for", "function", "id-classes", "if", "in", "naming"),
    *("numeric-types", "sequence-types", "try", "typesseq-mutable", "while", "with"),
)
HELD_OUT_TOPICS = ("debugger",)
HELD_OUT_MODULES = ("csv", "textwrap")
EVALUATION_TOPICS = ("formatstrings", "string-methods", "types")
EVALUATION_MODULES = (
    "argparse",
    "calendar",
    "difflib",
    "fractions",
    "heapq",
    "pickletools",
    "random",
    "statistics",
    "tempfile",
)
CALIBRATION_MODULES = (
    "configparser",
    "contextlib",
    "dataclasses",
    "functools",
    "optparse",
    "shutil",
    "threading",
    "traceback",
)


@dataclass(frozen=True)
class Texts:
    """Three disjoint sets of documents, name -> text."""

    calibration: dict[str, str]
    held_out: dict[str, str]
    evaluation: dict[str, str]


@cache
def builtin() -> Texts:
    """Documentation and code of the running Python, split into sets that share no run of 50 words."""
    from pydoc_data.topics import topics

    apart = {*REPEATED, *HELD_OUT_TOPICS, *EVALUATION_TOPICS}
    rest = tuple(sorted(set(topics) - apart))
    return Texts(
        calibration=_topics(topics, rest) | _modules(CALIBRATION_MODULES),
        held_out=_topics(topics, HELD_OUT_TOPICS) | _modules(HELD_OUT_MODULES),
        evaluation=_topics(topics, EVALUATION_TOPICS) | _modules(EVALUATION_MODULES),
    )


def digests(texts: Iterable[str]) -> list[str]:
    """The sha256 of each text, in order: what a map folder keeps of the texts it was fitted on."""
    return [hashlib.sha256(text.encode()).hexdigest() for text in texts]


def _topics(topics: dict[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {f"topic/{name}": topics[name].strip() for name in names if name in topics}


def _modules(names: tuple[str, ...]) -> dict[str, str]:
    folder = Path(sysconfig.get_path("stdlib"))
    found = {}
    for name in names:
        path = folder / f"{name}.py"
        if not path.is_file():
            raise FillEnvironmentError(
                f"the standard library's source of {name} is missing",
                expected=str(path),
                cause="a Python installed without its sources",
                hint="name your own texts: --text FILE",
            )
        found[f"stdlib/{name}.py"] = path.read_text(encoding="utf-8")
    return found


def read_texts(paths: Iterable[Path]) -> dict[str, str]:
    """UTF-8 texts by name: a file, or every text file below a folder in the order of their paths.

    Raises FillUsageError for a path that is not there, a folder without texts, and a file that is no text.
    """
    found = {}
    for path in paths:
        below = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        for file in below if path.is_dir() else [path]:
            try:
                found[str(file)] = file.read_text(encoding="utf-8")
            except FileNotFoundError:
                raise FillUsageError(f"there is no text at {path}") from None
            except UnicodeDecodeError as error:
                raise FillUsageError(f"{file} is not text", expected="UTF-8", found=str(error)) from error
        if path.is_dir() and not below:
            raise FillUsageError(f"no texts in {path}", expected="files ending in " + ", ".join(SUFFIXES))
    return found
