"""cosign: a co-author's dated counter-signature (C2SP tlog-cosignature) under the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from ledger.anchors.base import AnchorError, field
from ledger.note import COSIGNATURE, Checkpoint, Note, NoteError, VerifierKey


class CosignAnchor:
    """Evidence: `note`, the checkpoint with the counter-signature, and `vkey`, the co-author's key."""

    name = "cosign"

    def check(self, checkpoint: Checkpoint, evidence: Mapping[str, str], tsa_roots: bytes) -> str:
        """That this key signed this checkpoint; whose key it is, the reader must know from elsewhere."""
        try:
            note = Note.from_text(field(evidence, "note"))
            head = Checkpoint.from_note(note)
            key = VerifierKey.from_text(field(evidence, "vkey"))
            signed = [signature for _, signature in note.signers([key])]
        except NoteError as wrong:
            raise AnchorError(str(wrong)) from None
        if head != checkpoint:
            raise AnchorError("the note is another checkpoint")
        if key.type != COSIGNATURE or not signed:
            raise AnchorError(f"{key.name} did not counter-sign it")
        when = datetime.fromtimestamp(min(signed[0].time or 0, 253_402_300_799), UTC)
        return f"counter-signed by {key.name} ({key.id.hex()}), who dates it {when:%Y-%m-%dT%H:%M:%SZ}"
