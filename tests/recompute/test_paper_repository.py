"""A data repository as the paper describes it: its chain index, and its table of files, whole and with faults."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from click.testing import CliRunner

from ledger.errors import CannotCheck, UsageProblem
from ledger.findings import Severity
from provenance.external import Row, write
from recompute.recomputation import recompute
from recompute.report.model import Report
from recompute.report.text import to_text
from recompute.standing import Checked, Standing

STUDY = Path(__file__).parents[2] / "studies" / "paper"
PRINTED = {"s9/ledger/value": 42, "s9/ledger_full/value": 27, "s9/ledger_hash/value": 15}
CLAIM = '[[claim]]\nid = "{id}"\ntext = "What {id} says."\nexploratory = true\n'
MAPPING = """
[[chain]]
folder = "ledger"
entries = "s9/ledger/value"
full = "s9/ledger_full/value"
hashed = "s9/ledger_hash/value"

[[files]]
file = "external.tsv"
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The part of the paper's study that speaks of the ledger."""
    folder = tmp_path_factory.mktemp("small")
    rows = "".join(f"| {name.split('/')[1]} | {number} |\n" for name, number in PRINTED.items())
    (folder / "report.md").write_text(f"<!-- table: Section 9 -->\n\n|  | value |\n|---|---|\n{rows}")
    (folder / "reported.toml").write_text(
        '[[table]]\nid = "s9"\nfile = "report.md"\nname = "Section 9"\nrows = "task"\ncolumns = "arm"\n\n[[relation]]\n'
        'id = "rest"\nholds = "{s9/ledger_hash/value} = {s9/ledger/value} - {s9/ledger_full/value}"\n'
    )
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """study/: a ledger of 42 entries, 15 of them sealed claims; data/: it published without those, and two files."""
    from ridgefill.cli import root

    base = tmp_path_factory.mktemp("repository")
    study, data = base / "study", base / "data"
    study.mkdir()
    (study / "claims.toml").write_text("".join(CLAIM.format(id=f"open-{n}") for n in range(20)))
    (study / "sealed.toml").write_text("".join(CLAIM.format(id=f"sealed-{n}") for n in range(15)))
    commands = [["init"], ["register"], ["register", str(study / "sealed.toml"), "--sealed"], ["checkpoint"]]
    commands += [["note", f"remark {n}"] for n in range(5)]
    commands += [["publish", "--out", str(data / "ledger"), "--entries", "0-20,36-41"]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIDGEFILL_KEYS", str(base / "keys"))
        patch.setenv("RIDGEFILL_STATE", str(base / "state"))
        for command in commands:
            done = CliRunner().invoke(root, ["ledger", *command, "-C", str(study)])
            assert done.exit_code == 0, (command, done.output)
    (data / "maps").mkdir()
    rows = [_listed(data / "maps" / name, bytes([number]) * 100) for number, name in enumerate("abc")]
    write(rows, data)
    (data / "data.toml").write_text(MAPPING)
    return base


def _listed(file: Path, content: bytes) -> Row:
    file.write_bytes(content)
    name = f"maps/{file.name}"
    return Row(name, len(content), sha256(content).hexdigest(), f"path:{name}", "", "CC0-1.0", "")


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "data", tmp_path / "data"))


def counts(report: Report) -> dict[str, Checked]:
    return {one.value: one for one in report.checked if one.value in PRINTED}


def errors(report: Report) -> dict[str, int]:
    """code -> exit code of the findings about the repository that make the check fail."""
    return {one.code: one.exit_code for one in report.findings if one.severity is Severity.ERROR}


