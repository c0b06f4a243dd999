"""The registry of engines, each imported when a study names it. A new engine is one file and one line here."""

from __future__ import annotations

from importlib import import_module

from ledger.errors import EnvironmentProblem, UsageProblem
from runs.engines.base import Engine

# name -> (module:attribute, what installs it)
REGISTRY: dict[str, tuple[str, str]] = {
    "reference": ("runs.engines.reference:ENGINE", "pip install 'ridgefill[fill]'"),
    "llamacpp": ("runs.engines.llamacpp:ENGINE", "pip install 'ridgefill[llamacpp]'"),
    "openai_http": ("runs.engines.openai_http:ENGINE", ""),
    "toy": ("runs.engines.toy:ENGINE", ""),
}


def engine(name: str) -> Engine:
    """The engine called `name`. Raises UsageProblem for an unknown one, EnvironmentProblem with the install line."""
    if name not in REGISTRY:
        raise UsageProblem(f"no engine is called {name!r}", expected=", ".join(REGISTRY))
    where, install = REGISTRY[name]
    module, attribute = where.split(":")
    try:
        found: Engine = getattr(import_module(module), attribute)
    except ImportError as missing:
        raise EnvironmentProblem(f"the engine {name} cannot be imported: {missing}", hint=install) from None
    return found
