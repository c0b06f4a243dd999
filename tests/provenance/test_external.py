"""external.tsv: written sorted, read strictly, the same after a round trip; one finding a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import UsageProblem
from provenance.external import FILE, HEADER, Row, check_row, checks, dump, load, row_for, write
from provenance.manifest import escape

DIGEST = "0" * 64
CELL = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), max_size=20)
NAME = st.binary(min_size=1, max_size=12).filter(
    lambda name: b"\0" not in name and not {b"", b".", b".."} & set(name.split(b"/"))
)


@given(st.dictionaries(NAME, st.tuples(st.integers(0, 2**53), CELL, CELL), max_size=8))
def test_a_table_reads_back_as_itself_sorted_by_the_bytes_of_its_paths(
    files: dict[bytes, tuple[int, str, str]],
) -> None:
    rows = [
        Row(escape(name), size, DIGEST, "path:x", "", licence, note) for name, (size, licence, note) in files.items()
    ]
    read = load(dump(rows).encode())
    assert read == [row for _, row in sorted(zip(files, rows, strict=True))]


@pytest.mark.parametrize("cell", ["a\tb", "a\nb", "a\rb"])
def test_a_cell_that_would_break_its_row_is_refused(cell: str) -> None:
    with pytest.raises(UsageProblem):
        dump([Row("a", 1, DIGEST, "path:a", "", "x", cell)])


GOOD = f"a\t1\t{DIGEST}\tpath:a\t\tMIT\t"
BAD: dict[str, tuple[str, int]] = {
    "": (f"{FILE}, line 1: the header", 0),
    "x\n": (f"{FILE}, line 1: the header", 0),
    f"b{GOOD[1:]}\n{GOOD}\n": ("line 3: not sorted", 1),
    f"{GOOD}\n{GOOD}\n": ("line 3: not sorted by path, or twice the same", 1),
    f"{GOOD}\textra\n": ("line 2: a row of another width", 1),
    GOOD: ("line 2: the last line has no line feed", 1),
    f"{GOOD}\r\n": ("line 2: a carriage return", 1),
    GOOD.replace("\t1\t", "\t01\t") + "\n": ("line 2: the length is no number", 1),
    GOOD.replace(DIGEST, "F" * 64) + "\n": ("line 2: the digest is no sha256", 1),
    f"../{GOOD}\n": ("line 2: the name '../a' leaves its root", 1),
    "\\" + GOOD + "\n": ("line 2: a lone backslash", 1),
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_table_is_refused_with_its_line(text: str) -> None:
    said, header = BAD[text]
    with pytest.raises(UsageProblem) as caught:
        load((("\t".join(HEADER) + "\n") * header + text).encode())
    assert said in caught.value.message


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(UsageProblem, match="not UTF-8"):
        load(b"\xff")


def test_each_outside_file_is_found_out_by_itself(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
    rows = [row_for(name.encode(), f"path:{name}", tmp_path, licence="MIT") for name in ("c", "a", "b")]
    write(rows, tmp_path)
    read = load((tmp_path / FILE).read_bytes())
    assert [row.path for row in read] == ["a", "b", "c"]
    assert [found for row in read for found in check_row(row, tmp_path)] == []
    (tmp_path / "a").write_text("A")
    (tmp_path / "b").unlink()
    findings = [found for check in checks(tmp_path) for found in check()]
    assert [(finding.where, finding.exit_code) for finding in findings] == [(f"{FILE}: a", 5), (f"{FILE}: b", 6)]
    assert findings[0].expected.endswith("of 1 bytes")
