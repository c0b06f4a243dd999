"""The registry of tasks, each imported when a study names it. A new task is one file and one line here."""

from __future__ import annotations

from importlib import import_module

from ledger.errors import UsageProblem
from runs.tasks.base import Task

# name -> module:class
REGISTRY: dict[str, str] = {
    "continuation": "runs.tasks.continuation:Continuation",
    "long_documents": "runs.tasks.long_documents:LongDocuments",
    "agreement": "runs.tasks.agreement:Agreement",
    "ttft": "runs.tasks.ttft:Ttft",
    "load": "runs.tasks.load:LoadTask",
    "equivalence": "runs.tasks.equivalence:EquivalenceTask",
    "two_turn": "runs.tasks.two_turn:TwoTurn",
    "niah_single_1": "runs.tasks.ruler.niah:NiahSingle1",
    "niah_single_2": "runs.tasks.ruler.niah:NiahSingle2",
    "niah_single_3": "runs.tasks.ruler.niah:NiahSingle3",
    "niah_multikey_1": "runs.tasks.ruler.niah:NiahMultikey1",
    "niah_multikey_2": "runs.tasks.ruler.niah:NiahMultikey2",
    "niah_multikey_3": "runs.tasks.ruler.niah:NiahMultikey3",
    "niah_multivalue": "runs.tasks.ruler.niah:NiahMultivalue",
    "niah_multiquery": "runs.tasks.ruler.niah:NiahMultiquery",
    "vt": "runs.tasks.ruler.variable_tracking:VariableTracking",
    "cwe": "runs.tasks.ruler.word_counts:CommonWords",
    "fwe": "runs.tasks.ruler.word_counts:FrequentWords",
    "qa_1": "runs.tasks.ruler.questions:SquadQuestions",
    "qa_2": "runs.tasks.ruler.questions:HotpotQuestions",
}


def task_class(name: str) -> type[Task]:
    """The class of the task called `name`. Raises UsageProblem for an unknown one."""
    if name not in REGISTRY:
        raise UsageProblem(f"no task is called {name!r}", expected=", ".join(REGISTRY))
    module, attribute = REGISTRY[name].split(":")
    found: type[Task] = getattr(import_module(module), attribute)
    return found
