"""data.toml: which files of a folder are the samples behind a study's printed numbers. For numbers printed only so far.

It has the sections [[data]], [[chain]], [[files]], [[table]], [[value]] and [defaults] of reported.toml. Its files lie
in the folder; a table takes the place of the study's table of that id and gives its cells the samples they come from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from ledger.errors import CannotCheck, UsageProblem
from ledger.events.base import Part
from ledger.findings import Finding, warning
from recompute.load import parse_reported
from recompute.reported import Reported
from recompute.unmapped import unmapped

DATA_FILE = "data.toml"
HINT = f"in the folder's own {DATA_FILE}, its name as `file` and its columns in `columns` (docs/formats.md)"

M = TypeVar("M", bound=Part)


def with_data(reported: Reported, study: Path, folder: Path) -> Reported:
    """What a study reports, with the samples of a folder: by the folder's own data.toml, or else the study's.

    Raises UsageProblem when there is neither or it names no data, Faults for what is wrong in it, CannotCheck when the
    folder holds nothing that it names.
    """
    mapping = _mapping(study, folder)
    by_id = {table.id: table for table in mapping.tables}
    own = {table.id for table in reported.tables}
    found = replace(
        reported,
        data=(*reported.data, *(_moved(one, "file", study, folder) for one in mapping.data)),
        chains=(*reported.chains, *(_moved(one, "folder", study, folder) for one in mapping.chains)),
        listed=(*reported.listed, *(_moved(one, "file", study, folder) for one in mapping.listed)),
        values=(*reported.values, *mapping.values),
        tables=(
            *(by_id.get(table.id, table) for table in reported.tables),
            *(table for table in mapping.tables if table.id not in own),
        ),
        defaults={**reported.defaults, **mapping.defaults},
    )
    named = [one.file for one in mapping.data] + [one.folder for one in mapping.chains]
    named += [one.file for one in mapping.listed]
    if not any((folder / name).exists() for name in named):
        raise CannotCheck(
            f"{folder} holds nothing that {DATA_FILE} names",
            expected=", ".join(dict.fromkeys(named)),
            found="; ".join(unmapped(found, study, folder)) or "no file of samples",
            hint=HINT,
        )
    return found


def strangers(reported: Reported, study: Path, folder: Path) -> Iterator[Finding]:
    """A warning for each file of samples in the folder that nothing names: its numbers are not used."""
    for told in unmapped(reported, study, folder):
        yield warning("unmapped", told, f"no [[data]] of {DATA_FILE} names it, so nothing comes from it", hint=HINT)


def _moved(one: M, place: str, study: Path, folder: Path) -> M:
    """The same with its place told from the study's folder."""
    return one.model_copy(update={place: os.path.relpath(folder / getattr(one, place), study)})


def _mapping(study: Path, folder: Path) -> Reported:
    file = next((place / DATA_FILE for place in (folder, study) if (place / DATA_FILE).is_file()), None)
    if file is None:
        raise UsageProblem(
            f"there is no {DATA_FILE} in {folder}, nor in {study}",
            expected="[[data]] for each file of samples, and [[table]] for what is printed from them",
            hint="docs/formats.md, data.toml",
        )
    try:
        mapping = parse_reported(file.read_bytes().decode("utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as wrong:
        raise UsageProblem(f"{file} cannot be read: {wrong}") from None
    named = (*mapping.data, *mapping.chains, *mapping.listed)
    if not named or mapping.cites or mapping.relations or mapping.plots or mapping.let:
        raise UsageProblem(
            f"{file} is no {DATA_FILE}",
            expected="[[data]], [[chain]] or [[files]], with [[table]], [[value]] and [defaults] only",
        )
    return mapping
