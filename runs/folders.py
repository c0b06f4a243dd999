"""Folders of this machine, kept out of what is sealed: a record is published, and nothing sealed can be taken back."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[1]


def unnamed(text: str, study: Path) -> str:
    """`text` with folders named by role: the study's `.`, else `~program`, `~venv`, `~tmp`, the user's own `~`."""
    roles = {
        Path(os.path.expanduser("~")): "~",  # noqa: PTH111 - a user without a home is no reason to fail
        Path(tempfile.gettempdir()): "~tmp",
        Path(sys.prefix): "~venv",
        PROGRAM: "~program",
        study.absolute(): ".",
        study.resolve(): ".",
    }
    for folder in sorted(roles, key=lambda each: len(each.parts), reverse=True):
        if len(folder.parts) > 1:  # "/" is nobody's
            text = re.sub(rf"(?<![\w.~-]){re.escape(str(folder))}(?![\w.~-])", roles[folder], text)
    return text
