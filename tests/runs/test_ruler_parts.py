"""The parts RULER's samples are made of: scorers, fitting, places in tokens, words of prompts, a user's files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ledger.errors import CannotCheck, EnvironmentProblem, Problem, UsageProblem
from runs import tasks
from runs.engines.base import Answer
from runs.tasks.ruler import words
from runs.tasks.ruler.fit import largest
from runs.tasks.ruler.marked import hidden
from runs.tasks.ruler.questions import HotpotQuestions, SquadQuestions
from runs.tasks.ruler.scoring import cleaned, match_all, match_part
from runs.tasks.ruler.spans import token_span
from runs.tasks.ruler.wording import OURS, read_wordings

# Worked out by hand from the rules: any case, anywhere in the text, control characters are line breaks.
SCORES: list[tuple[str, tuple[str, ...], float, float]] = [
    ("It is 1234567.", ("1234567",), 1.0, 1.0),
    ("It is 123\n4567.", ("1234567",), 0.0, 0.0),
    ("12\x0034", ("1234",), 0.0, 0.0),  # what deletes control characters would find it
    ("991234567", ("1234567",), 1.0, 1.0),  # a substring, not a word
    ("ABC and def", ("abc", "DEF", "ghi", "jkl"), 0.5, 1.0),
    ("abc", ("abc", "def", "ghi", "jkl"), 0.25, 1.0),
    ("", ("abc", "def"), 0.0, 0.0),
    ("Straße", ("STRASSE",), 0.0, 0.0),  # lower, not casefold
    ("one two one", ("one", "one", "three", "four"), 0.5, 1.0),
]


@pytest.mark.parametrize(("prediction", "references", "every", "part"), SCORES)
def test_scores_worked_out_by_hand(prediction: str, references: tuple[str, ...], every: float, part: float) -> None:
    assert match_all(prediction, references) == every
    assert match_part(prediction, references) == part


def test_a_prediction_is_cleaned_as_upstream_does() -> None:
    assert cleaned(" \x00 a\tb\r\nc\x1f\n ") == "a\nb\n\nc"
    assert cleaned("\x07") == ""
    assert cleaned("\x7fa\u2028b") == "\x7fa\u2028b"


@given(st.integers(1, 40), st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(0, 900))
def test_the_fit_is_what_counting_up_finds(least: int, steps: list[int], budget: int) -> None:
    def tokens(units: int) -> int:
        return 5 + sum(steps[place % len(steps)] for place in range(units)) + units

    fitting = least
    while tokens(fitting + 1) <= budget:
        fitting += 1
    if tokens(least) > budget:
        with pytest.raises(UsageProblem, match="even the smallest prompt does not fit"):
            largest(tokens, budget, least)
    else:
        assert largest(tokens, budget, least) == fitting
        assert largest(tokens, budget, least, fitting + 1) == fitting
        with pytest.raises(UsageProblem, match="there is not enough filler"):
            largest(tokens, budget, least, max(least, fitting))


def test_the_fit_ends_where_tokens_falter() -> None:
    """More text can be fewer tokens: what is returned fits all the same."""

    def tokens(units: int) -> int:
        return units + 3 * (units % 2)

    for budget in range(20, 200):
        assert budget - 4 <= tokens(largest(tokens, budget, 1)) <= budget


@given(st.lists(st.text("xy", max_size=3), max_size=30), st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_needles_are_hidden_in_their_order_and_at_their_depths(pieces: list[str], depths: list[float]) -> None:
    needles = [f"N{number}." for number in range(len(depths))]
    marked = hidden(pieces, needles, depths, "|")
    assert [marked.text[start:end] for start, end in marked.spans] == needles
    found = marked.text.split("|")
    assert [piece for piece in found if not piece.startswith("N")] == pieces
    for needle, depth in zip(needles, sorted(depths), strict=True):
        before = [piece for piece in found[: found.index(needle)] if not piece.startswith("N")]
        assert len(before) == int(len(pieces) * depth)
    inner = marked.between("before ", " after")
    assert [inner.text[start:end] for start, end in inner.spans] == needles


def _pairs(text: str) -> tuple[int, ...]:
    """A tokenizer that begins with a special token and joins what comes in pairs: ends cut tokens."""
    made, place = [0], 0
    while place < len(text):
        width = 2 if text[place : place + 2] in ("ab", "bc", "c.", ". ") else 1
        made.append(int.from_bytes(text[place : place + width].encode(), "big"))
        place += width
    return tuple(made)


@given(st.text("abc. ", min_size=1, max_size=40), st.data())
def test_tokens_of_a_span_are_the_fewest_that_hold_it(text: str, choose: st.DataObject) -> None:
    start = choose.draw(st.integers(0, len(text) - 1))
    end = choose.draw(st.integers(start + 1, len(text)))
    tokens, ends, place = _pairs(text), [0], 0
    for token in tokens[1:]:
        place += len(token.to_bytes(2, "big").lstrip(b"\0"))
        ends.append(place)
    first, last = token_span(_pairs, text, tokens, (start, end))
    # token number n holds the characters ends[n - 1] to ends[n]
    assert first == max(number for number, at in enumerate(ends) if at <= start) + 1
    assert last == min(number for number, at in enumerate(ends) if at >= end) + 1


TABLES = ("niah_one", "niah_many", "vt", "cwe", "fwe", "qa")


def _templates(folder: Path, **changes: Any) -> Path:
    """Other words than ours for every family, as a user's file."""
    tables: dict[str, Any] = {
        "haystack": {"needle": "Note: {key} has {value}, one of its {type_needle_v}.", "noise": "Rain fell."},
        **{name: {"template": f"{name} {{context}} ask {{query}}", "answer_prefix": "Well:"} for name in TABLES},
        **changes,
    }
    lines = []
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(text)}" for key, text in table.items())]
    path = folder / "templates.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_users_words_replace_ours(tmp_path: Path) -> None:
    data = {"words": _templates(tmp_path)}
    for name in ("niah_single_1", "vt", "cwe", "fwe"):
        task = tasks.task_class(name).model_validate({"length": 3000, "samples": 2, "templates": "words"})
        assert task.datasets == ("words",)
        sample = task.sample("0001", data, 0, lambda text: tuple(text.encode()))
        text = bytes(sample.request.tokens).decode()
        assert text.endswith("\nWell:")
        if name == "niah_single_1":
            assert text.startswith("niah_one Rain fell.\n")
            ((first, last),) = sample.detail["needles"]
            assert text[first:last].endswith(f" has {sample.detail['answers'][0]}, one of its numbers.")
        assert "road" not in text


