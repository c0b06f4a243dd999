"""RidgeFill: training-free late-layer cache fill for faster prefill.

maps = ridgefill.fit(model, tokenizer, texts, splits=[15])
with ridgefill.filling(model, maps[15], tail=512):
    model.generate(**inputs)

Importing the package imports none of its modules, so that a reviewer needs no torch; each name below is
imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WHERE = {
    "fit": "fitting",
    "Maps": "maps",
    "load": "sources",
    "prefill": "schedule",
    "filling": "context",
    "Identity": "plan",
    "NoFill": "plan",
    "Predictor": "plan",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'ridgefill' has no attribute {name!r}")
    return getattr(import_module(f"ridgefill.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
