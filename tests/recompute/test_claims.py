"""Verdicts: a truth table against a naive oracle, ledgers written entry by entry, and a study run by the commands."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.events.amend import Amend
from ledger.events.base import Body
from ledger.events.claim import Claim, Prediction, SealedClaim
from ledger.events.finish import Finish, Samples
from ledger.events.genesis import Genesis
from ledger.events.retract import Retract
from ledger.events.reveal import Reveal, commitment
from ledger.events.start import Start, run_id
from ledger.findings import exit_code
from ledger.keys import create_key
from ledger.session import Session
from ledger.store import Store
from provenance.pins import build_pin
from recompute.claims import decide, findings_of, prediction_specs, seeds_of
from recompute.decided import Decided, Verdict
from recompute.estimate import Estimate
from recompute.sources import Sources
from recompute.valued import Valued
from recompute.values import recomputed
from recompute.verdicts import judge
from runs.history import History, read_history

SHA = "5" * 64
OPEN = 10  # an interval without an upper end goes at least so far


def _prediction(**fields: Any) -> Prediction:
    plain = {"id": "p1", "metric": "loss", "statistic": "paired-difference", "comparator": "<", "threshold": "0.5"}
    plain |= {"arm": "map", "baseline": "exact", "n": 5, "seeds": [0], "exclusions": "none", "stop_rule": "all"}
    return Prediction.model_validate(plain | fields)


def _claim(*predictions: Prediction, **fields: Any) -> Claim:
    plain = {"claim": "C1", "text": "It helps.", "exploratory": False, "files": {}, "predictions": predictions}
    return Claim.model_validate(plain | {"predictions": list(predictions or (_prediction(),))} | fields)


# --- the rule itself


def _satisfies(comparator: str, number: Fraction, threshold: Fraction) -> bool:
    sign = (number > threshold) - (number < threshold)
    return sign in {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1), "==": (0,)}[comparator]


def _naive(comparator: str, threshold: Fraction, value: Fraction, low: Fraction, high: Fraction | None) -> Verdict:
    """Every quarter of the interval is asked; an open one goes on beyond every threshold that is drawn."""
    last = Fraction(2 * OPEN) if high is None else high
    points = [low + Fraction(step, 4) for step in range(int((last - low) * 4) + 1)]
    held = {_satisfies(comparator, point, threshold) for point in points}
    if high is None and comparator in (">", ">=") and not _satisfies(comparator, value, threshold):
        return Verdict.REFUTED
    return {(True,): Verdict.CONFIRMED, (False,): Verdict.REFUTED}.get(tuple(held), Verdict.INCONCLUSIVE)


_halves = st.integers(-2 * OPEN, 2 * OPEN).map(lambda half: Fraction(half, 2))


@given(
    comparator=st.sampled_from(["<", "<=", ">", ">=", "=="]),
    threshold=_halves,
    numbers=st.lists(_halves, min_size=3, max_size=3).map(sorted),
    one_sided=st.booleans(),
    on_value=st.booleans(),
)
def test_a_rule_is_read_as_the_naive_reading_of_every_point(
    comparator: str, threshold: Fraction, numbers: list[Fraction], one_sided: bool, on_value: bool
) -> None:
    low, value, high = numbers
    prediction = _prediction(
        comparator=comparator,
        threshold=f"{float(threshold):g}",
        decides_on="value" if on_value else "interval",
    )
    ends = (low, None if one_sided else high)
    verdict, why = judge(prediction, Estimate(value, 5, 1, ends))
    if on_value:
        expected = Verdict.CONFIRMED if _satisfies(comparator, value, threshold) else Verdict.REFUTED
    else:
        expected = _naive(comparator, threshold, value, *ends)
    assert (verdict, bool(why)) == (expected, True)


TABLE = [
    # comparator, threshold, low, value, high -> verdict
    ("<", "0.05", "0.01", "0.03", "0.0499", Verdict.CONFIRMED),
    ("<", "0.05", "0.01", "0.03", "0.05", Verdict.INCONCLUSIVE),
    ("<=", "0.05", "0.01", "0.03", "0.05", Verdict.CONFIRMED),
    ("<", "0.05", "0.05", "0.06", "0.07", Verdict.REFUTED),
    ("<=", "0.05", "0.05", "0.06", "0.07", Verdict.INCONCLUSIVE),
    ("==", "0", "0", "0", "0", Verdict.CONFIRMED),  # a degenerate interval is the point
    ("==", "0", "-0.1", "0", "0.1", Verdict.INCONCLUSIVE),
    ("==", "0", "0.1", "0.2", "0.3", Verdict.REFUTED),
    # one-sided: not inferior by 0.02
    (">", "-0.02", "-0.0199", "0", None, Verdict.CONFIRMED),
    (">", "-0.02", "-0.02", "0", None, Verdict.INCONCLUSIVE),
    (">=", "-0.02", "-0.02", "0", None, Verdict.CONFIRMED),
    (">", "-0.02", "-0.03", "-0.02", None, Verdict.REFUTED),
    ("<", "0.05", "0.01", "0.02", None, Verdict.INCONCLUSIVE),  # no upper end confirms nothing
    ("<", "0.05", "0.05", "0.06", None, Verdict.REFUTED),
    (">", "0", "0.1", "-0.1", None, Verdict.INCONCLUSIVE),  # a BCa end may lie beyond its value
]


@pytest.mark.parametrize(("comparator", "threshold", "low", "value", "high", "verdict"), TABLE)
def test_what_each_end_decides(
    comparator: str, threshold: str, low: str, value: str, high: str | None, verdict: Verdict
) -> None:
    estimate = Estimate(Fraction(value), 5, 1, (Fraction(low), None if high is None else Fraction(high)))
    assert judge(_prediction(comparator=comparator, threshold=threshold), estimate)[0] is verdict


def test_nothing_is_decided_on_what_is_undefined() -> None:
    assert judge(_prediction(), Estimate(None, 5, 1, why="undefined: no divisor")) == (
        Verdict.INCONCLUSIVE,
        "undefined: no divisor",
    )
    without = Estimate(Fraction(1), 5, 1, why="no interval: no stratum has two items")
    assert judge(_prediction(), without) == (Verdict.INCONCLUSIVE, without.why)
    assert judge(_prediction(decides_on="value"), without)[0] is Verdict.REFUTED
    settled = judge(_prediction(statistic="sign_test"), Estimate(Fraction(1), 5, 1))
    assert settled == (Verdict.INCONCLUSIVE, "sign_test has no interval to decide on")


# --- ledgers written entry by entry


class Written:
    """A real ledger, entered body by body, without commands or samples."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        ledger_id = secrets.token_hex(16)
        origin = f"ridgefill/{ledger_id}"
        key = create_key(origin)
        Store(folder).create(Genesis(made_by="test", name="s", origin=origin, key=key.text()), ledger_id)

    def enter(self, *bodies: Body) -> list[str]:
        return [entry.leaf for entry in Session(self.folder).append(lambda _result: bodies)]

    def start(self, *versions: str, exploratory: bool = False, pins: Sequence[Any] = (), **detail: Any) -> str:
        detail = {"arms": ["exact", "map"], "tasks": ["long"], **detail}
        session = Session(self.folder)
        (entry,) = session.append(
            lambda result: [
                Start(
                    run=run_id(result.head),
                    claims=list(versions),
                    exploratory=exploratory,
                    pins=list(pins),
                    detail=detail,
                )
            ]
        )
        return entry.leaf

    def finish(self, start: str, status: Any = "complete", **detail: Any) -> None:
        (run,) = [run for run in self.history().runs if run.leaf == start]
        samples = Samples(sha256=SHA, bytes=1, rows=10)
        self.enter(Finish(run=run.id, start=start, status=status, samples=samples, metrics={}, detail=detail))

    def run(self, *versions: str, **options: Any) -> str:
        start = self.start(*versions, **options)
        self.finish(start)
        return next(run.id for run in self.history().runs if run.leaf == start)

    def history(self) -> History:
        return read_history(self.folder)

    def decided(self, value: str = "0.1", n: int = 5, **fields: Any) -> list[Decided]:
        history = self.history()
        number = Fraction(value)
        estimate = Estimate(number, n, 1, (number - Fraction(1, 20), number + Fraction(1, 20)))
        valued = {
            name: Valued(name, spec, **{"estimate": estimate, **fields})
            for name, spec in prediction_specs(history).items()
        }
        return decide(history, valued, {run.id: frozenset({0}) for run in history.runs})

    def only(self, **options: Any) -> Decided:
        (decided,) = self.decided(**options)
        return decided