WRONG: dict[str, tuple[Callable[[Path], Path], str]] = {
    "not there": (lambda folder: folder / "no.toml", "cannot be read"),
    "a folder": (lambda folder: folder, "cannot be read"),
    "no TOML": (lambda folder: _written(folder, "= x"), "are not TOML"),
    "a table too few": (
        lambda folder: _written(folder, "[haystack]\nneedle='a'\nnoise='b'"),
        "niah_one: Field required",
    ),
    "no context": (lambda folder: _templates(folder, qa={"template": "x", "answer_prefix": ""}), "{context} once"),
    "unknown": (lambda folder: _templates(folder, qa={"template": "{context}{x}", "answer_prefix": ""}), "'x'"),
    "a brace": (lambda folder: _templates(folder, qa={"template": "{context}{", "answer_prefix": ""}), "written twice"),
    "a format": (
        lambda folder: _templates(folder, vt={"template": "{context}{query:>9}", "answer_prefix": ""}),
        "query",
    ),
}


def _written(folder: Path, text: str) -> Path:
    (folder / "other").write_text(text, encoding="utf-8")
    return folder / "other"


@pytest.mark.parametrize("wrong", WRONG)
def test_templates_that_cannot_be_used_are_one_line(tmp_path: Path, wrong: str) -> None:
    make, told = WRONG[wrong]
    task = tasks.task_class("vt").model_validate({"length": 3000, "samples": 2, "templates": "words"})
    with pytest.raises((UsageProblem, CannotCheck)) as problem:
        task.ids({"words": make(tmp_path)}, 0)
    assert told in problem.value.line()
    assert "\n" not in problem.value.line()


def test_our_words_pass_as_a_users_would(tmp_path: Path) -> None:
    path = _templates(tmp_path, **OURS.model_dump())
    assert read_wordings(path) == OURS


