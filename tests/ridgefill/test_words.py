"""Selectors that read words: special tokens, protected classes, the lexical net, and the probe's budget."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from ridgefill.errors import FillMismatchError
from ridgefill.pieces import Pieces
from ridgefill.rowsel import RowTable, is_protected
from ridgefill.selectors.base import View
from ridgefill.selectors.digits import Digits
from ridgefill.selectors.lexical_net import LexicalNet
from ridgefill.selectors.probe import Probe
from ridgefill.selectors.protected import Protected
from ridgefill.selectors.special import Special
from ridgefill.texts import builtin

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE of 3,000 tokens, trained on Python's documentation, with a chat template."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=3000, special_tokens=marks, initial_alphabet=alphabet, show_progress=False)
    raw.train_from_iterator(list(builtin().held_out.values()), trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<|endoftext|>", chat_template=TEMPLATE)  # noqa: S106
    made.add_special_tokens({"additional_special_tokens": marks[1:]})
    made.add_tokens([AddedToken("<think>"), AddedToken("</think>")])
    return made


@cache
def net() -> LexicalNet:
    return LexicalNet.of(tokenizer())


FILLER = "The report goes on about other things that nobody will ask for. It is as it was, and so it will be. " * 30


def view_of(context: str, question: str, *, chat: bool = True) -> View:
    """A prompt whose prefix is `context`, the question alone being the tail."""
    head = "<|im_start|>user\n" + context if chat else context
    foot = question + ("<|im_end|>\n<|im_start|>assistant\n" if chat else "")
    first, second = (tokenizer()(text, add_special_tokens=False)["input_ids"] for text in (head, foot))
    return View(torch.tensor(first + second), len(first), torch.empty(0))


def kept(view: View, net: LexicalNet) -> str:
    """The text of the chosen rows."""
    return "".join(net.pieces.split([int(view.ids[row]) for row in net.select(view)]))


# context sentence that the question names -> the question
NAMED = [
    ("The access code for the Zephyr vault is 88231.", "What is the access code for the Zephyr vault?"),
    ("One of the magic numbers for quiet-lantern is 4471.", "Which of the magic numbers for quiet-lantern is right?"),
    ("In 1907 the mayor of Ostrava was Karel Novak.", "Tell me who the mayor of Ostrava was."),
    ("The function parse_header_line returns None on error.", "Say what the function parse_header_line returns?"),
    ("He called the variable retry_budget_ms in his code.", "Where is the variable retry_budget_ms in his code?"),
    ("THE SHIP NAMED AURORA LEFT PORT AT DAWN.", "When had the ship named aurora left port?"),
    ("Die Straße nach Übersee war lange gesperrt.", "Warum war die STRASSE NACH ÜBERSEE WAR so leer?"),
    ("La clé du coffre numéro douze est perdue.", "Où est la clé du coffre numéro douze?"),
    ("La cle\u0301 du coffre nume\u0301ro treize est perdue.", "Où est la clé du coffre numéro treize?"),
    ("Код от сейфа Ивана лежит под ковром.", "Где лежит код от сейфа Ивана?"),
    ("\uff34\uff48\uff45 code of vault Tundra is green.", "Give me the code of vault Tundra now."),
    ("The \ufb01rst \ufb02oor of Building Kestrel is empty.", "Is the first floor of Building Kestrel free?"),
    ("The patient's file in room 12-B was closed.", "Who closed the patient's file in room 12-B last?"),
    ("It's the O'Brien-Smith account that was frozen.", "Why was it's the O'Brien-Smith account that it?"),
    ("Set the MAX_RETRIES flag of worker seven to 3.", "What is the MAX_RETRIES flag of worker seven?"),
    ("import numpy as np_local  # used by the Falcon job", "What is used by the Falcon job?"),
    ("def tidy_rows(self, rows, limit): return rows", "What does def tidy_rows(self, rows, limit) return?"),
    ("The uuid 7f3a-99b1 belongs to tenant Marigold.", "Whose is the uuid 7f3a-99b1 belongs to tenant?"),
    ("Flight QX417 to Lisbon was moved to gate 22.", "Why was flight QX417 to Lisbon was late?"),
    ("Our supplier for cobalt rods is Hartmann AG.", "Who is our supplier for cobalt rods?"),
]


@pytest.mark.parametrize(("sentence", "question"), NAMED)
def test_the_named_identifier_s_sentence_is_kept(sentence: str, question: str) -> None:
    """That sentence whole, wherever it stands, and nothing of the rest; ended by a full stop or by a line."""
    assert len(NAMED) == 20
    stopped = [f"{FILLER}{sentence} {FILLER}", f"{sentence} {FILLER * 2}"] if sentence.endswith(".") else []
    for context in [*stopped, f"{FILLER}\n{sentence}\n{FILLER}"]:
        assert kept(view_of(context, question), net()).strip() == sentence


@pytest.mark.parametrize(
    "question",
    [
        "It is as it was?",  # shared, and told again and again
        "The report goes on about other things that nobody will ask for, is that so?",
        "The access code of the vault?",  # never four words in a row
        "What is it?",
        "",
    ],
)
def test_runs_of_common_words_and_short_ones_keep_nothing(question: str) -> None:
    context = f"{FILLER}The access code for the Zephyr vault is 88231. {FILLER}"
    assert kept(view_of(context, question), net()) == ""


def test_a_word_that_occurs_twice_is_rare_and_three_times_is_not() -> None:
    told, other = "The key of room Basalt lies here.", "The key of room Granite lies here."
    for times, words in ((2, told), (3, "")):
        view = view_of(
            FILLER + " ".join([other] * 4 + [told] * times) + " " + FILLER, "Who has the key of room Basalt?"
        )
        assert kept(view, net()).replace(words, "").strip() == ""
        assert (told in kept(view, net())) is bool(words)


def test_no_sentence_takes_more_than_80_rows_nor_all_more_than_a_twentieth() -> None:
    long = "The charter of Port Juniper says " + "that each and every one of them shall " * 40 + "leave."
    view = view_of(f"{FILLER * 6}{long} {FILLER}", "What does the charter of Port Juniper say?")
    rows = net().select(view)
    assert len(rows) == 80
    assert rows.tolist() == list(range(int(rows[0]), int(rows[0]) + 80))
    short = view_of(f"{long} {FILLER}", "What does the charter of Port Juniper say?")
    assert len(net().select(short)) == short.prefix // 20 < 80


def test_the_longest_run_comes_first_where_not_all_fit() -> None:
    """Of two sentences only one fits: the one that shares more words, though it stands later."""
    first = "The owner of lot Amber is " + "a friend of " * 20 + "Ann."
    second = "The owner of lot Amber by the river Osk is " + "a friend of " * 20 + "Bea."
    question = "Who is the owner of lot Amber by the river Osk?"
    view = view_of(f"{first} {second} {FILLER}", question)
    assert view.prefix // 20 < 80
    assert kept(view, net()).strip().startswith("The owner of lot Amber by the river Osk")
    assert len(net().select(view)) == view.prefix // 20


def test_the_window_ends_with_the_user_s_turn() -> None:
    """What opens the answer is neither content nor, in a short window, in the way of the question."""
    pieces = Pieces.of(tokenizer())
    for options in ({}, {"enable_thinking": False}):
        ids = tokenizer().apply_chat_template(
            [{"role": "user", "content": "One two. Who is it"}],
            add_generation_prompt=True,
            return_dict=False,
            **options,
        )
        rows = pieces.content(ids, 3)
        assert "".join(pieces.split([ids[row] for row in rows])).strip() in "Who is it"
        assert not set(ids[rows[0] : rows[-1] + 1]) & pieces.special


def test_a_question_longer_than_the_tail_does_not_find_itself() -> None:
    view = view_of(FILLER, "Where is the code of vault Tundra kept?")
    early = View(view.ids, len(view.ids) - 3, view.attention)
    assert net().select(early).tolist() == []


@pytest.mark.parametrize("text", ["plain words", "naïve café — 東京 🙂 done", "x=\t[1,\n 2]", "  two  spaces"])
def test_pieces_put_together_are_the_text(text: str) -> None:
    """Characters that are cut into several tokens too."""
    ids = tokenizer()(text)["input_ids"]
    pieces = Pieces.of(tokenizer()).split(ids)
    assert len(pieces) == len(ids)
    assert "".join(pieces) == text
    assert Pieces.of(tokenizer()).split([1, *ids, 2])[0] == ""


def test_special_tokens_are_control_unknown_and_user_defined_ones() -> None:
    ids = tokenizer()("<|im_start|>user\nHi <think> there</think><|im_end|>")["input_ids"]
    rows = Special.of(tokenizer()).select(View(torch.tensor([*ids, 5]), len(ids), torch.empty(0)))
    assert tokenizer().convert_ids_to_tokens([ids[row] for row in rows]) == [
        "<|im_start|>",
        "<think>",
        "</think>",
        "<|im_end|>",
    ]


@pytest.mark.parametrize(
    ("text", "starts", "protected"),
    [
        (" Paris", True, True),  # capitalised word start
        ("Name", False, True),  # capitalised word piece
        ("ing", False, True),  # lower-case word piece
        (" the", True, False),  # lower-case word start
        ("x1", False, True),  # mixed
        (" don't", True, True),
        ("_id", False, True),
        ("123", False, False),
        (" 3.14", True, False),  # digits with punctuation
        ("...", False, False),
        (" ", True, False),
        ("\n", False, False),
        ("", False, False),
    ],
)
def test_classes_of_tokens(text: str, starts: bool, protected: bool) -> None:
    assert is_protected(text, starts) is protected


def test_protected_rows_are_the_rarest_quarter_of_the_eligible() -> None:
    """A second implementation, by counting; and the same again through the file."""
    texts = list(builtin().held_out.values())
    table = RowTable.of(tokenizer(), texts)
    counts = torch.zeros(len(tokenizer()))
    for text in texts:
        counts += torch.bincount(torch.tensor(tokenizer()(text)["input_ids"]), minlength=len(counts))
    ids = torch.tensor(tokenizer()(next(iter(builtin().evaluation.values())))["input_ids"][:900])
    view = View(ids, 800, torch.empty(0))
    rows = Protected(table.score).select(view).tolist()
    words = Pieces.of(tokenizer()).texts
    eligible = [row for row in range(800) if is_protected(words[ids[row]], words[ids[row]].startswith(" "))]
    assert len(rows) == -(-len(eligible) // 4)
    assert set(rows) <= set(eligible)
    left = [counts[ids[row]] for row in eligible if row not in rows]
    assert max(counts[ids[row]] for row in rows) <= min(left)
    again = RowTable.unpack(table.pack())
    for name in ("score", "score_none", "score_all"):
        assert torch.equal(getattr(table, name), getattr(again, name))
        assert getattr(table, name).dtype == torch.float32
    assert set(table.score_none[table.score_none.isfinite()].tolist()) == {0.0}
    assert torch.equal(table.score.isfinite(), table.score_none.isfinite())
    assert table.score_all.isfinite().sum() == len(tokenizer()) - len(Pieces.of(tokenizer()).special)


def test_a_foreign_table_without_its_names_is_refused() -> None:
    from ridgefill import tensorfile

    for tensors in ({"score": torch.zeros(5)}, dict.fromkeys(("score", "score_none", "score_all"), torch.zeros(2, 2))):
        with pytest.raises(FillMismatchError, match="not a table of rows"):
            RowTable.unpack(tensorfile.pack(tensors, {}))


def test_scores_that_are_not_finite_are_not_eligible() -> None:
    """A foreign table may mark them by NaN or either infinity."""
    score = torch.tensor([torch.nan, torch.inf, -torch.inf, 1.0, 2.0])
    chosen = Protected(score, share=1.0)
    assert chosen.select(View(torch.tensor([0, 1, 2, 3, 4, 0, 3]), 6, torch.empty(0))).tolist() == [3, 4]


def test_the_probe_s_budget_is_the_union_s_size() -> None:
    """Special tokens on top, lexical-net rows inside, the rest by rank."""
    sentence = "The access code for the Zephyr vault is 88231."
    context = f"{FILLER}{sentence} <think> {'In 1999 it rained. ' * 20}{FILLER}"
    view = view_of(context, "What is the access code for the Zephyr vault?")
    generator = torch.Generator().manual_seed(0)
    attention, probed = torch.rand(2, view.prefix, generator=generator)
    view = View(view.ids, view.prefix, attention, probed)
    table = RowTable.of(tokenizer(), builtin().held_out.values())
    chosen = Probe.of(tokenizer(), Protected(table.score))
    rows = set(chosen.select(view).tolist())
    asked = set(attention.topk(-(-view.prefix // 5)).indices.tolist())
    rarer = set(Protected(table.score, 0.5).select(view).tolist())
    digits = set(Digits.of(tokenizer()).select(view).tolist())
    special = set(Special.of(tokenizer()).select(view).tolist())
    named = set(net().select(view).tolist())
    assert chosen.count(view) == len(asked | rarer | digits)
    assert len(special) == 2
    assert len(named) > 5
    assert special | named <= rows
    assert len(rows) == chosen.count(view) + len(special)
    ranked = rows - special - named
    left = set(range(view.prefix)) - rows
    assert min(float(probed[row]) for row in ranked) >= max(float(probed[row]) for row in left)
    assert not digits <= rows  # they size the budget and earn no place by it
    half = Probe(chosen.protected, chosen.digits, chosen.net, chosen.special, factor=0.5)
    assert half.count(view) == round(0.5 * chosen.count(view))


def test_what_the_tokenizer_says_decides_and_not_how_it_spells(words: Any) -> None:
    """A tokenizer without spaces inside its tokens, chat template or added tokens."""
    pieces = Pieces.of(words)
    assert pieces.texts[5] == "w5"
    assert pieces.closing == ()
    assert pieces.content([0, 5, 6, 7], 2) == [2, 3]
