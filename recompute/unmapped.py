"""Files of a folder of samples that its mapping does not name: which they are, with their columns."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ledger.errors import Problem
from recompute.reported import Reported

MOST = 10  # files that are looked into
LARGEST = 16 << 20  # bytes of a file that is read for its columns alone


def unmapped(reported: Reported, study: Path, folder: Path) -> Iterator[str]:
    """`NAME (columns a, b, c)` of each file of a format that is read, below `folder`, that no section names."""
    from recompute.importers import SUFFIXES  # only now: a check without samples pays for no pyarrow

    places = [one.file for one in reported.data] + [one.file for one in reported.listed]
    named = {os.path.realpath(study / place) for place in places}
    chains = [os.path.realpath(study / chain.folder) for chain in reported.chains]
    others = [
        Path(place) / name
        for place, _, names in os.walk(folder)
        for name in names
        if Path(name).suffix.lower() in SUFFIXES
        and (real := os.path.realpath(Path(place) / name)) not in named
        and not any(Path(real).is_relative_to(chain) for chain in chains)
    ]
    others.sort()
    for file in others[:MOST]:
        yield f"{file.relative_to(folder)} ({_columns(file)})"
    if others[MOST:]:
        yield f"{len(others) - MOST} more"


def _columns(file: Path) -> str:
    from recompute.importers import importer_of

    try:
        if file.stat().st_size > LARGEST:
            return "large"
        raw = importer_of(file.name).read(file.read_bytes(), file.name)
    except OSError as refused:
        return f"cannot be read: {refused.strerror}"
    except Problem as refused:
        return refused.message.removeprefix(f"{file.name} ")
    return f"columns {', '.join(raw.columns)}"