@pytest.mark.parametrize(
    ("name", "parameters", "told"),
    [
        ("vt", {"length": 30}, "more than the answer's 30 tokens"),
        ("fwe", {"length": 299}, "greater than or equal to 300"),
        ("vt", {"length": 3000, "chat": "no place"}, "{prompt} once"),
        ("vt", {"length": 3000, "chat": "{prompt}{prompt}"}, "{prompt} once"),
        ("vt", {"length": 3000, "tail": 0}, "greater than or equal to 1"),
        ("niah_single_2", {"length": 3000}, "essays"),
        ("vt", {"length": 3000, "essays": "x"}, "essays"),
        ("cwe", {"length": 3000, "filled_only": True}, "filled_only"),
        ("fwe", {"length": 3000, "filled_only": True}, "filled_only"),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(name: str, parameters: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as problem:
        tasks.task_class(name).model_validate({"samples": 2, **parameters})
    assert told in str(problem.value)


@pytest.mark.parametrize("name", [name for name, where in tasks.REGISTRY.items() if ".ruler." in where])
def test_a_budget_that_is_too_small_is_one_line_and_no_loop(name: str, tmp_path: Path) -> None:
    (tmp_path / "essays").mkdir()
    (tmp_path / "essays" / "a.txt").write_text("One. Two.", encoding="utf-8")
    data = {"essays": tmp_path / "essays", "qa_1": _squad(tmp_path), "qa_2": _hotpot(tmp_path)}
    kind = tasks.task_class(name)
    inputs = {"essays": "essays"} if "essays" in kind.model_fields else {}
    inputs |= {"questions": name} if "questions" in kind.model_fields else {}
    task = kind.model_validate({"length": 200 if name in data else 300, "samples": 2, **inputs})
    with pytest.raises(UsageProblem) as problem:
        task.sample("0000", data, 0, lambda text: tuple(text.encode()))
    assert "even the smallest prompt does not fit" in problem.value.line()
    assert "\n" not in problem.value.line()


def _squad(folder: Path, change: Callable[[Any], Any] = lambda data: data) -> Path:
    """Two articles; the first has two paragraphs. One question of the three has no answer."""

    def asked(text: str, *answers: str) -> dict[str, Any]:
        return {"question": text, "answers": [{"text": said} for said in answers], "is_impossible": not answers}

    first = [
        {"context": "The Ilm is a river.", "qas": [asked("What is the Ilm?", "river", "a river", "river")]},
        {"context": "It flows north.", "qas": [asked("Why does it flow?")]},
    ]
    other = [{"context": "Tea is warm.", "qas": [asked("What is warm?", "Tea")]}]
    (folder / "squad.json").write_text(json.dumps(change({"data": [{"paragraphs": first}, {"paragraphs": other}]})))
    return folder / "squad.json"


def _hotpot(folder: Path, change: Callable[[Any], Any] = lambda data: data) -> Path:
    """Two questions over three documents, of which one is shown to both."""
    shared = ["Ilm", ["The Ilm is ", "a river."]]
    asked = [
        {
            "question": "What flows?",
            "answer": "the Ilm",
            "supporting_facts": [["Ilm", 0], ["Ilm", 1]],
            "context": [shared, ["Tea", ["Tea is warm."]]],
        },
        {
            "question": "What rains?",
            "answer": "rain",
            "supporting_facts": [["Rain", 0], ["Ilm", 1]],
            "context": [["Rain", ["Rain rains."]], shared],
        },
    ]
    (folder / "hotpot.json").write_text(json.dumps(change(asked)))
    return folder / "hotpot.json"


def test_squad_is_read_as_documents_and_answerable_questions(tmp_path: Path) -> None:
    task = SquadQuestions(length=2000, samples=2, questions="q")
    corpus = task.corpus(_squad(tmp_path))
    assert corpus.documents == ("It flows north.", "Tea is warm.", "The Ilm is a river.")
    river, tea = corpus.questions
    assert (river.text, river.answers) == ("What is the Ilm?", ("river", "a river"))
    assert (river.kept, river.near, set(river.evidence)) == ((2,), (0,), {2})
    assert (tea.kept, tea.near, set(tea.evidence)) == ((1,), (), {1})


def test_hotpot_is_read_as_documents_with_the_facts_marked(tmp_path: Path) -> None:
    task = HotpotQuestions(length=2000, samples=2, questions="q")
    corpus = task.corpus(_hotpot(tmp_path))
    assert corpus.documents == ("Ilm\nThe Ilm is a river.", "Rain\nRain rains.", "Tea\nTea is warm.")
    flows, rains = corpus.questions
    assert (flows.kept, set(flows.evidence), flows.answers) == ((0, 2), {0}, ("the Ilm",))
    assert (rains.kept, set(rains.evidence)) == ((1, 0), {0, 1})


SPOILED: dict[str, tuple[str, Callable[[Path], Path], str]] = {
    "not there": ("qa_1", lambda folder: folder / "no.json", "cannot be read"),
    "no JSON": ("qa_1", lambda folder: _written(folder, "{"), "is not as it must be"),
    "the other's": ("qa_1", _hotpot, "SQuAD's dev-v2.0.json"),
    "no answers": ("qa_1", lambda folder: _squad(folder, lambda data: {"data": []}), "too few questions"),
    "empty answer": (
        "qa_2",
        lambda folder: _hotpot(folder, lambda asked: [{**asked[0], "answer": ""}]),
        "0.answer: String should have at least 1 character",
    ),
    "fact of no document": (
        "qa_2",
        lambda folder: _hotpot(folder, lambda asked: [{**asked[0], "supporting_facts": [["Sea", 0]]}]),
        "a supporting fact is of no document",
    ),
}


@pytest.mark.parametrize("spoiled", SPOILED)
def test_a_file_of_questions_that_cannot_be_used_is_one_line(tmp_path: Path, spoiled: str) -> None:
    name, make, told = SPOILED[spoiled]
    task = tasks.task_class(name).model_validate({"length": 2000, "samples": 2, "questions": "q"})
    with pytest.raises(Problem) as problem:
        task.ids({"q": make(tmp_path)}, 0)
    assert told in problem.value.line()
    assert "\n" not in problem.value.line()


def test_questions_whose_documents_run_out_are_refused(tmp_path: Path) -> None:
    task = SquadQuestions(length=2000, samples=2, questions="q")
    with pytest.raises(UsageProblem, match="there is not enough filler"):
        task.sample("0000", {"q": _squad(tmp_path)}, 0, lambda text: tuple(text.encode()))


def test_samples_ask_different_questions_until_there_are_no_more(tmp_path: Path) -> None:
    task = HotpotQuestions(length=330, samples=2, questions="q")
    data: Mapping[str, Path] = {"q": _hotpot(tmp_path)}
    made = [task.sample(id_, data, 3, lambda text: tuple(text.encode())) for id_ in task.ids(data, 3)]
    assert {sample.detail["answers"] for sample in made} == {("the Ilm",), ("rain",)}
    assert task.score(made[0], Answer(text="The ilm, or RAIN")) == {"score": 1.0}


def test_words_are_those_of_the_pinned_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert len(words.listed("nounlist.txt")) == 6782
    assert len(words.every_word()) == 8166
    (tmp_path / "assets").mkdir()
    real = (files("wonderwords") / "assets" / "nounlist.txt").read_bytes()
    (tmp_path / "assets" / "nounlist.txt").write_bytes(real + b"one more\n")
    monkeypatch.setattr(words, "files", lambda name: tmp_path)
    words.listed.cache_clear()
    try:
        with pytest.raises(EnvironmentProblem, match=r"not those of wonderwords 3\.0\.1"):
            words.listed("nounlist.txt")
        with pytest.raises(EnvironmentProblem, match="not installed"):
            words.listed("verblist.txt")
    finally:
        words.listed.cache_clear()


def test_nothing_is_drawn_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, taken = words.source("x"), {"seen"}
    drawn = [words.fresh(numbers, kind, taken) for kind in words.KINDS for _ in range(200)]
    assert len(set(drawn)) == 600
    assert taken == {"seen", *drawn}
    monkeypatch.setitem(words.KINDS, "digits", lambda numbers: str(numbers.randrange(3)))
    few = {"0"}
    assert {words.fresh(numbers, "digits", few), words.fresh(numbers, "digits", few)} == {"1", "2"}
