"""What is sealed names no folder of this machine."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from runs.folders import PROGRAM, unnamed


def test_what_is_sealed_names_folders_by_their_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study within the user's own folder, which is within another that only looks like it."""
    monkeypatch.setenv("HOME", "/home/one")
    monkeypatch.setattr(sys, "prefix", "/home/one/venv")
    monkeypatch.setattr(tempfile, "tempdir", "/big/tmp")
    study = Path("/home/one/study")
    for said, sealed in {
        "no file /home/one/study/texts/a.txt: expected": "no file ./texts/a.txt: expected",
        'File "/home/one/venv/lib/x.py", line 3': 'File "~venv/lib/x.py", line 3',
        "path:/home/one/other and file:///home/one": "path:~/other and file://~",
        "/big/tmp/x and /big/tmpfs": "~tmp/x and /big/tmpfs",
        "/mnt/home/one/x, /home/one-b, /home/one.d/study": "/mnt/home/one/x, /home/one-b, /home/one.d/study",
        f"{PROGRAM}/runs/worker.py": "~program/runs/worker.py",
    }.items():
        assert unnamed(said, study) == sealed
        assert unnamed(sealed, study) == sealed
