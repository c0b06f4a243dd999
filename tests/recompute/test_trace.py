"""From a number to the bytes it came from: every edge of a real study's trace, and each fault on its own edge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger.note import Note
from provenance.manifest import tree_digest
from recompute import trace as tracing
from recompute.claims import prediction_specs
from recompute.lineage import Edge, Link
from recompute.sources import Sources
from recompute.trace import Tracer, lineage, to_lines
from recompute.valued import Valued
from recompute.values import recomputed
from runs.history import History, Run, read_history

SHAPE = [
    (0, "number"),
    (1, "analysis"),
    (2, "query"),
    (3, "samples"),
    (4, "run"),
    (5, "start"),
    (6, "claim"),
    *[(6, "pin")] * 6,
    (5, "finish"),
    (6, "pin"),
    (6, "checkpoint"),
]


def _valued(folder: Path, history: History) -> Valued:
    return recomputed(Sources.of(folder, history, ()), prediction_specs(history), cache=False)["C1/p1"]


@pytest.fixture
def study(finished: Path) -> tuple[Path, History, Valued]:
    """A finished study, its history and the value of its one prediction."""
    history = read_history(finished)
    return finished, history, _valued(finished, history)


def _edges(link: Link) -> dict[str, Edge]:
    return {f"{one.what} {one.name}": one.edge for _, one in link.walk()}


def _not_ok(link: Link) -> dict[str, Edge]:
    return {name: edge for name, edge in _edges(link).items() if edge is not Edge.OK}


def _told(link: Link, name: str) -> str:
    (told,) = {one.told for _, one in link.walk() if f"{one.what} {one.name}" == name}
    return told


def test_a_value_leads_to_the_signed_head_and_every_step_is_checked(study: tuple[Path, History, Valued]) -> None:
    folder, history, valued = study
    (run,) = history.runs
    link = lineage(valued, history, folder)
    assert [(depth, one.what) for depth, one in link.walk()] == SHAPE
    assert _not_ok(link) == {}
    assert run.finish is not None
    assert run.finish.samples is not None
    assert run.finish.samples.sha256[:16] in _told(link, f"samples records/{run.id}/samples.parquet")
    assert run.leaf[:16] in _told(link, "start entry 2")
    assert "embeds the start entry's hash" in _told(link, "finish entry 3")
    assert _told(link, "claim C1").startswith("entry 1, before the start: The identity fill")
    assert _told(link, "checkpoint checkpoints/head.note").startswith("covers 4 entries and rests on key")
    assert "5 items in 1 strata, 10000 resamples" in _told(link, "analysis paired-difference")


def test_lines_are_a_tree_of_one_physical_line_each(study: tuple[Path, History, Valued]) -> None:
    folder, history, valued = study
    lines = to_lines(lineage(replace(valued, id="a\nb\x1b[0m"), history, folder))
    assert len(lines) == len(SHAPE)
    assert all(line.isprintable() for line in lines)
    assert lines[0].startswith("number a\\nb\\x1b[0m [ok] ")
    assert lines[1].startswith("`-- analysis paired-difference [ok] of loss")
    assert lines[5].startswith(f"{' ' * 16}|-- start entry 2 [ok] ")
    assert lines[6].startswith(f"{' ' * 16}|   |-- claim C1 [ok] ")
    assert lines[-1].startswith(f"{' ' * 20}`-- checkpoint checkpoints/head.note [ok] ")


def test_pins_that_were_not_hashed_are_not_ok(study: tuple[Path, History, Valued]) -> None:
    folder, history, valued = study
    link = Tracer(history, folder, check_pins=False).lineage(valued)
    start = next(one for _, one in link.walk() if one.what == "start")
    pins = {one.edge for one in start.links if one.what == "pin"}
    assert pins == {Edge.UNCHECKED}
    assert len(_not_ok(link)) == 6 - 1  # a build has the same name at the end, where it is held against the start's
    assert "next: ridgefill trace ID" in _told(link, "pin model m")


# --- one fault, one edge


def _spoil_samples(folder: Path, run: Run) -> None:
    path = folder / "records" / run.id / "samples.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def _drop_samples(folder: Path, run: Run) -> None:
    (folder / "records" / run.id / "samples.parquet").unlink()


def _other_head(folder: Path, run: Run) -> None:
    path = folder / "checkpoints" / "head.note"
    note = Note.from_text(path.read_bytes())
    origin, size, _ = note.text.splitlines()
    path.write_text(Note(f"{origin}\n{size}\n{'A' * 43}=\n", note.signatures).to_text())


FAULTS: dict[str, tuple[Callable[[Path, Run], Any], str, Edge, str]] = {
    "samples edited": (_spoil_samples, "samples records/{run}/samples.parquet", Edge.FAIL, "the file on the disk is"),
    "samples gone": (_drop_samples, "samples records/{run}/samples.parquet", Edge.UNCHECKED, "cannot be read here"),
    "model edited": (lambda f, _: (f / "model.bin").write_bytes(b"toy WEIGHTS"), "pin model m", Edge.FAIL, "differs"),
    "model gone": (lambda f, _: (f / "model.bin").unlink(), "pin model m", Edge.UNCHECKED, "not on this machine"),
    "text edited": (lambda f, _: (f / "texts/d001.txt").write_text("?"), "pin dataset texts", Edge.FAIL, "d001.txt"),
    "study edited": (lambda f, _: (f / "study.toml").write_text("?"), "pin study study.toml", Edge.FAIL, "differs"),
    "claims grown": (
        lambda f, _: (f / "claims.toml").write_text("?"),
        "pin study claims.toml",
        Edge.UNCHECKED,
        "the ledger holds both",
    ),
    "head rewritten": (_other_head, "checkpoint checkpoints/head.note", Edge.FAIL, "saw other entries"),
    "head gone": (
        lambda f, _: (f / "checkpoints/head.note").unlink(),
        "checkpoint none",
        Edge.UNCHECKED,
        "no signed head covers entry 3",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_after_the_ledger_was_read_is_found_on_its_own_edge(
    study: tuple[Path, History, Valued], case: str
) -> None:
    folder, history, valued = study
    spoil, name, edge, told = FAULTS[case]
    (run,) = history.runs
    spoil(folder, run)
    link = lineage(valued, history, folder)
    name = name.format(run=run.id)
    assert _not_ok(link) == {name: edge}
    assert told in _told(link, name)


def test_a_value_computed_from_other_bytes_than_the_sealed_ones_fails(study: tuple[Path, History, Valued]) -> None:
    folder, history, valued = study
    (name,) = valued.files
    link = lineage(replace(valued, files={name: "0" * 64}), history, folder)
    assert _not_ok(link) == {f"samples {name}": Edge.FAIL}
    assert "the file that was read is 0000000000000000" in _told(link, f"samples {name}")


def _start(run: Run, /, **changes: Any) -> Run:
    return replace(run, start=run.start.model_copy(update=changes))


def _finish(run: Run, /, **changes: Any) -> Run:
    assert run.finish is not None
    return replace(run, finish=run.finish.model_copy(update=changes))


CONTRADICTIONS: dict[str, tuple[Callable[[Run], Run], str]] = {
    "finish of another start": (lambda run: _finish(run, start="0" * 64), "finish entry 3"),
    "failed": (lambda run: _finish(run, status="failed"), "run {run}"),
    "open": (lambda run: replace(run, finish=None), "finish none"),
    "claim unknown": (lambda run: _start(run, claims=["0" * 64]), "claim 0000000000000000"),
    "other build at the end": (lambda run: _start(run, pins=_renamed(run)), "pin build {build}"),
}


def _renamed(run: Run) -> list[dict[str, Any]]:
    """Another digest of the build pin, as it would stand in the start entry."""
    from provenance.pins import build_pin

    return [
        build_pin(pin.name, pin.files or {}, {**(pin.detail or {}), "engine": "other"}).as_entry()
        if pin.kind == "build"
        else pin.as_entry()
        for pin in run.pins
    ]


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_entries_that_contradict_each_other_fail(study: tuple[Path, History, Valued], case: str) -> None:
    """No ledger that verifies has them; the trace does not rely on that."""
    folder, history, valued = study
    change, name = CONTRADICTIONS[case]
    run = history.runs[0] = change(history.runs[0])
    build = next(pin.name for pin in run.pins if pin.kind == "build")
    edges = [
        one.edge
        for _, one in lineage(valued, history, folder).walk()
        if f"{one.what} {one.name}" == name.format(run=run.id, build=build)
    ]
    assert Edge.FAIL in edges


def test_a_claim_entered_after_the_start_fails(study: tuple[Path, History, Valued]) -> None:
    folder, history, valued = study
    history.seqs[history.runs[0].start.claims[0]] = 3
    link = lineage(valued, history, folder)
    assert _not_ok(link) == {"claim C1": Edge.FAIL}
    assert "entry 3, AFTER the start" in _told(link, "claim C1")


# --- what no entry vouches for


def test_outside_files_and_missing_ledgers_cannot_be_checked(study: tuple[Path, History, Valued]) -> None:
    folder, history, valued = study
    outside = replace(valued, files={"table.csv": "1" * 64})
    assert _not_ok(lineage(outside, history, folder)) == {"samples table.csv": Edge.UNCHECKED}
    assert "no ledger entry vouches for this file" in _told(lineage(outside, history, folder), "samples table.csv")
    assert "there is no ledger" in _told(lineage(outside, None, folder), "samples table.csv")


def test_a_refused_value_fails_and_says_why(study: tuple[Path, History, Valued]) -> None:
    folder, history, valued = study
    link = lineage(Valued("x", valued.spec, refused="no such metric"), history, folder)
    assert _edges(link) == {"number x": Edge.FAIL, "analysis paired-difference": Edge.FAIL, "query loss": Edge.FAIL}
    assert link.told == "refused: no such metric"


def test_what_another_machine_has_could_not_be_checked_here(study: tuple[Path, History, Valued]) -> None:
    folder, history, valued = study
    run = history.runs[0]
    elsewhere = [{**pin.as_entry(), "source": "pypi:not-installed==1#m"} for pin in run.pins if pin.kind == "model"]
    history.runs[0] = _start(run, pins=elsewhere)
    link = lineage(valued, history, folder)
    assert _not_ok(link) == {"pin model m": Edge.UNCHECKED}
    assert "the package not-installed is not here" in _told(link, "pin model m")


def test_a_source_that_moved_on_is_looked_for_in_the_commit_that_ran(study: tuple[Path, History, Valued]) -> None:
    folder, history, valued = study
    run = history.runs[0]
    other = {"code.py": "0" * 64}
    change = {"digest": tree_digest(other), "files": other}
    moved = [pin.as_entry() | (change if pin.kind == "source" else {}) for pin in run.pins]
    detail = {**run.start.detail, "source": {"commit": "0" * 40}}
    history.runs[0] = _start(run, pins=moved, detail=detail)
    link = lineage(valued, history, folder)
    sources = {f"pin {pin.label}" for pin in run.pins if pin.kind == "source"}
    assert sources
    assert _not_ok(link) == dict.fromkeys(sources, Edge.UNCHECKED)
    assert all("the commit that ran is not here" in _told(link, source) for source in sources)


# --- registered anew, retracted, shared work


def test_an_amended_study_file_is_not_mistaken_for_an_edited_one(finished: Path, run_command: Any) -> None:
    study = finished / "study.toml"
    study.write_text(study.read_text() + "\n# longer\n")
    assert run_command(finished, "ledger", "amend", "claims.toml", "--reason", "a remark").returncode == 0
    assert run_command(finished, "ledger", "checkpoint").returncode == 0
    assert run_command(finished, "run", "start").returncode == 0
    history = read_history(finished)
    values = recomputed(Sources.of(finished, history, ()), prediction_specs(history))
    link = lineage(values["C1/p1@1"], history, finished)
    assert _not_ok(link) == {"pin study study.toml": Edge.UNCHECKED}
    assert "has another registered version by now" in _told(link, "pin study study.toml")
    assert "before the start, amended since: " in _told(link, "claim C1")
    assert _told(link, "checkpoint checkpoints/5.note").startswith("covers 5 entries")
    again = lineage(values["C1/p1"], history, finished)
    assert _not_ok(again) == {}
    assert _told(again, "checkpoint checkpoints/head.note").startswith("covers 8 entries")


def test_many_values_of_two_runs_hash_each_file_once(
    study: tuple[Path, History, Valued], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, history, valued = study
    hashed: list[bytes] = []
    checked: list[str] = []
    hash_file, check, check_source = tracing.hash_file, tracing.check, tracing.check_source
    monkeypatch.setattr(tracing, "hash_file", lambda path: hashed.append(path) or hash_file(path))
    monkeypatch.setattr(tracing, "check", lambda pin, base: checked.append(pin.name) or check(pin, base))
    monkeypatch.setattr(tracing, "check_source", lambda pin, *at: checked.append(pin.name) or check_source(pin, *at))
    second = _start(history.runs[0], run="0" * 16)  # with the same pins
    history.runs.append(second)
    tracer = Tracer(history, folder, check_pins=True)
    assert "pin model m" in _edges(tracer.lineage(replace(valued, files={f"records/{second.id}/samples.parquet": ""})))
    hashed.clear()
    links = [tracer.lineage(replace(valued, id=str(number))) for number in range(1400)]
    assert len(hashed) == 1
    assert sorted(checked) == ["claims.toml", "m", "runs", "study.toml", "texts"]
    assert len({id(link.links[0].links[0].links[0]) for link in links}) == 1
    assert {link.name for link in links} == {str(number) for number in range(1400)}
