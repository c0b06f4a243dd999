"""RULER's tasks, 20 samples of each at 1K and 4K tokens of a real tokenizer, trained here on Python's documentation."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import UsageProblem
from runs import tasks
from runs.engines.base import Answer, Generate
from runs.tasks.base import Sample
from runs.tasks.ruler.base import Ruler
from runs.tasks.ruler.words import listed, source

tokenizers = pytest.importorskip("tokenizers")

# Tokens that a prompt may stay below its budget: those of one more unit of filler.
SLACK = {
    **dict.fromkeys(("niah_single_1", "vt"), 35),
    **dict.fromkeys(("niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multivalue", "niah_multiquery"), 15),
    "niah_multikey_2": 35,
    "niah_multikey_3": 110,
    "cwe": 40,
    "fwe": 40,
    "qa_1": 90,
    "qa_2": 90,
}
ESSAYS = {"niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multivalue", "niah_multiquery"}
QUESTIONS = {"qa_1": "squad", "qa_2": "hotpot"}
BUDGETS = {**dict.fromkeys(SLACK, 128), "vt": 30, "cwe": 120, "fwe": 50, "qa_1": 32, "qa_2": 32}
NEEDLES = {"vt": 5, "niah_multikey_1": 4, "niah_multivalue": 4, "niah_multiquery": 4, "qa_2": 2}
ANSWERS = {"vt": 5, "niah_multivalue": 4, "niah_multiquery": 4, "cwe": 10, "fwe": 3}
LENGTHS = (1024, 4096)

Make = Callable[..., Ruler]


@dataclass(frozen=True)
class Tokens:
    """A tokenizer, as a task and as a reader see it."""

    encode: Callable[[str], tuple[int, ...]]
    decode: Callable[[tuple[int, ...]], str]


@pytest.fixture(scope="module")
def real() -> Tokens:
    from pydoc_data.topics import topics

    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=4000, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(list(topics.values()), trainer)
    return Tokens(cache(lambda text: tuple(made.encode(text).ids)), made.decode)


def _document(number: int, fact: str) -> str:
    numbers = source("document", number)
    said = [
        f"The {numbers.choice(listed('nounlist.txt'))} was {numbers.choice(listed('adjectivelist.txt'))}."
        for _ in "123"
    ]
    return " ".join([*said, fact])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Essays from Python's documentation, and made-up files as SQuAD's and HotpotQA's are."""
    from pydoc_data.topics import topics

    folder = tmp_path_factory.mktemp("data")
    (folder / "essays").mkdir()
    for name in sorted(topics)[:30]:
        (folder / "essays" / f"{name}.txt").write_text(topics[name], encoding="utf-8")
    squad = [{"paragraphs": [_paragraph(5 * article + place) for place in range(5)]} for article in range(40)]
    (folder / "squad.json").write_text(json.dumps({"version": "v2.0", "data": squad}), encoding="utf-8")
    (folder / "hotpot.json").write_text(json.dumps([_pair(number) for number in range(25)]), encoding="utf-8")
    return {"essays": folder / "essays", "squad": folder / "squad.json", "hotpot": folder / "hotpot.json"}


def _paragraph(number: int) -> dict[str, Any]:
    answers = [{"text": f"Port K{number:03}", "answer_start": 0}, {"text": f"K{number:03}", "answer_start": 5}]
    asked = [
        {"id": f"a{number}", "question": f"Where does ship {number} lie?", "answers": answers, "is_impossible": False},
        {"id": f"b{number}", "question": f"Who sails ship {number}?", "answers": [], "is_impossible": True},
    ]
    return {"context": _document(number, f"Ship {number} lies in Port K{number:03}."), "qas": asked}