def edit(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def edited(data: Path) -> None:
        before = (data / name).read_bytes()
        (data / name).write_bytes(change(before))
        assert (data / name).read_bytes() != before

    return edited


def lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    return lambda text: b"".join(change(text.splitlines(keepends=True)))


def test_a_whole_chain_and_whole_files_are_said_to_be(data: Path) -> None:
    report = recompute(STUDY, data=data).report
    found = counts(report)
    assert {name: (one.standing, int(one.recomputed)) for name, one in found.items()} == {
        name: (Standing.MATCH, number) for name, number in PRINTED.items()
    }
    assert all("chain.tsv" in one.rule for one in found.values())
    told = {one.code: one.message for one in report.findings}
    assert told["published"] == "27 entries in full, 15 as hashes only"
    assert told["chain"].startswith("OK-UNPINNED: 27 of 42 entries in full, 15 as hashes; no head from you")
    said = to_text(report).splitlines()
    assert any(re.match(r"note: .*ledger/chain\.tsv: OK-UNPINNED: 27 of 42", line) for line in said)
    assert any(re.match(r"note: .*external\.tsv: 3 of its 3 files have the sha256", line) for line in said)
    assert told["files"] == "3 of its 3 files have the sha256 that it states"
    assert errors(report) == {}
    assert report.exit_code == 1  # of the seven published numbers that disagree
    assert report.standings == {"MATCH": 3, "MISMATCH": 7, "RELATION_ONLY": 943, "UNBOUND": 605}


FAULTS: dict[str, tuple[Callable[[Path], None], str, int, str]] = {
    "an entry edited": (edit("ledger/entries.jsonl", lambda t: t.replace(b"remark 3", b"remark 4")), "stranger", 3, ""),
    "an entry's byte flipped": (
        edit("ledger/entries.jsonl", lambda t: t[:900] + bytes([t[900] ^ 1]) + t[901:]), "stranger", 3, "",
    ),
    "an entry cut short": (edit("ledger/entries.jsonl", lambda t: t[:-9]), "cut", 3, ""),
    "a link broken": (
        edit("ledger/chain.tsv", lines(lambda rows: [*rows[:9], re.sub(rb"..\n", b"00\n", rows[9]), *rows[10:]])),
        "chain", 3, "",
    ),
    "a hash changed": (
        edit("ledger/chain.tsv", lines(lambda r: [*r[:30], re.sub(rb"\t\w{4}(\w{60})", rb"\t0000\1", r[30]), *r[31:]])),
        "chain", 3, "",
    ),
    "a row missing": (edit("ledger/chain.tsv", lines(lambda rows: rows[:30] + rows[31:])), "row", 3, ""),
    "two rows swapped": (
        edit("ledger/chain.tsv", lines(lambda r: [*r[:30], r[31], r[30], *r[32:]])), "chain", 3, "",
    ),
    "the last row missing": (edit("ledger/chain.tsv", lines(lambda rows: rows[:-1])), "stranger", 3, ""),
    "the index cut short": (edit("ledger/chain.tsv", lambda text: text[:-40]), "cut", 3, ""),
    "the index empty": (edit("ledger/chain.tsv", lambda _: b""), "header", 3, ""),
    "the header edited": (edit("ledger/chain.tsv", lambda t: t.replace(b"leaf", b"laef", 1)), "header", 3, ""),
    "a withheld entry's kind": (
        edit("ledger/chain.tsv", lines(lambda r: [*r[:30], r[30].replace(b"claim", b"note"), *r[31:]])),
        "index-signature", 3, "",
    ),
    "no index": (lambda data: (data / "ledger" / "chain.tsv").unlink(), "chain-unread", 6, "No such file"),
    "a folder for an index": (
        lambda data: (data / "ledger/chain.tsv").rename(data / "old") and (data / "ledger/chain.tsv").mkdir(),
        "chain-unread", 6, "Is a directory",
    ),
    "another form": (
        edit("ledger/chain.tsv", lambda _: b"index\tsha256\tprevious\n0\tab\t00\n"),
        "chain-unread", 6, "found index, sha256, previous",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_chain_that_does_not_hold_vouches_for_no_count(small: Path, data: Path, fault: str) -> None:
    hurt, code, exit_code, said = FAULTS[fault]
    hurt(data)
    report = recompute(small, data=data).report
    assert errors(report)[code] == exit_code
    assert set(errors(report).values()) == {exit_code}
    assert report.exit_code == exit_code
    assert {one.standing for one in counts(report).values()} == {Standing.REFUSED}
    assert {one.unread for one in counts(report).values()} == {exit_code == 6}
    assert "OK" not in " ".join(one.message for one in report.findings)
    assert len([one for one in report.findings if one.exit_code]) <= 4  # a row that is missing moves all that follow
    assert said in " ".join(one.line() for one in report.findings)
    assert all("\n" not in one.line() for one in report.all_findings)


def test_counts_that_are_not_the_printed_ones_are_told(small: Path, data: Path) -> None:
    """A chain that holds with an entry less: one more is withheld, or the end is missing with the heads that know."""
    edit("ledger/entries.jsonl", lines(lambda rows: [row for row in rows if b"open-7" not in row]))(data)
    report = recompute(small, data=data).report
    assert errors(report) == {}
    told = {name: (one.standing, one.recomputed) for name, one in counts(report).items()}
    assert told == {
        "s9/ledger/value": (Standing.MATCH, "42"),
        "s9/ledger_full/value": (Standing.MISMATCH, "26"),
        "s9/ledger_hash/value": (Standing.MISMATCH, "16"),
    }
    shutil.rmtree(data / "ledger" / "checkpoints")
    (data / "ledger" / "index.note").unlink()
    for name in ("chain.tsv", "entries.jsonl"):
        edit(f"ledger/{name}", lines(lambda rows: rows[:-1]))(data)
    report = recompute(small, data=data).report
    assert errors(report) == {}
    assert [(one.recomputed, one.standing) for one in counts(report).values()] == [
        ("41", Standing.MISMATCH), ("25", Standing.MISMATCH), ("16", Standing.MISMATCH),
    ]  # fmt: skip


def test_an_index_of_more_entries_than_the_text_speaks_of_refutes_nothing(
    small: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paper's 42 are those that its results rest on; its index holds every entry."""
    from ridgefill.cli import root

    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("RIDGEFILL_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("RIDGEFILL_STATE", str(tmp_path / "state"))
    study, data = tmp_path / "study", tmp_path / "data"
    for number in range(3):
        assert CliRunner().invoke(root, ["ledger", "note", f"more {number}", "-C", str(study)]).exit_code == 0
    for entries, full in (("0-20,36-41", Standing.REFUSED), ("0-19,36-41", Standing.MISMATCH)):
        shutil.rmtree(data / "ledger")
        publish = ["ledger", "publish", "-C", str(study), "--out", str(data / "ledger"), "--entries", entries]
        assert CliRunner().invoke(root, publish).exit_code == 0
        report = recompute(small, data=data).report
        found = counts(report)
        assert errors(report) == {}
        assert found["s9/ledger_full/value"].standing is full  # at most 26 of the 42 can be in full
        for name in ("s9/ledger/value", "s9/ledger_hash/value"):
            assert (found[name].standing, found[name].unread) == (Standing.REFUSED, True)
            assert "holds more entries than the text speaks of" in found[name].cause


def test_files_that_differ_are_named_and_files_that_are_not_here_could_not_be_checked(small: Path, data: Path) -> None:
    edit("maps/b", lambda content: content[:50] + b"\xff" + content[51:])(data)
    (data / "maps" / "c").unlink()
    report = recompute(small, data=data).report
    assert errors(report) == {"differs": 5, "files-absent": 6}
    assert report.exit_code == 5
    told = [one.line() for one in report.findings]
    assert any(re.search(r"external\.tsv: maps/b: differs \(expected \w{64}, found \w{64}\)", line) for line in told)
    assert any("1 of its 3 files could not be checked, they are not here: maps/c" in line for line in told)
    assert any("1 of its 3 files have the sha256 that it states" in line for line in told)


@pytest.mark.parametrize(
    ("table", "mapping", "said"),
    [
        ("name,hash\nmaps/a,{a}\n", "", "has no column 'path'; known: hash, name; next: columns = {"),
        ("name,hash\nmaps/a,{a}\n", 'columns = { path = "nmae" }', "did you mean 'name'?; found name, hash; next"),
        ("path,sha256\nmaps/a,abc\n", "", ":2: no sha256; expected 64 hex digits; found 'abc'"),
        ("path,sha256\n../x,{a}\n", "", ":2: no name of a file in its folder"),
        ("path,sha256\n/etc/passwd,{a}\n", "", ":2: no name of a file in its folder"),
        ("path,sha256\nmaps/a,{a}\nmaps/a,{a}\n", "", ":3: a file that is there twice; found maps/a"),
        ("path,sha256\nmaps/a,{a}", "", "does not end with a line break; likely cause: it was cut short"),
        ("path,sha256\nmaps/a,{a}\nmaps/b\n", "", ":3: a row is not as long as the header"),
        ("path,sha256\n\x00,{a}\n", "", "no name of a file in its folder"),
    ],
)
def test_a_table_of_files_that_cannot_be_read_is_one_line(
    small: Path, data: Path, table: str, mapping: str, said: str
) -> None:
    (data / "files.csv").write_text(table.format(a=sha256(bytes(100)).hexdigest()))
    (data / "data.toml").write_text(f'[[files]]\nfile = "files.csv"\n{mapping}\n')
    with pytest.raises(UsageProblem) as refused:
        recompute(small, data=data)
    assert said in refused.value.line()
    assert "\n" not in refused.value.line()


def test_a_table_of_their_own_is_mapped_and_may_name_nothing(small: Path, data: Path) -> None:
    digest = sha256(bytes(100)).hexdigest().upper()
    (data / "files.csv").write_text(f"name,hash\nmaps/a,{digest}\ngone,{digest}\n")
    (data / "empty.csv").write_text("path,sha256\n")
    mapping = '[[files]]\nfile = "files.csv"\ncolumns = { path = "name", sha256 = "hash" }\n'
    (data / "data.toml").write_text(mapping + '[[files]]\nfile = "empty.csv"\n[[files]]\nfile = "not.csv"\n')
    report = recompute(small, data=data).report
    told = [one.line() for one in report.findings]
    for said in ("1 of its 2 files have", "1 of its 2 files could not be checked", "it names no file",
                 "not.csv: cannot be read: No such file"):  # fmt: skip
        assert any(said in line for line in told), said
    assert set(errors(report).values()) == {6}


def test_a_count_that_nobody_prints_is_refused_with_the_nearest_name(small: Path, data: Path) -> None:
    (data / "data.toml").write_text(MAPPING.replace("s9/ledger_full/value", "s9/ledger_fall/value"))
    with pytest.raises(UsageProblem, match=r"'s9/ledger_fall/value', did you mean 's9/ledger_full/value'\?"):
        recompute(small, data=data)


def test_the_studys_own_mapping_names_the_chain_and_the_table(data: Path) -> None:
    (data / "data.toml").unlink()
    report = recompute(STUDY, data=data).report
    assert {one.standing for one in counts(report).values()} == {Standing.MATCH}
    assert errors(report) == {"data-missing": 6}


def test_a_folder_with_none_of_the_files_is_one_line_that_says_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(CannotCheck) as refused:
        recompute(STUDY, data=tmp_path)
    assert "holds nothing that data.toml names; expected ruler/llama.csv" in refused.value.line()
    assert "found no file of samples; next: in the folder's own data.toml" in refused.value.line()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "llama_ruler.csv").write_text("idx,task_name,score\n1,niah,0.5\n")
    (tmp_path / "results" / "cut.csv").write_text("idx,task_name")
    with pytest.raises(CannotCheck) as refused:
        recompute(STUDY, data=tmp_path)
    assert "results/llama_ruler.csv (columns idx, task_name, score)" in refused.value.line()
    assert "results/cut.csv (does not end with a line break)" in refused.value.line()


def test_the_command_says_it_in_one_line_and_with_its_exit_code(
    data: Path, tmp_path: Path, run_command: Callable[..., CompletedProcess[str]]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    edit("ledger/entries.jsonl", lambda text: text[:-9])(data)
    for folder, code, said in (
        (tmp_path / "empty", 6, "holds nothing that data.toml names"),
        (tmp_path / "file", 2, "is a file"),
        (tmp_path / "none", 2, "does not exist"),
    ):
        ran = run_command(STUDY, "recompute", "--check", "-C", str(STUDY), "--data", str(folder))
        assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (code, "", 1), ran.stderr
        assert said in ran.stderr
    ran = run_command(STUDY, "recompute", "--check", "-C", str(STUDY), "--data", str(data))
    assert ran.returncode == 3
    assert ran.stdout.startswith("TAMPERED: paper: 1558 printed numbers: 7 MISMATCH, 3 REFUSED, 943 RELATION_ONLY")


def test_a_file_that_nothing_names_is_told_with_its_columns(small: Path, data: Path) -> None:
    (data / "other.jsonl").write_text('{"doc": 1, "acc": 0.5}\n')
    told = [one.line() for one in recompute(small, data=data).report.findings if one.code == "unmapped"]
    assert len(told) == 1  # neither the table nor the lines of the ledger
    assert told[0].startswith("warning: other.jsonl (columns doc, acc): no [[data]] of data.toml names it")
    assert "its columns in `columns`" in told[0]
