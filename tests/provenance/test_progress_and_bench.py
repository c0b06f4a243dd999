"""Long work shows a bar to a person and nothing to a file; the benchmark cleans up after itself."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from provenance.bench import command

HASH = """
import os, sys
from provenance.hashing import bar, hash_files
path = os.fsencode(sys.argv[1])
size = os.path.getsize(path)
with bar(size) as advance:
    hashed = hash_files([(path, size)], advance=advance)[path]
print(hashed.sha256)
"""


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A sparse file just long enough for a bar."""
    file = tmp_path / "large"
    file.touch()
    os.truncate(file, 256 << 20)
    return file


def test_no_bar_off_a_terminal(large: Path) -> None:
    done = subprocess.run([sys.executable, "-c", HASH, large], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert len(done.stdout) == 65


def test_a_bar_on_a_terminal_goes_to_stderr_only(large: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", HASH, large], stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 4096):
            shown += block
    except OSError:
        pass  # the other end was closed: Linux says EIO
    finally:
        os.close(ours)
    out, _ = process.communicate(timeout=60)
    assert len(out) == 65
    assert b"hashing" in shown
    assert b"100%" in shown


def test_a_benchmark_that_is_told_to_stop_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    code = "from ledger.console import guard; from provenance.bench import command; guard(command)"
    process = subprocess.Popen([sys.executable, "-c", code, "--bytes", "3000000"], stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert process.stderr.readline() == b"making files\n"
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="nothing to compare with")
def test_the_benchmark_prints_ratios_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("provenance.bench._SMALL_FILES", 200)
    done = CliRunner().invoke(command, ["--bytes", "3000000", "--rounds", "1", "--json"], catch_exceptions=False)
    answer = json.loads(done.stdout)
    assert all(answer[name] > 0 for name in ("one_file", "two_files", "two_files_sha256sum", "small_files"))
    assert list(tmp_path.iterdir()) == []