def _pair(number: int) -> dict[str, Any]:
    context = [[f"Place {number}.{place}", [_document(1000 * number + place, "Nothing else.")]] for place in range(8)]
    context.insert(3, [f"Owner {number}", [f"Owner {number} has ", f"ship {number}."]])
    context.insert(6, [f"Ship {number}", [f"Ship {number} lies in Port K{number:03}."]])
    facts = [[f"Owner {number}", 0], [f"Ship {number}", 0]]
    return {
        "_id": f"h{number}",
        "question": f"Where does the ship of owner {number} lie?",
        "answer": f"Port K{number:03}",
        "supporting_facts": facts,
        "context": context,
    }


def _task(name: str, **parameters: Any) -> Ruler:
    inputs = {"essays": "essays"} if name in ESSAYS else {"questions": QUESTIONS[name]} if name in QUESTIONS else {}
    made = tasks.task_class(name).model_validate({"length": 1024, "samples": 20, **inputs, **parameters})
    assert isinstance(made, Ruler)
    return made


@pytest.fixture(scope="module")
def drawn(real: Tokens, data: Mapping[str, Path]) -> Callable[[str, int], list[Sample]]:
    """20 samples of a task at a length, made once."""

    @cache
    def draw(name: str, length: int) -> list[Sample]:
        task = _task(name, length=length)
        return [task.sample(id_, data, 0, real.encode) for id_ in task.ids(data, 0)]

    return draw


def _split(sample: Sample, real: Tokens) -> tuple[list[str], str]:
    """The evidence, a text each, and everything else."""
    assert isinstance(sample.request, Generate)
    tokens, place = sample.request.tokens, 0
    evidence, rest = [], []
    for first, last in sample.detail["needles"]:
        evidence.append(real.decode(tokens[first:last]))
        rest.append(real.decode(tokens[place:first]))
        place = last
    return evidence, "".join([*rest, real.decode(tokens[place:])])


def test_there_are_13_tasks() -> None:
    assert len(SLACK) == 13
    assert {name for name, where in tasks.REGISTRY.items() if ".ruler." in where} == set(SLACK)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", SLACK)
def test_the_budget_is_kept_and_used(name: str, length: int, drawn: Any) -> None:
    samples = drawn(name, length)
    assert len(samples) == 20
    for sample in samples:
        assert sample.length == len(sample.request.tokens)
        assert sample.request.limit == BUDGETS[name]
        assert length - SLACK[name] <= sample.length + BUDGETS[name] <= length


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", SLACK)
def test_answers_are_where_they_are_recorded_and_nowhere_else(name: str, length: int, drawn: Any, real: Tokens) -> None:
    for sample in drawn(name, length):
        evidence, rest = _split(sample, real)
        answers = sample.detail["answers"]
        assert len(evidence) == NEEDLES.get(name, 1)
        assert all(any(answer in text for text in evidence) for answer in answers)
        if name != "cwe":  # its worked example shares a word with the list now and then
            assert not [answer for answer in answers if answer in rest]
        if name in QUESTIONS:
            assert all(re.fullmatch(r"Document \d+:\n.*", text.strip(), re.DOTALL) for text in evidence)
        else:
            assert len(answers) == ANSWERS.get(name, 1)


@pytest.mark.parametrize("name", [name for name in SLACK if name.startswith("niah")])
def test_the_tokens_of_a_needle_hold_it_and_no_more(name: str, drawn: Any, real: Tokens) -> None:
    for sample in (*drawn(name, 1024), *drawn(name, 4096)):
        evidence, rest = _split(sample, real)
        for text in evidence:
            assert re.fullmatch(
                r"Among the secret (numbers|uuids) kept for [\w-]+( \w+)?[\w-]* is [0-9a-f-]+\.", text.strip()
            )
        whole = real.decode(sample.request.tokens)
        assert all(whole.count(answer) == 1 for answer in sample.detail["answers"])
        asked = [key for key in re.findall(r"kept for (\S.*?) is ", " ".join(evidence)) if key in rest]
        assert len(asked) == (4 if name == "niah_multiquery" else 1 if name != "niah_multivalue" else 4)


