"""A study's documents: what is committed, that it rebuilds from wheels by their digests, and every way it can fail."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import CannotCheck, Differs, EnvironmentProblem, Problem, UsageProblem
from provenance.overlap import shared_runs
from runs.cli import run
from runs.documents import HEADER, MANIFEST, PACKAGES, TEXTS, WHEELS, load, rebuild

STUDY = Path(__file__).parents[2] / "studies" / "smollm2"
BOOK = "\ufeffOne\r\nTwo\r\nThree\r\n"
LAW = "Whereas\nTherefore\n"


# --- what is committed ---


def test_the_manifest_is_what_the_issue_asks() -> None:
    documents = load((STUDY / MANIFEST).read_bytes())
    sets = Counter(document.name.split("/")[0] for document in documents)
    domains = Counter(document.domain for document in documents)
    assert sets.keys() == {"calibration", "evaluation"}
    assert sets["evaluation"] >= 60
    assert sum(domain.startswith("evaluation/") for domain in domains) >= 5
    assert min(count for domain, count in domains.items() if domain.startswith("evaluation/")) >= 12
    assert len({document.sha256 for document in documents}) == len(documents)
    assert [document.name for document in documents] == sorted(document.name for document in documents)


def test_every_package_of_the_manifest_is_pinned_by_a_digest_and_no_other_is() -> None:
    packages = {
        document.source.removeprefix("pypi:").split("#")[0] for document in load((STUDY / MANIFEST).read_bytes())
    }
    lines = [line for line in (STUDY / PACKAGES).read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"\S+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    assert {line.split()[0] for line in lines} == packages


def test_no_text_is_committed() -> None:
    ignored = (STUDY / ".gitignore").read_text().splitlines()
    assert {f"{TEXTS}/", f"{WHEELS}/"} <= set(ignored)


@pytest.mark.slow
def test_the_documents_rebuild_and_share_no_fifty_words_with_the_calibration_text(tmp_path: Path) -> None:
    """From the study's own folder if it has the wheels; fetched otherwise, and skipped where nothing can be."""
    for name in (MANIFEST, PACKAGES):
        (tmp_path / name).write_bytes((STUDY / name).read_bytes())
    try:
        documents = rebuild(tmp_path)
    except EnvironmentProblem as offline:
        pytest.skip(offline.line())
    sets: dict[str, dict[str, str]] = {"calibration": {}, "evaluation": {}}
    for document in documents:
        sets[document.name.split("/")[0]][document.name] = (tmp_path / TEXTS / document.name).read_text()
    assert not list(shared_runs(sets["calibration"], sets["evaluation"]))
    assert list(shared_runs(sets["calibration"], sets["evaluation"], 12))  # the audit would see one


# --- a study of our own ---


