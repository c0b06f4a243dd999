"""git: an annotated tag whose message is the checkpoint. Worth what the repository it was pushed to is worth."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ledger.anchors.base import AnchorError, field
from ledger.note import Checkpoint, Note, NoteError


class GitAnchor:
    """Evidence: `tag`, `object` (the tag object's id) and `note`, its message."""

    name = "git"

    def check(self, checkpoint: Checkpoint, evidence: Mapping[str, str], tsa_roots: bytes) -> str:
        """Only that the message is this checkpoint: whether others hold the tag is theirs to say."""
        try:
            head = Checkpoint.from_note(Note.from_text(field(evidence, "note")))
        except NoteError as wrong:
            raise AnchorError(f"the tag's message: {wrong}") from None
        if head != checkpoint:
            raise AnchorError("the tag's message is another checkpoint")
        if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", field(evidence, "object")):
            raise AnchorError("the tag object's id is not a git hash")
        tag = field(evidence, "tag")
        return f"git tag {tag} ({evidence['object'][:12]}); compare it in a clone the author cannot rewrite"


def make_tag(folder: Path, note: str, size: int) -> dict[str, str]:
    """Create the tag `ridgefill/<size>` in the repository around `folder`; its evidence. Raises AnchorError."""
    tag = f"ridgefill/{size}"
    # --cleanup=verbatim: the message must stay the checkpoint byte for byte.
    _git(folder, "tag", "--annotate", "--cleanup=verbatim", "--file=-", tag, text=note)
    return {"tag": tag, "object": _git(folder, "rev-parse", tag).strip(), "note": note}


def _git(folder: Path, *arguments: str, text: str = "") -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            input=text.encode(),
            capture_output=True,
            check=False,
            env=clean,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AnchorError(f"git did not answer: {error}") from None
    if done.returncode:
        raise AnchorError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace")
