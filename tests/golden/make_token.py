"""Writes tests/golden/token.tsr and tsa-root.pem: a token over the golden ledger's first checkpoint.

Needed only when the golden ledger's first entries change; the authority's keys are thrown away.
Run from the root: python tests/golden/make_token.py, then make_ledger.py.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from authority import Authority
from make_ledger import HERE, until_checkpoint

from ledger.anchors.rfc3161 import make_request

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder) / "tsa")
        (HERE / "token.tsr").write_bytes(authority.stamp(make_request(until_checkpoint().tree_head())))
        (HERE / "tsa-root.pem").write_bytes(authority.roots)
