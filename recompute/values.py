"""Specs in, values out: from what is kept, or else from the samples."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from ledger.errors import Problem
from recompute.digests import code_digest, spec_digest
from recompute.keep import Computed, cache_file, read_cache, write_cache
from recompute.query import query
from recompute.sources import Sources
from recompute.spec import Spec
from recompute.valued import Valued


def recomputed(sources: Sources, specs: Mapping[str, Spec], *, cache: bool = True) -> dict[str, Valued]:
    """The value of every spec, in their order. A spec that has none is refused in its Valued, in one line.

    What was computed before is taken when data, code and spec are the same; no database is opened when all of it is.
    Raises UsageProblem for a data file from outside that cannot be read, Differs when a file changes meanwhile.
    """
    file, digest = cache_file(sources.folder), sha256(f"{code_digest()}|{sources.digest}".encode()).hexdigest()
    kept = read_cache(file, digest) if cache else {}
    addresses = {name: spec_digest(spec) for name, spec in specs.items()}
    wanted = {addresses[name]: spec for name, spec in specs.items() if addresses[name] not in kept}
    if wanted:
        # Only now: a check of kept values pays for no database and no scipy.
        from recompute.computed import computed

        kept |= computed(sources, wanted)
        if cache:
            write_cache(file, digest, kept)
    return {name: _valued(name, spec, kept[addresses[name]], sources) for name, spec in specs.items()}


def _valued(name: str, spec: Spec, kept: Computed, sources: Sources) -> Valued:
    return Valued(
        id=name,
        spec=spec,
        estimate=kept.estimate and kept.estimate.scaled(spec.scale),
        refused=kept.refused,
        unread=kept.unread,
        query=_query(spec, sources),
        rows=kept.rows,
        dropped=kept.dropped,
        runs=kept.runs,
        files=kept.files,
        key=kept.key,
    )


def _query(spec: Spec, sources: Sources) -> str:
    try:
        return query(spec, sources.run(spec.run).run if spec.run else "")
    except Problem:  # it is refused for the same reason
        return ""
