"""A baseline in another engine: KL and agreement against two models run apart, one answer for all arms, refusals."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ledger.errors import Differs, UsageProblem
from runs import engines
from runs.engines.base import Answer, Opening, Score, answer
from runs.engines.scoring import compare
from runs.executors import executor
from runs.home import Home
from runs.inputs import take_pins
from runs.load import load_study
from runs.plan import Unit, choose, make_plan
from runs.record import Outcome
from runs.study import Arm
from runs.tasks import task_class
from runs.tasks.base import Sample
from runs.worker import Job, Worker

torch = pytest.importorskip("torch")
here = pytest.mark.skipif(find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed")

OURS = Arm(engine="reference", model="lm", flags={"threads": 1})
FILLED = Arm(engine="reference", model="lm", flags={"threads": 1}, fill="identity", split=2, tail=8)
STOCK = Arm(engine="llamacpp", model="lm", flags={"threads": 1})
PROMPT, FOLLOW = 60, 24


# --- the one place that compares ---

logits = arrays.arrays(np.float64, (2, 3, 7), elements=st.floats(-30, 30))


def _normal(rows: Any) -> Any:
    rows = rows - rows.max(-1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(-1, keepdims=True))


@given(logits)
def test_kl_and_agreement_are_the_naive_sums_whichever_library_holds_the_rows(both: Any) -> None:
    p, q = _normal(both)
    naive = [math.fsum(math.exp(a) * (a - b) for a, b in zip(x, y, strict=True)) for x, y in zip(p, q, strict=True)]
    same = [list(x).index(max(x)) == list(y).index(max(y)) for x, y in zip(p, q, strict=True)]
    for true, mine in ((p, q), (torch.tensor(p), q), (p, torch.tensor(q)), (torch.tensor(p), torch.tensor(q))):
        kl, agree = compare(true, mine)
        assert kl == pytest.approx(naive, abs=1e-9)
        assert list(agree) == same
        assert all(type(value) is float for value in kl)
        assert all(type(value) is bool for value in agree)


def test_two_vocabularies_are_not_compared() -> None:
    with pytest.raises(Differs, match="another vocabulary"):
        compare(np.zeros((2, 5)), np.zeros((2, 6)))


# --- two engines on one model ---


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A tiny GGUF, in a study's folder with texts."""
    source = Path(__file__).parents[1] / "contracts" / "test_engines.py"
    spec = spec_from_file_location("engines_of_agreement", source)
    assert spec is not None
    assert spec.loader is not None
    contract = module_from_spec(spec)
    spec.loader.exec_module(contract)
    root = tmp_path_factory.mktemp("agreement")
    contract.tiny_model(root / "model")
    contract.tiny_gguf(root / "model", root / "lm.gguf")
    (root / "texts").mkdir()
    for number in range(3):
        (root / "texts" / f"d{number}.txt").write_text(contract.TEXT[number * 11 :])
    return SimpleNamespace(root=root, text=contract.TEXT)


@pytest.fixture(scope="module")
def both(place: Any) -> Iterator[SimpleNamespace]:
    """The reference engine and llama.cpp, open on the same file."""
    pytest.importorskip("llama_cpp")
    file = place.root / "lm.gguf"
    ours, stock = (
        engines.engine(arm.engine).open(Opening("path:lm.gguf", file, {}, "fp32", arm.flags)) for arm in (OURS, STOCK)
    )
    tokens = tuple(ours.encode(place.text))[: PROMPT + FOLLOW]
    yield SimpleNamespace(ours=ours, stock=stock, tokens=tokens)
    ours.close()
    stock.close()