@pytest.fixture
def ledger(home: Path) -> Written:
    return Written(home / "written")


def test_the_registered_rule_stands_beside_the_verdict_of_the_first_complete_run(ledger: Written) -> None:
    (version,) = ledger.enter(_claim(_prediction(task="long", seeds=[0], n=5)))
    failed = ledger.start(version)
    ledger.finish(failed, "failed")
    opened = ledger.start(version)
    first, second = ledger.run(version), ledger.run(version)
    decided = ledger.only()
    assert (decided.id, decided.verdict, decided.entry) == ("C1/p1", Verdict.CONFIRMED, 1)
    assert decided.rule == (
        "paired-difference of loss, map against exact on long: < 0.5 (95 % BCa interval), n = 5, seeds 0"
    )
    runs = {run.leaf: run.id for run in ledger.history().runs}
    assert decided.why == (
        f"all of the interval is < 0.5; run {runs[failed]} is failed; "
        f"run {runs[opened]} is open; next: ridgefill run resume {runs[opened]}; "
        f"run {first}, entries 5 and 6; run {second} replicates it"
    )
    spec = prediction_specs(ledger.history())["C1/p1"]
    assert (spec.run, spec.arms, spec.resamples, spec.interval) == (first, ("map", "exact"), 10_000, "bca")


