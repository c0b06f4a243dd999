"""Specs computed from the samples: one query each, one set of resamples for each design."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

import click
import duckdb

from ledger.errors import CannotCheck, Problem, UsageProblem
from recompute.design import Design
from recompute.digests import code_digest, spec_digest
from recompute.estimate import Estimate
from recompute.evaluate import Ask, estimates
from recompute.keep import Computed
from recompute.known import sources_of
from recompute.query import query
from recompute.selection import Selection, select
from recompute.sources import Source, Sources
from recompute.spec import Spec
from recompute.tables import Tables, load, one_line

MANY = 100  # values that take a second or two


@dataclass
class _Shared:
    """A design, and what is asked of it."""

    design: Design
    asks: dict[str, Ask] = field(default_factory=dict)


def computed(sources: Sources, specs: Mapping[str, Spec]) -> dict[str, Computed]:
    """What each spec comes to. Raises as `tables.load` does."""
    tables = load(sources)
    lost = next((source.refused for source in sources.files if source.refused and source.data), "")
    found: dict[str, Computed] = {}
    designs: dict[object, _Shared] = {}
    for name, spec in _watched(specs):
        found[name] = Computed()
        try:
            run = sources.run(spec.run).run if spec.run else ""
            files = sources_of(spec, tables.holding(run), _barred(sources, tables, run), sources.left_out, lost)
            found[name] = _from(spec, files)
            columns = tables.fetch(query(spec, run))
            found[name] = replace(found[name], rows=len(columns["task"]))
            selection = select(columns, spec)
            found[name] = replace(found[name], dropped=selection.dropped)
            shared = _shared(spec, selection, designs)
            shared.asks[name] = _ask(spec, selection, shared.design)
        except Problem as problem:
            unread = isinstance(problem, CannotCheck)
            found[name] = replace(found[name], refused=problem.line(), unread=unread)
        except duckdb.Error as error:
            found[name] = replace(found[name], refused=f"the query failed: {one_line(error)}")
    for shared in designs.values():
        for name, told in _evaluated(shared).items():
            refused = told.line() if isinstance(told, Problem) else ""
            found[name] = replace(found[name], estimate=None if isinstance(told, Problem) else told, refused=refused)
    return found


def _watched(specs: Mapping[str, Spec]) -> Iterator[tuple[str, Spec]]:
    """Their items; behind a bar with the time left when they are many and a person is watching."""
    if len(specs) < MANY or not sys.stderr.isatty():
        yield from specs.items()
        return
    with click.progressbar(specs.items(), length=len(specs), label="recomputing", file=sys.stderr) as shown:
        yield from shown


def _barred(sources: Sources, tables: Tables, run: str) -> Mapping[tuple[str, str], str]:
    """(arm, task) -> why none of its samples may be used."""
    if not run:
        return tables.barred
    source = sources.run(run)
    return {(arm, task): source.refused for arm in source.arms for task in source.tasks} if source.refused else {}


def _from(spec: Spec, files: list[Source]) -> Computed:
    """Where a value comes from, before anything is computed."""
    told = (spec_digest(spec), code_digest(), *sorted(source.digest for source in files))
    return Computed(
        runs=tuple(source.run for source in files if source.run),
        files={source.name: source.sha256 for source in files},
        key=sha256("|".join(told).encode()).hexdigest(),
    )


def _shared(spec: Spec, selection: Selection, designs: dict[object, _Shared]) -> _Shared:
    """The design of a selection, one object for all that select the same items."""
    same = (selection.items, selection.strata, spec.weights, spec.resamples)
    if same not in designs:
        design = Design.of(selection.items, selection.strata, weights=spec.weights, resamples=spec.resamples)
        designs[same] = _Shared(design)
    return designs[same]


def _ask(spec: Spec, selection: Selection, design: Design) -> Ask:
    if spec.n is not None and design.n != spec.n:
        raise UsageProblem("not as many items as declared", expected=f"n = {spec.n}", found=str(design.n))
    return Ask(spec.how, design.align(selection.items, selection.values), spec.ends, spec.lattice)


def _evaluated(shared: _Shared) -> dict[str, Estimate | Problem]:
    """The estimates of all asks, together; one by one when one of them has none, so that it says why."""
    try:
        return dict(zip(shared.asks, estimates(list(shared.asks.values()), shared.design), strict=True))
    except Problem as problem:
        if len(shared.asks) == 1:
            return dict.fromkeys(shared.asks, problem)
    alone = [_Shared(shared.design, {name: ask}) for name, ask in shared.asks.items()]
    return {name: told for one in alone for name, told in _evaluated(one).items()}