def test_a_chain_is_followed_from_statement_to_statement(drawn: Any, real: Tokens) -> None:
    for sample in drawn("vt", 1024):
        names = sample.detail["answers"]
        evidence = [text.strip() for text in _split(sample, real)[0]]
        value = evidence[0].removeprefix(f"VAR {names[0]} = ")
        assert re.fullmatch(r"\d{5}", value)
        assert evidence[1:] == [f"VAR {after} = VAR {before}" for before, after in pairwise(names)]
        assert real.decode(sample.request.tokens).endswith(f"5 variables end up with the value {value}, namely")


@pytest.mark.parametrize(("length", "common", "others"), [(1024, 6, 1), (4096, 30, 3)])
def test_common_words_are_the_most_common(length: int, common: int, others: int, drawn: Any, real: Tokens) -> None:
    for sample in drawn("cwe", length):
        (text,) = _split(sample, real)[0]
        entries = re.findall(r"(\d+)\. (.+?)(?= \d+\. |$)", text.strip())
        assert [int(place) for place, _ in entries] == list(range(1, len(entries) + 1))
        counts = Counter(word for _, word in entries)
        assert {word for word, count in counts.items() if count == common} == set(sample.detail["answers"])
        assert set(counts.values()) == {common, others}


@pytest.mark.parametrize("length", LENGTHS)
def test_coded_words_fall_off_with_the_square_of_their_rank(length: int, drawn: Any, real: Tokens) -> None:
    for sample in drawn("fwe", length):
        (text,) = _split(sample, real)[0]
        (dots, first), *ranked = Counter(text.split()).most_common()
        assert dots == "..."
        assert [word for word, _ in ranked[:3]] == list(sample.detail["answers"])
        assert all(len(word) == 6 for word, _ in ranked)
        for rank, (_, count) in enumerate(ranked[:3], start=2):
            assert abs(count - first / rank**2) <= 1


@pytest.mark.parametrize("name", SLACK)
def test_the_reference_is_worth_1_and_nothing_0(name: str, drawn: Any, data: Mapping[str, Path]) -> None:
    task = _task(name)
    for sample in drawn(name, 1024):
        answers = sample.detail["answers"]
        assert task.score(sample, Answer(text=" ".join(answers))) == {"score": 1.0}
        assert task.score(sample, Answer(text="")) == {"score": 0.0}
        share = 1.0 if name in QUESTIONS else 1 / len(answers)
        assert task.score(sample, Answer(text=f"It is {answers[-1].upper()}!")) == {"score": share}


@pytest.mark.parametrize("name", SLACK)
def test_the_same_id_is_the_same_sample_and_another_seed_another(
    name: str, drawn: Any, data: Mapping[str, Path], real: Tokens
) -> None:
    samples = drawn(name, 1024)
    task = _task(name)
    assert [task.sample(f"{number:04}", data, 0, real.encode) for number in (19, 7)] == [samples[19], samples[7]]
    asked = [sample.request for sample in samples]
    others = [task.sample(id_, data, 1, real.encode).request for id_ in task.ids(data, 1)]
    assert len({request.tokens for request in (*asked, *others)}) == 40
    assert others != asked
    longer = task.model_copy(update={"samples": 21})
    assert longer.sample("0007", data, 0, real.encode) == samples[7]


@pytest.mark.parametrize("name", SLACK)
def test_what_is_asked_does_not_depend_on_the_tokenizer(
    name: str, drawn: Any, data: Mapping[str, Path], real: Tokens
) -> None:
    """Bytes need other probes and another amount of filler; needles, question and answer stay."""
    length = 4000 if name not in QUESTIONS else 3000
    for number in (0, 1, 2):
        small = drawn(name, 1024)[number]
        large = _task(name, length=length).sample(f"{number:04}", data, 0, lambda text: tuple(text.encode()))
        assert large.length != small.length
        assert small.detail["answers"] == large.detail["answers"]
        if name.startswith("niah") or name == "vt":
            first, last = _split(small, real), _split(large, Tokens(lambda _: (), lambda ids: bytes(ids).decode()))
            assert [text.strip() for text in first[0]] == last[0]
            assert first[1].splitlines()[-2:] == last[1].splitlines()[-2:]


