"""Shared runs of words, against every pair of places; and the command that tells them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import CannotCheck, UsageProblem
from provenance.cli import audit
from provenance.overlap import count, shared_runs

LICENCE = """\
# Permission is hereby granted, free of charge, to any person obtaining a copy of this code,
# to deal in it without restriction, including the rights to use, copy, modify, merge, publish,
# distribute, sublicense and sell copies of it, and to permit persons to whom it is furnished
# to do so, subject to this: the notice above and this one shall be in all copies of the code.
"""


def naive(first: dict[str, list[str]], second: dict[str, list[str]], least: int) -> set[tuple[str, int, int]]:
    """(text, begin, end) of every run of a text of `second` that is in `first` and cannot grow to either side."""
    runs = {
        tuple(words[i:j]) for words in first.values() for i in range(len(words)) for j in range(i + 1, len(words) + 1)
    }
    found = set()
    for name, words in second.items():
        n = len(words)
        within = {(i, j) for i in range(n) for j in range(i + 1, n + 1) if tuple(words[i:j]) in runs}
        found |= {
            (name, i, j) for i, j in within if j - i >= least and (i - 1, j) not in within and (i, j + 1) not in within
        }
    return found


# One word a line, so that lines are places; few words, so that runs repeat and overlap.
texts = st.dictionaries(st.sampled_from("abc"), st.lists(st.sampled_from(["x", "y", "z"]), max_size=14), max_size=3)


@settings(max_examples=300)
@given(texts, texts, st.integers(1, 5))
def test_as_every_pair_of_places(first: dict[str, list[str]], second: dict[str, list[str]], least: int) -> None:
    joined = [{name: "\n".join(words) for name, words in side.items()} for side in (first, second)]
    found = list(shared_runs(*joined, least))
    assert {(run.name, run.line - 1, run.line - 1 + run.words) for run in found} == naive(first, second, least)
    assert len(found) == len({(run.name, run.line, run.words) for run in found})
    for run in found:
        here = second[run.name][run.line - 1 :][: run.words]
        assert first[run.other][run.other_line - 1 :][: run.words] == here
        assert run.begins.split() == here[:8]


def test_case_punctuation_and_line_breaks_hide_nothing() -> None:
    (run,) = shared_runs({"a": "One two, three\nFOUR"}, {"b": "zero\n# one\n# two\u00a0THREE -- ﬁve\nfour"}, 3)
    assert (run.words, run.line, run.other_line, run.begins) == (3, 2, 1, "one two three")


def test_no_run_reaches_from_one_text_into_the_next() -> None:
    assert not list(shared_runs({"a": "one two", "b": "three four"}, {"c": "one two three four"}, 3))


def test_it_is_linear_where_a_text_repeats_itself() -> None:
    """20,000 equal words: every pair of places would be 400 million."""
    (run,) = shared_runs({"a": "word " * 20_000}, {"b": "word " * 20_000}, 50)
    assert (run.words, run.line, run.other_line) == (20_000, 1, 1)


def _code(folder: Path, name: str, body: str, licence: str = LICENCE) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f'"""{folder.name}"""\n\n{licence}\n{body}\n', encoding="utf-8")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two folders of code whose files share nothing but a licence header."""
    monkeypatch.chdir(tmp_path)
    _code(tmp_path / "mine", "one.py", "ONE = 1")
    _code(tmp_path / "theirs", "two.py", "TWO = 2")
    _code(tmp_path / "theirs", "three.py", "THREE = 3", licence="")
    return tmp_path


def _run(*arguments: str) -> tuple[int, str]:
    """The exit code and stdout of `audit overlap`."""
    result = CliRunner().invoke(audit, ["overlap", *arguments], standalone_mode=False, catch_exceptions=False)
    return int(result.return_value), result.stdout


def test_it_finds_the_licence_header_that_code_files_share(folders: Path) -> None:
    code, out = _run("mine", "theirs")
    assert code == 1
    told, verdict = out.splitlines()
    assert told.startswith(f"theirs/two.py:3: {count(LICENCE)} words of mine/one.py:3: permission is hereby granted")
    assert verdict == "OVERLAPS: 1 runs of 50 words or more in 2 texts against 1"
    with (folders / "mine" / "one.py").open("a") as more:
        more.write("# and some words of its own, so that there is enough to compare\n" * 2)
    with (folders / "theirs" / "two.py").open("a") as more:
        more.write("# while this one goes on with others that are not the same at all\n" * 2)
    assert _run("mine", "theirs", "--words", str(count(LICENCE) + 1))[0] == 0


def test_files_and_data_sets_can_be_named(folders: Path) -> None:
    (folders / "study.toml").write_text('[datasets.calibration]\nsource = "path:mine"\n')
    assert _run("calibration", "theirs/two.py")[0] == 1
    code, out = _run("mine/one.py", "theirs/three.py", "--words", "3")
    assert (code, out.splitlines()[-1]) == (0, "HOLDS: no run of 3 words or more in 1 texts against 1")


def test_json_has_every_run(folders: Path) -> None:
    code, out = _run("mine", "theirs", "--json")
    answer = json.loads(out)
    assert (code, answer["ok"], answer["exit_code"], len(answer["shared"])) == (1, False, 1, 1)
    assert answer["shared"][0]["words"] == count(LICENCE)


@pytest.mark.parametrize("words", ["50", "100000"])
def test_nothing_to_compare_is_never_a_pass(folders: Path, words: str) -> None:
    (folders / "empty").mkdir()
    with pytest.raises(CannotCheck, match="nothing to compare"):
        _run("empty" if words == "50" else "mine", "theirs", "--words", words)


def test_what_is_no_text_is_told(folders: Path) -> None:
    with pytest.raises(UsageProblem, match="there is no text 'nowhere'"):
        _run("nowhere", "theirs")
    (folders / "mine" / "picture").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CannotCheck, match="cannot be read"):
        _run("mine", "theirs")
