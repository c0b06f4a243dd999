"""The registry of anchors. A new one is one file beside this one and one line here."""

from __future__ import annotations

from ledger.anchors.base import AnchorError, AnchorPlugin
from ledger.anchors.cosign import CosignAnchor
from ledger.anchors.git import GitAnchor
from ledger.anchors.rfc3161 import Rfc3161Anchor

__all__ = ["REGISTRY", "AnchorError", "AnchorPlugin"]

REGISTRY: dict[str, AnchorPlugin] = {plugin.name: plugin for plugin in (GitAnchor(), CosignAnchor(), Rfc3161Anchor())}
