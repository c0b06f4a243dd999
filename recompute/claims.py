"""Every claim of a ledger, in order, and what became of each of its predictions. Pure but for `seeds_of`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ledger.book import ClaimState
from ledger.errors import UsageProblem
from ledger.findings import Finding
from provenance.buildcheck import compare_builds
from provenance.evidence import collect
from recompute.decided import Decided, Verdict
from recompute.rules import Rule, rules
from recompute.spec import Spec
from recompute.valued import Valued
from recompute.verdicts import judge
from runs.history import History, Run
from runs.home import RECORDS, SAMPLES

Seeds = Mapping[str, frozenset[int]]  # run -> the seeds its samples were made with


def prediction_specs(history: History) -> dict[str, Spec]:
    """The values that decide, by `CLAIM/PREDICTION`; none for a rule without a complete run, or that cannot be decided.

    A rule that was replaced after a run was started about it has its value too, as `CLAIM/PREDICTION@ENTRY`.
    """
    specs = {}
    for _, found in rules(history):
        for rule in found:
            if rule.decider and not _cannot_be(rule):
                specs[rule.id] = rule.spec()
    return specs


def seeds_of(folder: Path, history: History) -> dict[str, frozenset[int]]:
    """The seeds of each run that decides something: its sample ids begin with them. Left out where they cannot be read.

    Whether the file is the sealed one is not asked here.
    """
    import pyarrow.parquet as pq  # a check of printed numbers alone pays for no Parquet

    found = {}
    for run in {spec.run for spec in prediction_specs(history).values()}:
        try:
            with pq.ParquetFile(folder / RECORDS / run / SAMPLES) as file:
                ids = file.read(columns=["sample_id"], use_threads=False)["sample_id"].unique().to_pylist()
            found[run] = frozenset(int(name.partition("/")[0]) for name in ids)
        except (OSError, ValueError):
            continue
    return found


def decide(history: History, valued: Mapping[str, Valued], seeds: Seeds) -> list[Decided]:
    """The verdict of every prediction that was ever registered, claims in order of registration.

    valued: the values of `prediction_specs`, at least. A prediction has one row for each rule that a run was started
    about, and one for its newest rule: an amendment hides no run.
    """
    return [
        decided
        for registration, found in rules(history)
        for decided in _of_claim(history, registration, found, valued, seeds)
    ]


def findings_of(decided: Iterable[Decided]) -> list[Finding]:
    """What is not as it should be: predictions of which nothing may be concluded, and those that deviate."""
    return [one.finding() for one in decided if one.verdict in (Verdict.INADMISSIBLE, Verdict.DEVIATED)]


def _of_claim(
    history: History, registration: str, found: Sequence[Rule], valued: Mapping[str, Valued], seeds: Seeds
) -> Iterator[Decided]:
    state = history.result.book.claims[registration]
    claim = history.claims.get(state.version)
    withdrawn = history.retracted.get(state.version)
    away = f"retracted in entry {withdrawn[0]}: {withdrawn[1]}" if withdrawn else ""
    if claim is None:
        verdict = Verdict.INADMISSIBLE if away else Verdict.UNRUN
        yield Decided(
            f"sealed {state.commitment[:16]}",
            "",
            verdict,
            "(withheld)",
            "(withheld)",
            away or _sealed(history, registration, state),
            state.seq,
            aside=bool(away),
        )
        return
    if not found:
        said = away or "exploratory, and predicts nothing"
        yield Decided(claim.claim, "", Verdict.INADMISSIBLE, claim.text, "", said, state.seq, aside=True)
    for rule in found:
        value = valued[rule.id] if rule.decider and not _cannot_be(rule) else None
        verdict, outcome, why = _verdict(history, rule, away, value, seeds)
        yield Decided(
            claim.claim,
            rule.key,
            verdict,
            rule.claim.text,
            rule.words(),
            "; ".join(filter(None, why)),
            rule.entry,
            outcome,
            value,
            aside=bool(away) or rule.claim.exploratory,
        )


def _sealed(history: History, registration: str, state: ClaimState) -> str:
    runs = ", ".join(run.id for run in history.runs if registration in run.start.claims)
    about = f", and run {runs} is about it" if runs else ""
    return f"sealed{about}; next: ridgefill ledger reveal {state.seq}"


def _verdict(
    history: History, rule: Rule, away: str, value: Valued | None, seeds: Seeds
) -> tuple[Verdict, Verdict | None, list[str]]:
    """The verdict, the outcome of a deviated one, and why, part by part."""
    about = [*_runs(history, rule), _amendments(history, rule)]
    if away or rule.claim.exploratory:
        would = f"its rule gives {judge(rule.prediction, value.estimate)[0].value}" if value and value.estimate else ""
        return Verdict.INADMISSIBLE, None, [away or "exploratory: can confirm no claim", would, *about]
    if wrong := _cannot_be(rule):
        return Verdict.INADMISSIBLE, None, [wrong, *about]
    if not rule.runs:
        return Verdict.UNRUN, None, ["no run of these arms and this task was started about it", *about]
    run = rule.decider
    if run is None or value is None:
        return Verdict.INADMISSIBLE, None, ["incomplete: no run about it is complete", *about]
    faults = [*_unsound(history, rule, run, value), *_other_samples(rule, value, seeds.get(run.id))]
    if faults or value.estimate is None:
        return Verdict.INADMISSIBLE, None, [*faults, *about]
    verdict, why = judge(rule.prediction, value.estimate)
    told = [why, *value.estimate.flags, *about, "" if run.id in seeds else "its seeds could not be read"]
    if rule.amended:
        return Verdict.DEVIATED, verdict, told
    return verdict, None, told


def _cannot_be(rule: Rule) -> str:
    """Why no run could ever decide a rule; "" when one can."""
    try:
        rule.spec()
    except UsageProblem as wrong:
        return wrong.line()
    return ""


def _runs(history: History, rule: Rule) -> Iterator[str]:
    """The runs about a rule, in words: the one that decides, those before it that did not finish, replications."""
    decider = rule.decider
    for run in rule.runs:
        if run is decider:
            yield f"run {run.id}, entries {history.seqs[run.leaf]} and {history.seqs[run.end]}"
        elif run.start.exploratory:
            yield f"run {run.id} is exploratory"
        elif run.status != "complete":
            yield f"run {run.id} is {run.status}" + ("" if run.finish else f"; next: ridgefill run resume {run.id}")
        else:
            yield f"run {run.id} replicates it"


def _amendments(history: History, rule: Rule) -> str:
    """What an amended rule has otherwise, and whether a run about it had been started before; or what became of it."""
    parts = []
    if rule.amended:
        before = [run for run in history.runs if _earlier(history, rule, run)]
        peeked = f"after run {', '.join(run.id for run in before)} was started" if before else "before any run about it"
        parts.append(
            f"amended in entry {rule.entry}, {peeked}: {', '.join(rule.changes())}"
            f" ({history.reasons[rule.versions[0]]})"
        )
    if rule.until is not None:
        parts.append(f"amended again in entry {rule.until}" if rule.amended else f"amended in entry {rule.until}")
    return "; ".join(parts)


def _earlier(history: History, rule: Rule, run: Run) -> bool:
    """Whether a run about an earlier version of the claim was started before a rule was entered."""
    versions = history.result.book.versions
    about = {versions.get(version) for version in run.start.claims}
    return history.seqs[run.leaf] < rule.entry and versions[rule.versions[0]] in about


def _unsound(history: History, rule: Rule, run: Run, value: Valued) -> Iterator[str]:
    """Why a run's samples prove nothing of a rule: the order of entries, its pins, its sealed file."""
    begun, named = history.seqs[run.leaf], [version for version in rule.versions if version in run.start.claims]
    registered = min(history.seqs.get(version, begun) for version in named)
    if registered >= begun:
        yield f"registered in entry {registered}, after run {run.id} was started in entry {begun}"
    assert run.finish is not None  # noqa: S101 - it is complete
    evidence = collect(
        [(begun, run.leaf, run.start), (history.seqs[run.end], run.end, run.finish)], history.result.book
    )
    findings = list(evidence.findings)
    for _, pinned, ran in evidence.builds:
        findings += compare_builds(pinned, ran, pinned.label)
    for finding in findings[:1]:
        more = f" and {len(findings) - 1} more" if len(findings) > 1 else ""
        yield f"pins changed during run {run.id}: {finding.where}: {finding.message}{more}"
    moved = run.finish.detail.get("findings")
    if isinstance(moved, list) and moved:
        yield f"pins changed during run {run.id}: {moved[0]}"
    for pin in run.pins:
        expected = rule.claim.files.get(pin.name) if pin.kind == "study" else None
        if expected and pin.digest != expected:
            yield f"run {run.id} used another {pin.name} than the registered {expected[:16]}: {pin.digest[:16]}"
    name = f"{RECORDS}/{run.id}/{SAMPLES}"
    sealed = run.finish.samples.sha256 if run.finish.samples else ""
    if value.refused:
        yield value.refused
    elif value.files.get(name, sealed) != sealed:
        yield f"{name} is not the sealed file {sealed[:16]}: {value.files[name][:16]}"


def _other_samples(rule: Rule, value: Valued, seeds: frozenset[int] | None) -> Iterator[str]:
    """How the samples are not the registered ones: fewer, or of other seeds."""
    asked = rule.prediction
    if value.estimate is not None and value.estimate.n < asked.n:
        yield f"incomplete: {value.estimate.n} items of the {asked.n} registered"
    if seeds is not None and asked.seeds and seeds != {*asked.seeds}:
        yield (
            f"run with seeds {', '.join(map(str, sorted(seeds)))}, "
            f"registered with {', '.join(map(str, sorted(asked.seeds)))}"
        )
