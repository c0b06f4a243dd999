"""A source that has moved on is found in the commit its run was made from, byte for byte, or not at all."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ledger.findings import Severity
from provenance.committed import check_source, files_at
from provenance.measure import take
from provenance.pins import Pin
from provenance.tree import SOURCE_WALK, hash_tree


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a package that has odd names, a link, a program, an empty file and what tools leave behind."""
    package = tmp_path / "repo" / "pkg"
    (package / "sub").mkdir(parents=True)
    for name, text in {"__init__.py": "a = 1\n", "sub/b c.py": "", "sub/é.py": "é\n", "run.sh": "echo\n"}.items():
        (package / name).write_text(text, encoding="utf-8")
    (package / "run.sh").chmod(0o755)
    (package / "link.py").symlink_to("__init__.py")
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "x.pyc").write_bytes(b"x")
    git(package.parent, "init", "-q")
    git(package.parent, "add", "-A")
    git(package.parent, "commit", "-qm", "first")
    return package.parent


def pin(repo: Path) -> Pin:
    return take("source", "pkg", "path:pkg", repo, walk=SOURCE_WALK)


def test_the_files_of_a_commit_are_those_of_the_disk(repo: Path) -> None:
    assert files_at(repo, "HEAD", "pkg", SOURCE_WALK) == hash_tree(repo / "pkg", SOURCE_WALK).files


def test_a_source_that_moved_on_is_what_its_commit_has(repo: Path) -> None:
    pinned, commit = pin(repo), git(repo, "rev-parse", "HEAD")
    assert check_source(pinned, repo, "here", commit) == []
    (repo / "pkg" / "__init__.py").write_text("a = 2\n")
    git(repo, "commit", "-qam", "second")
    (found,) = check_source(pinned, repo, "here", commit)
    assert (found.severity, found.code) == (Severity.NOTE, "at-commit")
    assert commit[:12] in found.message


@pytest.mark.parametrize("commit", ["", "HEAD", "--output=x", "nosuch"])
def test_what_is_no_full_id_of_a_commit_leaves_the_difference(repo: Path, commit: str) -> None:
    pinned = pin(repo)
    (repo / "pkg" / "__init__.py").write_text("a = 2\n")
    git(repo, "commit", "-qam", "second")
    (found,) = check_source(pinned, repo, "here", commit)
    assert (found.severity, found.exit_code) == (Severity.ERROR, 5)
    assert "__init__.py" in found.where
    assert not (repo / "x").exists()


def test_another_commit_leaves_the_difference(repo: Path) -> None:
    pinned = pin(repo)
    (repo / "pkg" / "__init__.py").write_text("a = 2\n")
    git(repo, "commit", "-qam", "second")
    git(repo, "rm", "-rq", "pkg/sub")
    git(repo, "commit", "-qm", "third")
    for commit in ("HEAD", "HEAD~1"):
        found = check_source(pinned, repo, "here", git(repo, "rev-parse", commit))
        assert {one.exit_code for one in found} == {5}


def test_a_commit_that_is_not_here_cannot_be_checked(repo: Path, tmp_path: Path) -> None:
    pinned, commit = pin(repo), git(repo, "rev-parse", "HEAD")
    (repo / "pkg").rename(tmp_path / "pkg")
    (tmp_path / "pkg" / "run.sh").write_text("exit\n")
    (elsewhere,) = check_source(pinned, tmp_path, "here", commit)
    (tmp_path / "pkg").rename(repo / "pkg")
    (unknown,) = check_source(pinned, repo, "here", "0" * 40)
    assert (elsewhere.exit_code, unknown.exit_code) == (6, 6)
    assert "--unshallow" in unknown.hint