def _alone(place: Any, tokens: tuple[int, ...]) -> tuple[Any, Any]:
    """Log-probabilities [FOLLOW, vocabulary] of transformers and of llama.cpp's own class, each opened afresh."""
    import llama_cpp
    from transformers import AutoModelForCausalLM

    with torch.no_grad():
        model = AutoModelForCausalLM.from_pretrained(place.root / "model")
        ours = model(torch.tensor([tokens])).logits[0, PROMPT - 1 : -1].double().numpy()
    llama = llama_cpp.Llama(
        str(place.root / "lm.gguf"), n_ctx=512, n_threads=1, logits_all=True, flash_attn=True, verbose=False
    )
    llama.eval(tokens[: PROMPT - 1])  # in the same parts: other parts lead to other kernels
    llama.eval(tokens[PROMPT - 1 :])
    stock = np.array(llama.scores[PROMPT - 1 : len(tokens) - 1], np.float64)
    llama.close()
    return _normal(ours), _normal(stock)


@here
def test_arms_are_held_against_another_engines_predictions(both: Any, place: Any) -> None:
    """KL, agreement and losses, both ways round, against models that these engines never see.

    llama.cpp's rows are those of its own class to the last bit: nothing of ours stands between.
    """
    ours, stock = _alone(place, both.tokens)
    request = Score(both.tokens, PROMPT, cut=20)
    assert np.array_equal(both.stock.known(STOCK, request).rows, stock)
    for arm, mine, opened, baseline, true, elsewhere in (
        (OURS, ours, both.ours, STOCK, stock, both.stock),
        (STOCK, stock, both.stock, OURS, ours, both.ours),
    ):
        found = answer(opened, arm, request, baseline, elsewhere)
        kl = [math.fsum(np.exp(p) * (p - q)) for p, q in zip(true, mine, strict=True)]
        scored = both.tokens[PROMPT:]
        assert found.kl == pytest.approx(kl, abs=1e-5)
        assert found.same == tuple((true.argmax(-1) == mine.argmax(-1)).tolist())
        assert found.losses == pytest.approx([-row[t] for row, t in zip(mine, scored, strict=True)], abs=2e-3)
        assert found.baseline == pytest.approx([-row[t] for row, t in zip(true, scored, strict=True)], abs=2e-3)
        assert len(found.cut) == FOLLOW
        assert found.cut == answer(elsewhere, baseline, request, baseline).cut
    filled = answer(both.ours, FILLED, request, STOCK, both.stock)
    assert sum(filled.kl) > 100 * sum(found.kl)
    assert filled.baseline == answer(both.ours, OURS, request, STOCK, both.stock).baseline


@here
def test_the_other_engines_own_continuation_is_scored(both: Any) -> None:
    from runs.engines.base import Generate

    prompt = both.tokens[:PROMPT]
    made = both.stock.generate(STOCK, Generate(prompt, 8)).tokens
    found = answer(both.ours, FILLED, Score(prompt, PROMPT, greedy=8), STOCK, both.stock)
    assert found.tokens == made
    assert found.losses == answer(both.ours, FILLED, Score(prompt + made, PROMPT), None).losses
    stock = answer(both.stock, STOCK, Score(prompt, PROMPT, greedy=8), STOCK)
    assert all(stock.same)
    assert set(stock.kl) == {0.0}


# --- the task ---


def test_agreement_by_hand() -> None:
    """A document that repeats its first tokens: the copies, from the ninth on, count apart."""
    task = task_class("agreement").model_validate({"dataset": "d", "baseline": "b", "length": 24, "follow": 12})
    tokens = (*range(20), 90, 91, 92, 93, *range(12))
    sample = Sample("d", "d", 24, Score(tokens, 24))
    same = (True, False) * 6
    found = task.score(sample, Answer(tokens[24:], kl=tuple(map(float, range(12, 0, -1))), same=same))
    assert found == {
        "kl": 6.5,
        "kl_median": 6.5,
        "kl_p99": 12.0,
        "agreement": 0.5,
        "agreement_copyable": 0.5,
        "agreement_rest": 0.5,
        "copyable": 4 / 12,  # the first eight of them follow fewer than eight copied tokens
    }
    only = replace(sample, request=Score(tuple(range(36)), 24))
    assert task.score(only, Answer(tuple(range(24, 36)), kl=(0.0,) * 12, same=same))["agreement_copyable"] is None