def _wheel(folder: Path, name: str, files: dict[str, str]) -> str:
    """A wheel of version 1 that pip takes; its sha256."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-1-py3-none-any.whl"
    about = {
        f"{name}-1.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
        f"{name}-1.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}-1.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in (files | about).items():
            archive.writestr(member, text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _row(name: str, source: str, lines: str, text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return "\t".join((name, source, lines, str(len(text.encode())), digest, "public domain"))


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two documents of two packages that lie where pip looks, and nowhere else."""
    index = tmp_path / "index"
    books = _wheel(index, "rfbooks", {"rfbooks/book.txt": BOOK, "rfbooks/more.txt": "Four\nFive"})
    laws = _wheel(index, "rflaws", {"rflaws/law.txt": LAW})
    folder = tmp_path / "study"
    folder.mkdir()
    rows = [
        "\t".join(HEADER),
        _row("law/law.txt", "pypi:rflaws==1#rflaws/law.txt", "1-2", LAW),
        _row("prose/book.txt", "pypi:rfbooks==1#rfbooks/book.txt|rfbooks/more.txt", "2-4", "Two\nThree\nFour\n"),
    ]
    (folder / MANIFEST).write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / PACKAGES).write_text(f"rfbooks==1 --hash=sha256:{books}\nrflaws==1 --hash=sha256:{laws}\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def _told(study: Path) -> Problem:
    with pytest.raises(Problem) as caught:
        rebuild(study)
    return caught.value


def test_wheels_are_fetched_once_and_lines_cut_and_joined(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [document.domain for document in rebuild(study)] == ["law", "prose"]
    assert (study / TEXTS / "prose" / "book.txt").read_bytes() == b"Two\nThree\nFour\n"
    assert (study / TEXTS / "law" / "law.txt").read_bytes() == LAW.encode()
    (study / TEXTS / "law" / "law.txt").write_text("edited")
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")  # pip could fetch nothing any more
    rebuild(study)
    assert (study / TEXTS / "law" / "law.txt").read_bytes() == LAW.encode()


def test_a_wheel_that_is_not_the_pinned_one_is_never_used(study: Path) -> None:
    _wheel(study.parent / "index", "rflaws", {"rflaws/law.txt": LAW + "Moreover\n"})
    problem = _told(study)
    assert isinstance(problem, EnvironmentProblem)
    assert "rflaws" in problem.line() or "HASHES" in problem.line().upper()
    assert not (study / TEXTS).exists()


def test_no_network_is_told_with_what_to_do(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    problem = _told(study)
    assert (problem.exit_code, problem.hint) == (7, "put them into wheels/ by hand, or try again with a network")


def test_a_text_that_is_not_the_pinned_one_is_named(study: Path) -> None:
    rebuild(study)
    _wheel(study / WHEELS, "rflaws", {"rflaws/law.txt": LAW.upper()})
    problem = _told(study)
    assert isinstance(problem, Differs)
    assert "law/law.txt" in problem.line()
    assert "pip install --no-deps --force-reinstall rflaws==1" in problem.line()


def test_a_package_without_the_file_is_told(study: Path) -> None:
    manifest = study / MANIFEST
    manifest.write_text(manifest.read_text().replace("rflaws/law.txt", "rflaws/lost.txt"))
    problem = _told(study)
    assert isinstance(problem, CannotCheck)
    assert "rflaws/lost.txt" in problem.line()


def test_a_wheel_that_lost_a_file_is_fetched_again(study: Path) -> None:
    rebuild(study)
    _wheel(study / WHEELS, "rflaws", {"rflaws/other.txt": LAW})
    rebuild(study)
    assert "rflaws/law.txt" in zipfile.ZipFile(study / WHEELS / "rflaws-1-py3-none-any.whl").namelist()


def test_bytes_that_are_no_text_are_told(study: Path) -> None:
    rebuild(study)
    with zipfile.ZipFile(study / WHEELS / "rflaws-1-py3-none-any.whl", "w") as archive:
        archive.writestr("rflaws/law.txt", b"\xff\xfe")
    assert "law/law.txt cannot be read" in _told(study).line()


def test_a_file_that_no_row_names_is_told(study: Path) -> None:
    """It would be a document of the data set too."""
    rebuild(study)
    (study / TEXTS / "law" / "stray.txt").write_text("mine")
    assert "documents/law/stray.txt is not in documents.tsv" in _told(study).line()


BAD: dict[str, Callable[[str], str]] = {
    "header": lambda text: text.replace("licence", "license"),
    "no rows": lambda text: text.split("\n")[0] + "\n",
    "cells": lambda text: text.replace("\tpublic domain", "", 1),
    "leaves the folder": lambda text: text.replace("law/law.txt\t", "../law.txt\t"),
    "no domain": lambda text: text.replace("law/law.txt\t", "law.txt\t"),
    "twice": lambda text: text + text.split("\n")[1] + "\n",
    "source": lambda text: text.replace("pypi:rflaws", "path:rflaws"),
    "lines": lambda text: text.replace("\t1-2\t", "\t0-2\t"),
    "digest": lambda text: re.sub(r"[0-9a-f]{64}", lambda found: found[0].upper() + "x", text, count=1),
    "licence": lambda text: text.replace("public domain", " ", 1),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_manifest_is_usage_with_its_line(study: Path, fault: str) -> None:
    text = (study / MANIFEST).read_text()
    (study / MANIFEST).write_text(BAD[fault](text))
    problem = _told(study)
    assert isinstance(problem, UsageProblem)
    assert MANIFEST in problem.line()
    assert not (study / TEXTS).exists()


def test_a_study_without_a_manifest_is_usage(tmp_path: Path) -> None:
    assert "-C the study's folder" in _told(tmp_path).line()


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_make_the_reader_fail_otherwise(data: bytes) -> None:
    for text in (data, "\t".join(HEADER).encode() + b"\n" + data):
        try:
            load(text)
        except UsageProblem:
            continue


def test_the_command_counts_by_domain(study: Path) -> None:
    result = CliRunner().invoke(run, ["documents", "-C", str(study)], standalone_mode=False, catch_exceptions=False)
    assert result.return_value == 0
    assert result.stdout.splitlines() == [
        "law                1 documents         18 bytes",
        "prose              1 documents         15 bytes",
        "documents/ holds 2 documents, each as pinned",
    ]
    result = CliRunner().invoke(run, ["documents", "-C", str(study), "--json"], standalone_mode=False)
    assert json.loads(result.stdout)["documents"] == {"law": 1, "prose": 1}
