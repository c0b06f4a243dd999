"""The SQL that selects a value's samples: one row an item, full outer join over the arms. Text only."""

from __future__ import annotations

import orjson

from recompute.spec import Spec

KEYS = ("task", "sample_id", "repeat")
LABELS = {"stratum": ("stratum",), "length": ("length",), "task": (), "none": ()}


def query(spec: Spec, run: str = "") -> str:
    """The query of a value, as `ridgefill recompute sql` takes it; run: the full id of the run that spec.run names.

    Columns: the keys, what the items are resampled within, their document if that is asked, and for every arm of the
    statistic its value and `NAME_status`, both NULL where the arm lacks the item. Arms that disagree on a stratum or
    document do not join. Raises UsageProblem when the spec does not name the arms its statistic reads.
    """
    keys = (*KEYS, *LABELS[spec.strata], *(("document",) if spec.weights == "document" else ()))
    sides = dict(zip(spec.how.arms, spec.arms, strict=True))
    first, *others = (f"(FROM chosen WHERE arm = {_text(arm)}) AS {side}" for side, arm in sides.items())
    joined = "".join(f"\nFULL JOIN {other} USING ({', '.join(keys)})" for other in others)
    values = "".join(f",\n    {side}.value AS {side}, {side}.status AS {side}_status" for side in sides)
    chosen = ", ".join(f"detail ->> {_field(spec.document)} AS document" if key == "document" else key for key in keys)
    return (
        f"WITH chosen AS (\n    SELECT {chosen}, arm, value, status\n"  # noqa: S608 - every text is quoted
        f"    FROM {'records' if run else 'samples'}\n    WHERE {' AND '.join(_conditions(spec, run))}\n)\n"
        f"SELECT {', '.join(keys)}{values}\nFROM {first}{joined}\nORDER BY {', '.join(keys)}"
    )


def _conditions(spec: Spec, run: str) -> list[str]:
    fixed = {"metric": spec.metric, "task": spec.task, "stratum": spec.stratum, "run_id": run}
    found = [f"{column} = {_text(value)}" for column, value in fixed.items() if value]
    found += [f"length = {spec.length}"] if spec.length is not None else []
    # As JSON, so that 7 and "7" are not the same.
    found += [
        f"(detail -> {_field(name)})::VARCHAR = {_text(orjson.dumps(value).decode())}"
        for name, value in spec.where.items()
    ]
    return found


def _field(name: str) -> str:
    """A field of the detail as a JSON pointer, so that no character of its name means anything else."""
    return _text("/" + name.replace("~", "~0").replace("/", "~1"))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
