"""The text that needles are hidden in: a data set's documents one after the other, as words and as sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path

from ledger.errors import UsageProblem
from runs.tasks import documents


@lru_cache(maxsize=4)
def words(folder: Path) -> tuple[str, ...]:
    """All words, documents in the order of their names. Raises UsageProblem or CannotCheck as reading them does."""
    found = tuple(word for name in documents.names(folder) for word in documents.read(folder, name).split())
    if not found:
        raise UsageProblem(f"the documents of the data set {folder.name} hold no words")
    return found


def sentences(text: Sequence[str], count: int) -> list[str]:
    """The first `count` words of a text as sentences; it begins anew when it ends.

    A sentence ends after . ! or ? before a space. Upstream asks NLTK's punkt, whose data is a download.
    """
    return re.split(r"(?<=[.!?]) ", " ".join(islice(cycle(text), count)))
