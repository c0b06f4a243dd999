"""The four-arm table against the model's own forward pass and a naive count."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ridgefill import evaluate
from ridgefill.errors import FillUsageError
from ridgefill.evaluate import table
from ridgefill.fitting import fit

LENGTH, FOLLOW, TAIL = 30, 12, 6


def text(seed: int, length: int = LENGTH + FOLLOW) -> str:
    rng = random.Random(seed)
    return " ".join(f"w{rng.randrange(1, 97)}" for _ in range(length))


def run(model: Any, words: Any, maps: Any, documents: dict[str, str], **options: Any) -> list[evaluate.Row]:
    return list(table(model, words, maps, documents, lengths=[LENGTH], tail=TAIL, follow=FOLLOW, **options))


def naive(exact: torch.Tensor, arm: torch.Tensor, targets: list[int]) -> tuple[float, float, float]:
    """Loss above exact, KL(exact || arm), agreement, a token at a time with math."""
    loss = divergence = agree = 0.0
    for p, q, target in zip(exact.tolist(), arm.tolist(), targets, strict=True):
        zp, zq = math.log(sum(map(math.exp, p))), math.log(sum(map(math.exp, q)))
        loss += (p[target] - zp) - (q[target] - zq)
        divergence += sum(math.exp(a - zp) * ((a - zp) - (b - zq)) for a, b in zip(p, q, strict=True))
        agree += p.index(max(p)) == q.index(max(q))
    return loss / len(targets), divergence / len(targets), agree / len(targets)


def identity_logits(model: Any, ids: torch.Tensor, split: int) -> torch.Tensor:
    """The identity arm by the model's own layers: late layers see h_S at prefix rows, by a patched input."""
    state: dict[str, torch.Tensor] = {}

    def take(_: Any, args: tuple[torch.Tensor, ...]) -> None:
        state["h"] = args[0].clone()

    def put(_: Any, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        hidden = args[0].clone()
        hidden[:, : LENGTH - TAIL] = state["h"][:, : LENGTH - TAIL]
        return (hidden, *args[1:])

    hooks = [model.model.layers[split].register_forward_pre_hook(take)]
    hooks += [layer.register_forward_pre_hook(put) for layer in model.model.layers[split + 1 :]]
    logits = model(ids).logits[0, LENGTH - 1 : -1]
    for hook in hooks:
        hook.remove()
    return logits


def test_the_identity_row_is_the_naive_count_with_documents_weighing_equally(model: Any, words: Any) -> None:
    maps = fit(model, words, [text(i) for i in range(10)], [3], penalty=0.1)
    documents = {"a": text(100), "b": text(101)}
    row = {row.arm: row for row in run(model, words, maps, documents)}["identity"]
    expected = []
    for document in documents.values():
        ids = torch.tensor([words(document)["input_ids"]])
        exact = model(ids).logits[0, LENGTH - 1 : -1]
        expected.append(naive(exact, identity_logits(model, ids, 3), ids[0, LENGTH:].tolist()))
    mean = [sum(column) / 2 for column in zip(*expected, strict=True)]
    assert [row.d_nll, row.kl, row.agreement] == pytest.approx(mean, abs=2e-4)
    assert row.kl > 0.01  # a random model's fill is no copy


def test_every_arm_split_and_length_has_its_row(model: Any, words: Any) -> None:
    maps = fit(model, words, [text(i) for i in range(10)], [2, 4], penalty=0.1)
    documents = {"a": text(100), "b": text(9, 60)}
    rows = list(table(model, words, maps, documents, lengths=[20, 45], tail=TAIL, follow=FOLLOW))
    arms = ["no fill", "identity", "map"]
    assert [(row.length, row.split, row.arm) for row in rows] == [
        (length, split, arm) for length in (20, 45) for split in (2, 4) for arm in arms
    ]
    assert {row.length: row.documents for row in rows} == {20: 2, 45: 1}
    assert all(row.kl >= -1e-6 and 0 <= row.agreement <= 1 for row in rows)


def test_true_inputs_in_place_of_maps_move_nothing(
    model: Any, words: Any, oracle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = torch.tensor([words(text(100))["input_ids"]])
    maps = fit(model, words, [text(i) for i in range(10)], [3], penalty=0.1)
    monkeypatch.setattr(evaluate, "_arms", lambda _: [("oracle", oracle(model, ids, 3))])
    (row,) = run(model, words, maps, {"a": text(100)})
    assert row.d_nll == pytest.approx(0, abs=1e-4)
    assert row.kl == pytest.approx(0, abs=1e-4)
    assert row.agreement == 1


def test_what_cannot_be_judged_is_refused_before_the_model_runs(tiny: Callable[..., Any], words: Any) -> None:
    model, used = tiny("llama"), [text(i) for i in range(10)]
    maps = fit(model, words, used, [3])
    model.model.layers[0].register_forward_hook(lambda *_: pytest.fail("the model ran"))
    for documents, message in (
        ({"x": used[2]}, "split 3 were fitted on x"),
        ({"x": used[9]}, "split 3 were fitted on x"),  # held out, and so chosen on
        ({"x": text(100, 41)}, r"long enough for prompts of 30; expected at least 42 tokens; found at most 41"),
        ({}, "nothing to evaluate"),
    ):
        with pytest.raises(FillUsageError, match=message):
            run(model, words, maps, documents)
    for tail in (0, LENGTH):
        with pytest.raises(FillUsageError, match="tail leaves nothing to fill"):
            list(table(model, words, maps, {"x": text(100)}, lengths=[LENGTH], tail=tail, follow=FOLLOW))