def test_a_run_of_other_arms_does_not_decide(ledger: Written) -> None:
    far = _prediction(id="p2", arm="identity")
    (version,) = ledger.enter(_claim(_prediction(), far))
    ledger.run(version)
    assert [one.verdict for one in ledger.decided()] == [Verdict.CONFIRMED, Verdict.UNRUN]
    wanted = ledger.run(version, arms=["exact", "identity"])
    decided = ledger.decided()[1]
    assert (decided.verdict, wanted in decided.why) == (Verdict.CONFIRMED, True)


def _exploratory_run(ledger: Written) -> None:
    (version,) = ledger.enter(_claim())
    ledger.run(version, exploratory=True)


def _open_run(ledger: Written) -> None:
    ledger.start(*ledger.enter(_claim()))


def _failed_run(ledger: Written) -> None:
    ledger.finish(ledger.start(*ledger.enter(_claim())), "failed")


def _other_build(ledger: Written) -> None:
    pinned, ran = (build_pin("toy", {"bin": digit * 64}, {"engine": "toy"}).as_entry() for digit in "12")
    ledger.finish(ledger.start(*ledger.enter(_claim()), pins=[pinned]), pins=[ran])


def _moved_pin(ledger: Written) -> None:
    ledger.finish(ledger.start(*ledger.enter(_claim())), findings=["error: model m: differs"])


def _unreadable_pin(ledger: Written) -> None:
    ledger.finish(ledger.start(*ledger.enter(_claim())), pins=[{"kind": "build"}])


def _other_study(ledger: Written) -> None:
    pin = {"kind": "study", "name": "study.toml", "source": "path:study.toml", "digest": "2" * 64}
    ledger.run(*ledger.enter(_claim(files={"study.toml": "1" * 64})), pins=[pin])


def _with(**fields: Any) -> Callable[[Written], None]:
    return lambda ledger: ledger.run(*ledger.enter(_claim(_prediction(**fields)))) and None


INADMISSIBLE: dict[str, tuple[Callable[[Written], None], dict[str, Any], str]] = {
    "exploratory run": (_exploratory_run, {}, "incomplete: no run about it is complete; run"),
    "open run": (_open_run, {}, "is open; next: ridgefill run resume"),
    "failed run": (_failed_run, {}, "is failed"),
    "build changed": (_other_build, {}, "build toy: bin: what ran is not what was pinned"),
    "pin moved": (_moved_pin, {}, "error: model m: differs"),
    "pin unreadable": (_unreadable_pin, {}, "pins changed during run"),
    "another study file": (_other_study, {}, "used another study.toml than the registered 1111111111111111"),
    "too few items": (_with(), {"n": 4}, "incomplete: 4 items of the 5 registered"),
    "other seeds": (_with(seeds=[0, 1]), {}, "run with seeds 0, registered with 0, 1"),
    "refused": (_with(), {"estimate": None, "refused": "no row of metric lose"}, "no row of metric lose"),
    "no such statistic": (_with(statistic="average"), {}, "no statistic is called 'average'; expected mean"),
    "no such option": (_with(statistic="mean(q=1)"), {}, "mean takes no q"),
    "an arm too many": (_with(statistic="mean"), {}, "mean needs other arms; expected arm; found map, exact"),
    "an arm that cannot be named": (_with(statistic="gap_closed"), {}, "gap_closed needs other arms"),
    "no arm": (_with(arm="", baseline=""), {}, "arm: "),
}