@pytest.mark.parametrize("name", SLACK)
def test_filled_is_exact_for_every_tail(name: str, drawn: Any, data: Mapping[str, Path], real: Tokens) -> None:
    for number in (0, 5):
        sample = drawn(name, 1024)[number]
        end = max(last for _, last in sample.detail["needles"])
        assert sample.detail["needles_end"] == end
        for tail, filled in ((sample.length - end, True), (sample.length - end + 1, False)):
            other = _task(name, tail=tail).sample(sample.id, data, 0, real.encode)
            assert other.request == sample.request
            assert other.detail["filled"] is filled


@pytest.mark.parametrize("name", ["niah_single_1", "niah_multiquery", "qa_2"])
def test_filled_only_draws_again_only_what_was_not_filled(
    name: str, drawn: Any, data: Mapping[str, Path], real: Tokens
) -> None:
    task = _task(name, filled_only=True, tail=300)
    assert not all(sample.detail["filled"] for sample in drawn(name, 1024))
    for before in drawn(name, 1024)[:8]:
        sample = task.sample(before.id, data, 0, real.encode)
        assert sample.detail["filled"]
        assert sample.detail["needles_end"] <= sample.length - 300
        if before.detail["needles_end"] <= before.length - 300:
            assert sample.request == before.request


def test_evidence_that_cannot_be_filled_is_one_line(data: Mapping[str, Path], real: Tokens) -> None:
    with pytest.raises(UsageProblem, match="the evidence never lay before the last 512 tokens") as problem:
        _task("niah_single_1", filled_only=True, length=600).sample("0000", data, 0, real.encode)
    assert "\n" not in problem.value.line()


def test_needles_come_to_lie_in_every_part_of_the_text(drawn: Any) -> None:
    ends = [sample.detail["needles_end"] / sample.length for sample in drawn("niah_single_1", 4096)]
    assert min(ends) < 0.25
    assert max(ends) > 0.75


def test_chat_and_prefix_stand_around_the_prompt_and_count(data: Mapping[str, Path], real: Tokens) -> None:
    chat = "<user>{prompt}</user>\n<model>"
    plain = _task("niah_multiquery", chat=chat, answer_prefix=False).sample("0000", data, 0, real.encode)
    begun = _task("niah_multiquery", chat=chat).sample("0000", data, 0, real.encode)
    without, text = real.decode(plain.request.tokens), real.decode(begun.request.tokens)
    assert without.startswith("<user>Secret numbers are written")
    assert without.endswith(" Name every one.</user>\n<model>")
    prefix = text.partition("<model>")[2]
    assert re.fullmatch(r"The secret numbers kept for \S.*, \S.*, \S.*, and \S.* are", prefix)
    assert plain.length + 128 <= 1024
    assert begun.length + 128 <= 1024


SCRIPT = """
import hashlib, sys
from pathlib import Path
from ledger.errors import UsageProblem
from runs import tasks
data = {name: Path(where) for name, where in zip(("essays", "squad", "hotpot"), sys.argv[1:])}
digest = hashlib.sha256()
for name in sorted(name for name, where in tasks.REGISTRY.items() if ".ruler." in where):
    kind = tasks.task_class(name)
    inputs = {"essays": "essays"} if "essays" in kind.model_fields else {}
    inputs |= {"questions": {"qa_1": "squad", "qa_2": "hotpot"}[name]} if "questions" in kind.model_fields else {}
    made = kind.model_validate({"length": 4000, "samples": 2, **inputs})
    for id in made.ids(data, 0):
        digest.update(repr(made.sample(id, data, 0, lambda text: tuple(text.encode()))).encode())
print(digest.hexdigest())
"""


def test_samples_are_the_same_in_every_process(data: Mapping[str, Path]) -> None:
    def digest(seed: str) -> str:
        command = [sys.executable, "-c", SCRIPT, *map(str, data.values())]
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    first, second = digest("1"), digest("2")
    assert first == second
    assert len(first.strip()) == hashlib.sha256().digest_size * 2