def test_agreement_asks_what_long_documents_asks_but_for_key_tokens(place: Any) -> None:
    data, parameters = {"texts": place.root / "texts"}, {"dataset": "texts", "baseline": "b", "length": 60}
    for along in ("real", "greedy"):
        made = [
            task_class(kind).model_validate({**parameters, "follow": 20, "along": along, **more})  # type: ignore[arg-type]
            for kind, more in (("agreement", {}), ("long_documents", {"tail": 9}))
        ]
        mine, other = (task.sample("d1.txt", data, 0, lambda text: text.encode()) for task in made)
        assert (mine.stratum, mine.length, mine.detail) == (other.stratum, other.length, other.detail)
        assert mine.request == replace(other.request, cut=0)  # type: ignore[type-var]


# --- two placements of one set of maps ---


@pytest.mark.parametrize(("dtype", "parts"), [("bf16", ["bias", "weight"]), ("i8", ["bias", "codes", "scale"])])
def test_two_placements_of_the_maps_predict_the_same_to_the_last_bit(
    place: Any, tmp_path: Path, dtype: str, parts: list[str]
) -> None:
    """As stored and resident, in two sessions: the same tokens made, and the same whole distributions."""
    import ridgefill
    from runs.engines.base import Generate

    model, tokenizer = ridgefill.load(f"path:{place.root / 'model'}", torch.bfloat16)
    ridgefill.fit(model, tokenizer, [place.text * 9], [2], penalty=0.1, window=64)[2].save(tmp_path / "m", dtype)
    arms, sessions = [], []
    for where in ("stored", "resident"):
        flags = {"threads": 1, "maps": where}
        arm = OURS.model_copy(update={"fill": "map", "maps": "m", "split": 2, "tail": 8, "flags": flags})
        assert engines.engine("reference").check(arm) == ""
        opening = Opening("path:model", place.root / "model", {"m": tmp_path / "m"}, "bf16", flags)
        arms.append(arm)
        sessions.append(engines.engine("reference").open(opening))
    tokens = tuple(sessions[0].encode(place.text))
    for length in (20, 60, 200):
        request = Score(tokens[: length + 8], length)
        stored, resident = (each.known(arm, request) for arm, each in zip(arms, sessions, strict=True))
        assert torch.equal(stored.rows, resident.rows)
        found = answer(sessions[1], arms[1], request, arms[0], sessions[0])
        assert set(found.kl) == {0.0}
        assert all(found.same)
        made = [
            each.generate(arm, Generate(tokens[:length], 8)).tokens for arm, each in zip(arms, sessions, strict=True)
        ]
        assert made[0] == made[1]
    exact = answer(sessions[0], OURS, request, arms[0])
    assert sum(exact.kl) > 0  # maps that change nothing would show nothing
    held = [sorted(next(iter(each._maps.values()))._parts[2]) for each in sessions]  # type: ignore[attr-defined]
    assert held == [parts, ["bias", "weight"]]
    wrong = OURS.model_copy(update={"flags": {"maps": "elsewhere"}})
    assert "stored or resident" in engines.engine("reference").check(wrong)


# --- workers and executors ---

STUDY = """
name = "apart"

[models.lm]
source = "path:lm.gguf"

[datasets.texts]
source = "path:texts"

[arms.stock]
engine = "{stock}"
model = "lm"
flags = {flags}

[arms.ours]
engine = "{ours}"
model = "lm"

[arms.filled]
engine = "{ours}"
model = "lm"
fill = "identity"
split = 2
tail = 8

[tasks.agree]
task = "agreement"
dataset = "texts"
length = 60
follow = 24
baseline = "stock"
"""