@pytest.mark.parametrize("case", INADMISSIBLE)
def test_nothing_is_concluded_and_the_reason_is_told(ledger: Written, case: str) -> None:
    write, given_, told = INADMISSIBLE[case]
    write(ledger)
    decided = ledger.only(**given_)
    assert (decided.verdict, told in decided.why, decided.aside) == (Verdict.INADMISSIBLE, True, False), decided.why
    assert exit_code(findings_of([decided]), checked=1) == 1


def test_samples_that_are_not_the_sealed_ones_prove_nothing(ledger: Written) -> None:
    run = ledger.run(*ledger.enter(_claim()))
    name = f"records/{run}/samples.parquet"
    assert ledger.only(files={name: SHA}).verdict is Verdict.CONFIRMED
    decided = ledger.only(files={name: "6" * 64})
    assert (decided.verdict, f"{name} is not the sealed file" in decided.why) == (Verdict.INADMISSIBLE, True)


def test_a_claim_entered_after_its_run_began_decides_nothing(ledger: Written) -> None:
    """No ledger that verifies has it; a history put together by another tool may."""
    ledger.run(*ledger.enter(_claim()))
    history = ledger.history()
    history.seqs[next(iter(history.claims))] = 9
    valued = {
        name: Valued(name, spec, Estimate(Fraction(0), 5, 1, (Fraction(0), Fraction(0))))
        for name, spec in prediction_specs(history).items()
    }
    (decided,) = decide(history, valued, {})
    assert (decided.verdict, "registered in entry 9, after run" in decided.why) == (Verdict.INADMISSIBLE, True)


# --- amended, retracted, sealed, exploratory


def _amend(ledger: Written, target: str, *predictions: Prediction, **fields: Any) -> str:
    (leaf,) = ledger.enter(Amend(target=target, reason="second thoughts", claim=_claim(*predictions, **fields)))
    return leaf


def test_amended_before_any_run_deviates_and_says_from_what_to_what(ledger: Written) -> None:
    (first,) = ledger.enter(_claim())
    run = ledger.run(_amend(ledger, first, _prediction(threshold="0.06"), text="It helps a little."))
    decided = ledger.only()
    assert (decided.verdict, decided.outcome, decided.entry) == (Verdict.DEVIATED, Verdict.INCONCLUSIVE, 2)
    assert decided.why.endswith(
        f"run {run}, entries 3 and 4; amended in entry 2, before any run about it: text It helps. -> It helps a "
        "little., threshold 0.5 -> 0.06 (second thoughts)"
    )
    assert exit_code(findings_of([decided]), checked=1) == 0


def test_an_amendment_after_a_run_hides_nothing(ledger: Written) -> None:
    (first,) = ledger.enter(_claim(_prediction(threshold="0.01")))
    run = ledger.run(first)
    second = _amend(ledger, first, _prediction(threshold="0.5"))
    old, new = ledger.decided()
    assert (old.id, old.verdict, old.entry) == ("C1/p1@1", Verdict.REFUTED, 1)
    assert old.why.endswith("; amended in entry 4")
    assert (new.id, new.verdict, new.entry) == ("C1/p1", Verdict.UNRUN, 4)
    again = ledger.run(second)
    old, new = ledger.decided()
    assert (old.verdict, new.verdict, new.outcome) == (Verdict.REFUTED, Verdict.DEVIATED, Verdict.CONFIRMED)
    assert f"amended in entry 4, after run {run} was started: threshold 0.01 -> 0.5" in new.why
    assert {name: spec.run for name, spec in prediction_specs(ledger.history()).items()} == {
        "C1/p1@1": run,
        "C1/p1": again,
    }


def test_an_amendment_that_leaves_a_prediction_alone_does_not_make_it_deviate(ledger: Written) -> None:
    (first,) = ledger.enter(_claim())
    run = ledger.run(first)
    ledger.run(_amend(ledger, first, _prediction(), _prediction(id="p2")))
    kept, added = ledger.decided()
    assert (kept.id, kept.verdict, f"run {run}, entries 2 and 3" in kept.why) == ("C1/p1", Verdict.CONFIRMED, True)
    assert (added.id, added.verdict) == ("C1/p2", Verdict.DEVIATED)
    assert f"amended in entry 4, after run {run} was started: the prediction was added" in added.why


