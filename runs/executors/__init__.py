"""The registry of executors. A new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable

from ledger.errors import UsageProblem
from runs.executors.base import Executor
from runs.home import Home

# kind -> how it is made, from the number of workers, a cluster's address and the run's folder
Make = Callable[[int, str, Home], Executor]


def _inline(workers: int, address: str, home: Home) -> Executor:
    from runs.executors.inline import Inline

    if workers > 1:
        raise UsageProblem("the inline executor has one worker", hint="--executor processes")
    return Inline(home)


def _processes(workers: int, address: str, home: Home) -> Executor:
    from runs.executors.pool import Pool
    from runs.executors.processes import ProcessLane

    return Pool(lambda: ProcessLane(home), workers)


def _ray(workers: int, address: str, home: Home) -> Executor:
    from runs.executors.pool import Pool
    from runs.executors.ray import RayLane, connect

    ray = connect(address)
    return Pool(lambda: RayLane(ray, home), workers)


REGISTRY: dict[str, Make] = {"inline": _inline, "processes": _processes, "ray": _ray}


def executor(name: str, workers: int, home: Home) -> Executor:
    """The executor called `name`, or Ray at a cluster's address such as ray://HOST:10001. Raises UsageProblem.

    What workers print to stderr is appended to its log.
    """
    kind, address = ("ray", name) if ":" in name else (name, "")
    if kind not in REGISTRY:
        raise UsageProblem(f"no executor is called {name!r}", expected=f"{', '.join(REGISTRY)}, or a Ray address")
    return REGISTRY[kind](workers, address, home)