@pytest.fixture
def study(place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write a study of two engines, or of one in two sessions."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def make(stock: str, flags: str, ours: str) -> Path:
        shutil.copyfile(place.root / "lm.gguf", tmp_path / "lm.gguf")
        shutil.copytree(place.root / "texts", tmp_path / "texts")
        (tmp_path / "study.toml").write_text(STUDY.format(stock=stock, flags=flags, ours=ours))
        return tmp_path

    return make


def _job(folder: Path) -> tuple[Job, list[Unit]]:
    study = load_study(folder)
    arms, tasks = choose(study, (), ())
    pins, _ = take_pins(folder, study, arms, tasks, exploratory=True)
    return Job(folder, tuple(pins), arms), list(make_plan(study, arms, tasks, {"texts": folder / "texts"}).units)


@here
def test_a_baseline_is_answered_once_for_all_arms_of_a_sample(
    study: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, units = _job(study("llamacpp", "{ threads = 1 }", "reference"))
    worker = Worker(job, sys.stderr)
    asked = []
    for opened in worker._opened.values():
        own = opened._following  # type: ignore[attr-defined]
        monkeypatch.setattr(opened, "_following", lambda arm, *a, own=own: asked.append(arm.engine) or own(arm, *a))
    outcomes = {unit.sample: [worker.answer(unit, arm) for arm in unit.arms] for unit in units}
    worker.close()
    assert asked == ["llamacpp", "reference", "reference"] * 3
    for stock, ours, filled in outcomes.values():
        assert (stock.error, ours.error, filled.error) == ("", "", "")
        assert stock.values["agreement"] == 1
        assert 0 == stock.values["kl"] < ours.values["kl"] < 1e-4 < filled.values["kl"]
        assert ours.values["kl_median"] <= ours.values["kl_p99"]


@pytest.mark.parametrize(
    ("kind", "workers"),
    [
        ("inline", 1),
        ("processes", 2),
        pytest.param(
            "ray",
            2,
            marks=[pytest.mark.slow, pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")],
        ),
    ],
)
def test_every_executor_opens_both_sessions(study: Callable[..., Path], kind: str, workers: int) -> None:
    folder = study("toy", "{ delay_ms = 1 }", "toy")
    job, units = _job(folder)
    executing = executor(kind, workers, Home.nameless(folder))
    try:
        assert len(executing.open(job)) == 2
        found = {out.key: out for out in executing.run(units) if isinstance(out, Outcome)}
    finally:
        executing.close()
    toy = engines.engine("toy").open(Opening("path:lm.gguf", folder / "lm.gguf", {}, "fp32", {}))
    task, exact, filled = (load_study(folder).tasks["agree"], *(load_study(folder).arms[a] for a in ("ours", "filled")))
    for unit in units:
        sample = task.sample(unit.sample, {"texts": folder / "texts"}, 0, toy.encode)
        for name, arm in (("stock", exact), ("ours", exact), ("filled", filled)):
            out = found[unit.key(name)]
            assert out.error == ""
            assert out.values == task.score(sample, answer(toy, arm, sample.request, exact))
    assert len(found) == 9


def test_a_baseline_that_reads_other_tokens_is_refused_by_name(study: Callable[..., Path]) -> None:
    job, units = _job(study("toy", "{ delay_ms = 0 }", "reference"))
    worker = Worker(job, sys.stderr)
    stock, ours, _ = (worker.answer(units[0], arm) for arm in units[0].arms)
    worker.close()
    assert stock.error == ""
    assert "ours and its baseline stock read the sample as different tokens" in (ours.error or "")
    assert ours.values == {}


def test_a_baseline_of_another_session_must_be_asked_too(study: Callable[..., Path]) -> None:
    loaded = load_study(study("toy", "{ delay_ms = 0 }", "toy"))
    with pytest.raises(UsageProblem, match="the task agree compares with the arm stock") as caught:
        choose(loaded, ("filled",), ())
    assert "--arm stock too" in caught.value.line()
    assert choose(loaded, ("filled", "stock"), ())[0] == ("stock", "filled")
