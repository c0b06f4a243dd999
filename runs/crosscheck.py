"""What one table of a study says of another: names that lead nowhere, engines that cannot do what is asked. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from ledger.errors import EnvironmentProblem, UsageProblem
from ledger.toml_lines import Path
from runs import engines
from runs.engines.base import COMPARE
from runs.study import Study

Fault = tuple[Path, str]


def cross_check(study: Study, places: Mapping[str, Path]) -> list[Fault]:
    """(path of the key, what is wrong) of every fault; `places` has the table of each arm.

    Later checks are left out where earlier ones fail, so that one mistake is told once.
    """
    for check in (_names, _servers, _arms, _tasks):
        if faults := list(check(study, places)):
            return faults
    return []


def _names(study: Study, places: Mapping[str, Path]) -> Iterator[Fault]:
    for name, arm in study.arms.items():
        yield from _known(study.models, [arm.model], (*places[name], "model"), "model")
        yield from _known(study.maps, [arm.maps] if arm.maps else [], (*places[name], "maps"), "map folder")
        yield from _known(study.servers, [arm.server] if arm.server else [], (*places[name], "server"), "server")
    for name, server in study.servers.items():
        yield from _known(study.maps, server.maps, ("servers", name, "command"), "map folder")
    for name, build in study.builds.items():
        yield from _known(study.servers, [build.server] if build.server else [], ("builds", name, "server"), "server")
    for name, task in study.tasks.items():
        path = ("tasks", name)
        yield from _known(study.arms, task.arms, (*path, "arms"), "arm")
        yield from _known(study.datasets, task.datasets, (*path, "dataset"), "data set")
        yield from _known(study.arms, [task.baseline] if task.baseline else [], (*path, "baseline"), "arm")


def _servers(study: Study, places: Mapping[str, Path]) -> Iterator[Fault]:
    for name, arm in study.arms.items():
        if arm.server and arm.engine != "openai_http":
            yield (*places[name], "server"), f"the engine {arm.engine} asks no server; openai_http does"
        elif arm.server and (problem := study.servers[arm.server].refusal(arm)):
            yield (*places[name], "server"), f"arm {name}: the server {arm.server} cannot answer for it: {problem}"
    told = {build.server for build in study.builds.values() if build.reports or build.digest}
    for name, server in study.servers.items():
        if server.url and name not in told:
            yield ("servers", name, "url"), "nothing says which server must run there: add [builds.NAME] with reports"


def _arms(study: Study, places: Mapping[str, Path]) -> Iterator[Fault]:
    for name, arm in study.arms.items():
        try:
            problem = engines.engine(arm.engine).check(arm)
        except EnvironmentProblem:
            continue  # a study can be read where it cannot be run
        except UsageProblem as unknown:
            problem = unknown.line()
        if problem:
            yield (*places[name], "engine"), f"arm {name}: {problem}"


def _tasks(study: Study, places: Mapping[str, Path]) -> Iterator[Fault]:
    for name, task in study.tasks.items():
        arms = [study.arms[arm] for arm in study.arms_of(name)]
        needs = task.needs | ({COMPARE} if task.baseline else frozenset())
        for kind in sorted({arm.engine for arm in arms}):
            try:
                lacks = sorted(needs - engines.engine(kind).capabilities)
            except EnvironmentProblem:
                continue
            if lacks:
                yield ("tasks", name), f"the engine {kind} cannot {', '.join(lacks)}"
        if missing := apart(study, name, study.arms_of(name)):
            yield (
                ("tasks", name, "baseline"),
                f"{task.baseline} has another engine, model, dtype or flags than {', '.join(missing)}: "
                "make it one of the task's arms, so that it is opened too",
            )


def apart(study: Study, task: str, arms: Collection[str]) -> list[str]:
    """Those of a task's arms whose baseline no engine is open for, where only these arms are asked."""
    baseline = study.tasks[task].baseline
    if not baseline or baseline in arms:
        return []
    return [arm for arm in arms if study.arms[arm].session != study.arms[baseline].session]


def _known(names: Mapping[str, Any], asked: Iterable[str], path: Path, what: str) -> Iterator[Fault]:
    for name in asked:
        if name not in names:
            yield path, f"no {what} is called {name!r}" + nearest(name, set(names))


def nearest(name: str, known: set[str]) -> str:
    """The known name that was meant, or all of them."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    return f", did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(known)) or 'none'}"


def problems(error: ValidationError, known: set[str]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """(path, what is wrong) of a table that a model refused, each of its keys once; it may have those of `known`."""
    told = set()
    for fault in error.errors(include_url=False, include_context=False, include_input=False):
        key = fault["loc"][:1]
        if key in told:
            continue
        told.add(key)
        if fault["type"] == "extra_forbidden":
            yield fault["loc"], unknown(str(key[0]), known)
        elif fault["type"] == "missing":
            yield fault["loc"], "is missing"
        else:
            yield fault["loc"], fault["msg"].removeprefix("Value error, ")


def unknown(key: str, known: set[str]) -> str:
    """That no key is called so, and which was meant."""
    return "unknown key" + nearest(key, known)
