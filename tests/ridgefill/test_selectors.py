"""One contract for every row selector in the registry, and what each is for."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgefill.errors import FillUsageError
from ridgefill.plan import Identity
from ridgefill.schedule import run
from ridgefill.selectors import SELECTORS, Selector, selector
from ridgefill.selectors.attention import Attention
from ridgefill.selectors.base import View
from ridgefill.selectors.digits import Digits
from ridgefill.selectors.question_blind import QuestionBlind
from ridgefill.selectors.random import Random
from ridgefill.selectors.share import Share


class DigitWords:
    """A tokenizer whose tokens 0, 10, 20, ... hold a digit and whose token 30 is special."""

    all_special_ids = (30,)
    chat_template = None

    def __len__(self) -> int:
        return 97

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [len(word) % 97 for word in text.split()]}

    def batch_decode(self, ids: list[list[int]], **_: Any) -> list[str]:
        return [f" a{token}" if token % 10 == 0 else f" word{'s' * (token % 3)}" for (token,) in ids]

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return self.batch_decode([[token] for token in ids])


TENTH = ("attention", "random", "question_blind", "longer_tail")


@cache
def made(name: str) -> Selector:
    return selector(name)(DigitWords())


@st.composite
def views(draw: st.DrawFn, asks: bool = True) -> View:
    length = draw(st.integers(2, 300))
    prefix = draw(st.integers(1, length - 1))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    ids = torch.randint(0, 97, (length,), generator=generator)
    # Few distinct values, so that ties are common.
    attention = torch.randint(0, 9, (prefix,), generator=generator).float() / 8
    return View(ids, prefix, attention, attention.flip(0))


@pytest.mark.parametrize("name", sorted(SELECTORS))
@settings(max_examples=60, deadline=None)
@given(view=views())
def test_contract(name: str, view: View) -> None:
    """Sorted, unique, in the prefix, as many as promised, the same again; it asks only with rows of the prompt."""
    chosen = made(name)
    rows = chosen.select(view)
    assert chosen.name == name
    assert rows.dtype == torch.int64
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert all(0 <= row < view.prefix for row in rows.tolist())
    assert len(rows) == chosen.budget(view)
    if name in TENTH:
        assert len(rows) == min(math.ceil(len(view.ids) / 10), view.prefix)
    assert torch.equal(chosen.select(view), rows)
    asks = chosen.asks(len(view.ids), view.prefix)
    assert all(0 <= row < len(view.ids) for row in asks)
    assert bool(chosen.layers) == bool(asks)
    assert chosen.probes >= 0


@pytest.mark.parametrize("name", sorted(SELECTORS))
@settings(max_examples=30, deadline=None)
@given(view=views(), share=st.floats(0.01, 0.99))
def test_at_a_count_that_is_given(name: str, view: View, share: float) -> None:
    """As many rows as asked, of whatever selector: its best ones, and random ones where it has no more."""
    own, at = made(name), Share(made(name), share)
    rows, count = at.select(view).tolist(), min(math.ceil(share * len(view.ids)), view.prefix)
    assert (at.name, at.layers, at.probes) == (own.name, own.layers, own.probes)
    assert rows == sorted(set(rows))
    assert len(rows) == at.budget(view) == count
    ranked = own.ranking(view).tolist()
    assert set(ranked[:count]) <= set(rows)
    left = [row for row in Random().ranking(view).tolist() if row not in ranked]
    assert set(rows) == {*ranked[:count], *left[: max(0, count - len(ranked))]}


@pytest.mark.parametrize("name", sorted(SELECTORS))
def test_two_of_a_kind_choose_alike(name: str) -> None:
    ids = torch.arange(300) * 7 % 97
    view = View(ids, 250, torch.rand(250), torch.rand(250))
    assert torch.equal(made(name).select(view), selector(name)(DigitWords()).select(view))


@settings(max_examples=60, deadline=None)
@given(view=views())
def test_attention_leaves_no_better_row_out(view: View) -> None:
    kept = set(Attention().select(view).tolist())
    left = [float(view.attention[row]) for row in range(view.prefix) if row not in kept]
    assert all(float(view.attention[row]) >= max(left, default=0) for row in kept)


@settings(max_examples=60, deadline=None)
@given(view=views())
def test_digits_are_exactly_the_digit_tokens(view: View) -> None:
    expected = [i for i in range(view.prefix) if view.ids[i] % 10 == 0 and view.ids[i] != 30]
    assert Digits.of(DigitWords()).select(view).tolist() == expected


def test_who_asks() -> None:
    assert Attention().asks(1000, 488) == range(936, 1000)
    assert QuestionBlind().asks(1000, 488) == range(424, 488)
    assert Attention().asks(20, 15) == range(20)
    assert QuestionBlind().asks(20, 15) == range(15)


def test_random_has_a_seed_of_its_own_for_each_prompt() -> None:
    ids = torch.arange(400)
    first, again = (Random().select(View(ids, 350, torch.empty(0))) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, Random().select(View(ids + 1, 350, torch.empty(0))))
    assert not torch.equal(first, Random(seed=1).select(View(ids, 350, torch.empty(0))))


def test_attention_reads_what_the_model_attends_to(model: Any, prompt: torch.Tensor) -> None:
    """The rows that a run chooses are the best by the model's own eager attention in layers 1 and 3."""
    done = run(model, Identity(4), prompt, tail=6, rows=Attention(layers=(1, 3, 5)), chunk=7)
    model.config._attn_implementation = "eager"
    weights = model(prompt[:, :-1], output_attentions=True).attentions
    mass = sum(weights[layer][0, :, :, :34].sum((0, 1)) for layer in (1, 3))
    assert isinstance(mass, torch.Tensor)
    assert done.rows.tolist() == sorted(mass.topk(4).indices.tolist()) + list(range(34, 39))


@pytest.mark.parametrize("name", sorted(SELECTORS))
def test_every_selector_runs(name: str, model: Any, prompt: torch.Tensor) -> None:
    """Whole, and with its lower layers chunk by chunk: the same rows."""
    done = run(model, Identity(4), prompt, tail=6, rows=made(name))
    if name in TENTH:
        assert len(done.rows) == 4 + 5
    if name == "digits":
        assert len(done.rows) == int((prompt[0, :34] % 10 == 0).sum() - (prompt[0, :34] == 30).sum()) + 5
    assert torch.equal(run(model, Identity(4), prompt, tail=6, rows=made(name), chunk=7).rows, done.rows)


@pytest.mark.parametrize("family", ["qwen3_5", "qwen4_exp"])
@pytest.mark.parametrize("name", sorted(SELECTORS))
def test_in_hybrids_chunked_and_one_shot_prefill_choose_alike(name: str, family: str, tiny: Any) -> None:
    ids = torch.randint(2, 97, (1, 130), generator=torch.Generator().manual_seed(5))
    ids[0, 17] = 30  # special
    model = tiny(family)
    done, *cut = (run(model, Identity(4), ids, tail=13, rows=made(name), chunk=chunk).rows for chunk in (None, 7, 64))
    assert all(torch.equal(rows, done) for rows in cut)
    assert len(done) > 12 or name == "lexical_net"


def test_layers_above_the_split_are_refused_before_any_work(model: Any, prompt: torch.Tensor) -> None:
    with pytest.raises(FillUsageError, match="not below the split"):
        run(model, Identity(3), prompt, tail=6, rows=Attention())


def test_an_unknown_selector_is_refused_with_the_list() -> None:
    with pytest.raises(
        FillUsageError,
        match="attention, random, question_blind, longer_tail, digits, special, lexical_net, protected, probe",
    ):
        selector("best")