def test_a_rule_put_back_is_the_registered_one_and_its_first_run_decides(ledger: Written) -> None:
    (first,) = ledger.enter(_claim())
    run = ledger.run(first)
    ledger.run(_amend(ledger, _amend(ledger, first, _prediction(threshold="9")), _prediction()))
    decided = ledger.only()
    assert (decided.verdict, decided.entry) == (Verdict.CONFIRMED, 1)
    assert prediction_specs(ledger.history())["C1/p1"].run == run


def test_a_prediction_that_an_amendment_drops_stays_in_the_list(ledger: Written) -> None:
    (first,) = ledger.enter(_claim(_prediction(), _prediction(id="p2")))
    _amend(ledger, first, _prediction())
    kept, dropped = ledger.decided()
    assert (kept.id, dropped.id, dropped.verdict) == ("C1/p1", "C1/p2", Verdict.UNRUN)
    assert dropped.why.endswith("amended in entry 2")


def test_a_retracted_claim_is_listed_and_no_failure(ledger: Written) -> None:
    (first,) = ledger.enter(_claim())
    run = ledger.run(first)
    ledger.enter(Retract(target=first, reason="wrong model"))
    decided = ledger.only()
    assert (decided.verdict, decided.aside) == (Verdict.INADMISSIBLE, True)
    assert decided.why.startswith("retracted in entry 4: wrong model; its rule gives CONFIRMED")
    assert f"run {run}" in decided.why
    assert exit_code(findings_of([decided]), checked=1) == 0


def test_exploratory_claims_confirm_nothing(ledger: Written) -> None:
    ledger.enter(_claim(exploratory=True))
    (looked,) = ledger.enter(Claim(claim="C2", text="Look.", exploratory=True, predictions=[], files={}))
    ledger.run(looked)
    predicting, looking = ledger.decided()
    assert {predicting.verdict, looking.verdict} == {Verdict.INADMISSIBLE}
    assert (predicting.aside, looking.aside, looking.id) == (True, True, "C2")
    assert predicting.why.startswith("exploratory")


def test_a_sealed_claim_is_counted_and_decided_once_it_is_revealed(ledger: Written) -> None:
    claim, salt = _claim(), secrets.token_hex(32)
    sealed, other = ledger.enter(
        SealedClaim(commitment=commitment(salt, claim)), SealedClaim(commitment=commitment("0" * 64, claim))
    )
    run = ledger.run(sealed)
    withheld, _ = ledger.decided()
    assert (withheld.verdict, withheld.text, withheld.value) == (Verdict.UNRUN, "(withheld)", None)
    assert withheld.why == f"sealed, and run {run} is about it; next: ridgefill ledger reveal 1"
    ledger.enter(Reveal(target=sealed, salt=salt, claim=claim), Retract(target=other, reason="a copy"))
    revealed, copy = ledger.decided()
    assert (revealed.id, revealed.verdict, revealed.entry) == ("C1/p1", Verdict.CONFIRMED, 1)
    assert (copy.verdict, copy.aside, copy.why) == (Verdict.INADMISSIBLE, True, "retracted in entry 6: a copy")


# --- by the commands, from real samples

MORE = """
[[claim]]
id = "C2"
text = "What the toy engine gives."

{predictions}
[[claim]]
id = "C3"
text = "Retracted later."
exploratory = false

{later}
"""
_TOML = """
[[claim.prediction]]
id = "{id}"
metric = "{metric}"
statistic = "{statistic}"
comparator = "{comparator}"
threshold = "{threshold}"
arm = "{arm}"
baseline = "{baseline}"
task = "cont"
n = {n}
seeds = {seeds}
exclusions = "none"
stop_rule = "all samples"
"""
_PLAIN = {"metric": "loss", "statistic": "paired-difference", "comparator": "<", "threshold": "0"}
_PLAIN |= {"arm": "identity-4", "baseline": "exact"}
WANTED: dict[str, tuple[dict[str, Any], Verdict]] = {
    "below": ({}, Verdict.CONFIRMED),
    "above": ({"comparator": ">"}, Verdict.REFUTED),
    "within": ({"threshold": "-0.16"}, Verdict.INCONCLUSIVE),
    "same": (
        {"metric": "agreement", "statistic": "mean", "arm": "exact", "baseline": "", "comparator": "=="}
        | {"threshold": "1"},
        Verdict.CONFIRMED,
    ),
    "large": ({"n": 6}, Verdict.INADMISSIBLE),
    "seeded": ({"seeds": [1]}, Verdict.INADMISSIBLE),
    "misnamed": ({"statistic": "averege"}, Verdict.INADMISSIBLE),
}


