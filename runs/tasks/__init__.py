"""The registry of tasks, each imported when a study names it. A new task is one file and one line here."""

from __future__ import annotations

from importlib import import_module

from ledger.errors import UsageProblem
from runs.tasks.base import Task

# name -> module:class
REGISTRY: dict[str, str] = {
    "continuation": "runs.tasks.continuation:Continuation",
}


def task_class(name: str) -> type[Task]:
    """The class of the task called `name`. Raises UsageProblem for an unknown one."""
    if name not in REGISTRY:
        raise UsageProblem(f"no task is called {name!r}", expected=", ".join(REGISTRY))
    module, attribute = REGISTRY[name].split(":")
    found: type[Task] = getattr(import_module(module), attribute)
    return found
