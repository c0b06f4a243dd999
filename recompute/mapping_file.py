"""data.toml: which files of a folder are the samples behind a study's printed numbers. For numbers printed only so far.

It has the sections [[data]], [[table]], [[value]] and [defaults] of reported.toml. Its files lie in the folder; a table
takes the place of the study's table of that id, and so gives its cells the samples they come from.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from ledger.errors import UsageProblem
from recompute.load import parse_reported
from recompute.reported import Reported

DATA_FILE = "data.toml"


def with_data(reported: Reported, study: Path, folder: Path) -> Reported:
    """What a study reports, with the samples of a folder: by the folder's own data.toml, or else the study's.

    Raises UsageProblem when there is neither or it names no data, Faults for what is wrong in it.
    """
    mapping = _mapping(study, folder)
    by_id = {table.id: table for table in mapping.tables}
    own = {table.id for table in reported.tables}
    return replace(
        reported,
        data=(
            *reported.data,
            *(one.model_copy(update={"file": os.path.relpath(folder / one.file, study)}) for one in mapping.data),
        ),
        values=(*reported.values, *mapping.values),
        tables=(
            *(by_id.get(table.id, table) for table in reported.tables),
            *(table for table in mapping.tables if table.id not in own),
        ),
        defaults={**reported.defaults, **mapping.defaults},
    )


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
    if not mapping.data or mapping.cites or mapping.relations or mapping.plots or mapping.let:
        raise UsageProblem(
            f"{file} is no {DATA_FILE}", expected="[[data]] with [[table]], [[value]] and [defaults] only"
        )
    return mapping