def _toml(name: str, fields: dict[str, Any]) -> str:
    return _TOML.format(**{**_PLAIN, "id": name, "n": 5, "seeds": [0], **fields})


def test_verdicts_of_a_real_study(finished: Path, run_command: Any) -> None:
    claims = finished / "claims.toml"
    predictions = "\n".join(_toml(name, fields) for name, (fields, _) in WANTED.items())
    claims.write_text(claims.read_text() + MORE.format(predictions=predictions, later=_toml("p1", {})))
    for words in (
        ("ledger", "register"),
        ("run", "start"),
        ("ledger", "retract", "C3", "--reason", "wrong"),
    ):
        done = run_command(finished, *words)
        assert done.returncode == 0, done.stderr
    claims.write_text(claims.read_text().replace('threshold = "0"', 'threshold = "-1"', 1))
    assert run_command(finished, "ledger", "amend", "claims.toml", "--reason", "wider", "--claim", "C1").returncode == 0
    history = read_history(finished)
    first, second = history.runs
    values = recomputed(Sources.of(finished, history, ()), prediction_specs(history))
    seeds = seeds_of(finished, history)
    assert seeds == {first.id: {0}, second.id: {0}}
    decided = {one.id: one for one in decide(history, values, seeds)}
    assert {name: decided[f"C2/{name}"].verdict for name in WANTED} == {
        name: verdict for name, (_, verdict) in WANTED.items()
    }
    assert list(decided) == ["C1/p1@1", "C1/p1", *(f"C2/{name}" for name in WANTED), "C3/p1"]
    assert [decided[name].verdict for name in ("C1/p1@1", "C1/p1", "C3/p1")] == [
        Verdict.REFUTED,
        Verdict.UNRUN,
        Verdict.INADMISSIBLE,
    ]
    assert f"run {first.id}, entries 2 and 3; run {second.id} replicates it" in decided["C1/p1@1"].why
    assert decided["C2/same"].value is not None
    assert "degenerate" in decided["C2/same"].why


def test_without_the_samples_nothing_is_concluded(finished: Path) -> None:
    history = read_history(finished)
    (finished / "records" / history.runs[0].id / "samples.parquet").unlink()
    values = recomputed(Sources.of(finished, history, ()), prediction_specs(history))
    (decided,) = decide(history, values, seeds_of(finished, history))
    assert decided.verdict is Verdict.INADMISSIBLE
    assert "samples.parquet" in decided.why
    spared = replace(decided, aside=True)
    assert (decided.finding().exit_code, spared.finding().exit_code) == (6, 0)


def test_names_that_the_study_does_not_have(finished: Path) -> None:
    """The runner refuses to start on them; a ledger from elsewhere may hold them."""
    history = read_history(finished)
    ((version, claim),) = history.claims.items()
    (prediction,) = claim.predictions
    for changed, verdict, told in (
        ({"metric": "lose"}, Verdict.INADMISSIBLE, "lose"),
        ({"arm": "identity-5"}, Verdict.UNRUN, "no run of these arms and this task"),
        ({"task": "count"}, Verdict.UNRUN, "no run of these arms and this task"),
    ):
        asked = prediction.model_copy(update=changed)
        history.claims[version] = claim.model_copy(update={"predictions": [asked]})
        values = recomputed(Sources.of(finished, history, ()), prediction_specs(history))
        (decided,) = decide(history, values, seeds_of(finished, history))
        assert (decided.verdict, told in decided.why) == (verdict, True), decided.why


def test_seeds_that_cannot_be_read_are_told(finished: Path) -> None:
    history = read_history(finished)
    values = recomputed(Sources.of(finished, history, ()), prediction_specs(history))
    (decided,) = decide(history, values, {})
    assert (decided.verdict, decided.why.endswith("; its seeds could not be read")) == (Verdict.REFUTED, True)
    samples = finished / "records" / history.runs[0].id / "samples.parquet"
    samples.write_bytes(samples.read_bytes()[:-1])
    assert seeds_of(finished, history) == {}


def test_a_study_all_of_whose_claims_are_retracted(finished: Path, run_command: Any) -> None:
    assert run_command(finished, "ledger", "retract", "C1", "--reason", "wrong").returncode == 0
    history = read_history(finished)
    values = recomputed(Sources.of(finished, history, ()), prediction_specs(history))
    (decided,) = decide(history, values, seeds_of(finished, history))
    assert (decided.verdict, decided.aside) == (Verdict.INADMISSIBLE, True)
    assert decided.why.startswith("retracted in entry 4: wrong; run")
