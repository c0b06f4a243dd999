"""Lower layers that arms share: bit by bit what each arm gets alone, and run once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ridgefill import sweep
from ridgefill.plan import Identity, NoFill
from ridgefill.schedule import extend, run
from ridgefill.selectors import Attention
from ridgefill.shared import Shared

ARMS: list[tuple[Any, dict[str, Any]]] = [
    (Identity(3), {}),
    (NoFill(3), {}),
    (Identity(5), {"rows": Attention(layers=(1, 4))}),
    (Identity(2), {"rows": Attention(layers=(1,)), "tail": 9}),
    (None, {}),
    (Identity(3), {"rows": [4, 7]}),
]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several of them in a prompt of 40 tokens."""
    for module in ("ridgefill.schedule", "ridgefill.sweep", "ridgefill.shared"):
        monkeypatch.setattr(f"{module}.CHUNK", 16)


def test_every_arm_is_bit_by_bit_what_it_is_alone(model: Any, prompt: Tensor) -> None:
    shared, more = Shared(), torch.arange(5)[None] + 7
    for ids in (prompt, prompt.flip(1), prompt):
        for fill, options in ARMS:
            alone = run(model, fill, ids, **{"tail": 6, "min_prompt": 6, **options})
            done = run(model, fill, ids, **{"tail": 6, "min_prompt": 6, **options}, shared=shared)
            assert torch.equal(done.rows, alone.rows)
            for mine, its in zip(done.cache.layers, alone.cache.layers, strict=True):
                assert torch.equal(mine.keys, its.keys)
                assert torch.equal(mine.values, its.values)
            # What follows is appended to this arm's cache alone.
            assert torch.equal(extend(model, done.cache, more), extend(model, alone.cache, more))


def test_a_layer_is_run_once_for_all_arms_of_a_prompt(
    model: Any, prompt: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    own = sweep.Sweep.every
    monkeypatch.setattr(
        sweep.Sweep, "every", lambda self, layer, part, x: ran.append(layer) or own(self, layer, part, x)
    )
    shared = Shared()
    for split in (3, 3, 5, 2):
        run(model, Identity(split), prompt, tail=6, shared=shared)
    assert sorted(ran) == sorted([*range(5)] * 3)  # three chunks each
    run(model, Identity(2), prompt.flip(1), tail=6, shared=shared)
    assert len(ran) == 15 + 2 * 3


def test_a_recurrent_state_below_the_split_is_never_shared(tiny: Any, prompt: Tensor) -> None:
    model, shared = tiny("qwen3_5"), Shared()
    for ids in (prompt, prompt):
        done = run(model, Identity(4), ids, tail=6, shared=shared)
        alone = run(model, Identity(4), ids, tail=6)
        assert torch.equal(extend(model, done.cache, ids[:, -1:]), extend(model, alone.cache, ids[:, -1:]))


def test_padded_prompts_share_nothing(model: Any, prompt: Tensor) -> None:
    mask = torch.ones_like(prompt)
    mask[:, :3] = 0
    options: dict[str, Any] = {"tail": 6, "attention_mask": mask}
    alone = run(model, Identity(3), prompt, **options)
    shared = run(model, Identity(3), prompt, **options, shared=Shared())
    for mine, its in zip(shared.cache.layers, alone.cache.layers, strict=True):
        assert torch.equal(mine.keys, its.keys)
