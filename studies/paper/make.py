"""Makes this study anew from the two JSON files that the paper's values were gathered in.

    python studies/paper/make.py FOLDER     FOLDER holds published.json and derivable.json

Writes published.tsv, report.md, reported.toml and external.tsv beside itself, and the CSV files of synthetic/. The
study itself needs neither this program nor those files.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from costs import lets
from derivations import restated, write
from layout import Entry, cell_of, place_of, title_of
from standins import files as standins

from provenance.external import Row, dump

HERE = Path(__file__).parent
PAPER = "arXiv:2611.09709v1"
FILES = {
    "published.json": "the values of the paper, its abstract and the card of the 27B maps, gathered from their text; "
    "published.tsv, report.md, reported.toml and synthetic/ are made of it by make.py",
    "derivable.json": "which of those values follow from others; reported.toml and synthetic/ are made of it too",
}
COLUMNS = ("id", "place", "source", "printed", "unit", "n", "low", "high", "sign", "what")
NOTES = {
    "card.gguf_bytes": "assumes f32 biases and corrections of 48 x 128 x 128; 1,024,384 bytes stay unexplained",
    **dict.fromkeys(
        ("s25.27b.skipped16k", "s42.skipped16k", "s25.27b.skipped120k", "s42.skipped120k"),
        "assumes the shapes of the public Qwen3.5-27B config and Gated DeltaNet maps for filled rows only; with maps "
        "for every prefix row it would hold",
    ),
    "s51.experts": "assumes 512 routed experts a layer, as in the public Qwen3-Next config",
    "s51.offload_share": "said as two thirds: to the nearest third",
    "s67.docs": "assumes the five lengths 8K to 128K",
}


def read(folder: Path, name: str) -> list[dict[str, Any]]:
    """One of the two files."""
    return json.loads((folder / name).read_bytes())  # type: ignore[no-any-return]


def ids(entries: Sequence[Entry]) -> dict[str, str]:
    """Published id -> the id of its cell."""
    return {str(entry["id"]): "/".join(place_of(entry)) for entry in entries}


def published(entries: Sequence[Entry]) -> str:
    """Every value with what is known of it, one a line."""
    out = io.StringIO()
    lines = csv.writer(out, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE, quotechar=None)
    lines.writerow(COLUMNS)
    cells = ids(entries)
    for entry in entries:
        low, high = entry["ci"] or ("", "")
        fields = (entry["source"], entry["printed"], entry["unit"], entry["n"] or "", low, high, _sign(entry))
        lines.writerow([entry["id"], cells[entry["id"]], *fields, entry["what"]])
    return out.getvalue()


def _sign(entry: Entry) -> str:
    told = [
        "uncertain" if entry["sign_uncertain"] else "",
        f"restored: {entry['sign_evidence']}" if entry["sign_restored"] else "",
        "multiplication sign restored" if entry.get("times_restored") else "",
    ]
    return "; ".join(filter(None, told)).replace("\t", " ")


def tables(entries: Sequence[Entry]) -> dict[str, dict[str, dict[str, str]]]:
    """Table -> row -> column -> cell."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for entry in entries:
        table, row, column = place_of(entry)
        found.setdefault(table, {}).setdefault(row, {})[column] = cell_of(entry)
    return found


def report(entries: Sequence[Entry]) -> str:
    """The paper's tables and the values of its text, as Markdown."""
    lines = [
        "# Published values of the RidgeFill paper",
        "",
        "Every value of the paper, its abstract and the model card of the 27B maps, as printed, with lost minus signs",
        "restored. Nothing here was measured by us. What is known of each value stands in published.tsv; both are made",
        "by make.py. A number said in words, or to the thousand, is written in digits first.",
        "",
    ]
    for table, rows in tables(entries).items():
        name, about = title_of(table)
        columns = list(dict.fromkeys(column for row in rows.values() for column in row))
        lines += [f"## {name}" + (f": {about}" if about else ""), "", f"<!-- table: {name} -->", ""]
        lines += [_row(["", *columns]), _row(["---", *["---:"] * len(columns)])]
        lines += [_row([row, *(cells.get(column, "") for column in columns)]) for row, cells in rows.items()]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def reported(entries: Sequence[Entry], rules: Sequence[Mapping[str, Any]]) -> str:
    """What is bound, and what the values say of each other."""
    lines = ["# Made by make.py. Every published value is printed only: no samples are at hand.", ""]
    for table in tables(entries):
        lines += ["[[table]]", f'id = "{table}"', 'file = "report.md"', f'name = "{title_of(table)[0]}"']
        lines += ['rows = "task"', 'columns = "arm"', *(["texts = true"] if table == "names" else []), ""]
    lines += ["# Multiply-accumulates (paper 2.5), as `ridgefill.cost` counts them.", "[let]"]
    lines += [f'{name} = "{text}"' for name, text in lets()]
    lines += ["", "# The id of a relation is the published id that it is about."]
    for name, holds in relations(entries, rules):
        note = NOTES.get(name)
        lines += ["[[relation]]", f'id = "{name}"', f'holds = "{holds}"', *([f'note = "{note}"'] if note else []), ""]
    return "\n".join(lines)


def relations(entries: Sequence[Entry], rules: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """(id, what holds) of every derivation."""
    cells, by_id = ids(entries), {entry["id"]: entry for entry in entries}
    derived = {rule["id"]: rule for rule in rules}
    for rule in rules:
        name = str(rule["id"])
        if rule["kind"] == "restatement":
            found = list(restated(rule, lambda one: f"{{{cells[one]}}}", lambda one: bool(by_id[one]["ci"])))
        else:
            found = list(write(rule, lambda one: f"{{{cells[one]}}}", derived).items())
        for suffix, right in found:
            slot = suffix if suffix.startswith(":") else ""
            yield name + suffix.replace(":", "."), f"{{{cells[name]}{slot}}} = {right}"


def external(folder: Path) -> str:
    """Where the two files came from: they were handed to us, and are not part of this study."""
    rows = []
    for name, note in FILES.items():
        data = (folder / name).read_bytes()
        rows.append(Row(name, len(data), sha256(data).hexdigest(), f"path:{name}", PAPER, "facts only", note))
    return dump(rows)


def main(folder: Path) -> None:
    """Write the files."""
    entries, rules = (read(folder, name) for name in FILES)
    made = {
        "published.tsv": published(entries),
        "report.md": report(entries),
        "reported.toml": reported(entries, rules),
        "external.tsv": external(folder),
        **{f"synthetic/{name}": text for name, text in standins(entries, rules).items()},
    }
    for name, text in made.items():
        (HERE / name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python studies/paper/make.py FOLDER")
    main(Path(sys.argv[1]))
