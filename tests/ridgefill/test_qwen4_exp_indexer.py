"""The choice of blocks, against the model's own indexer, which takes row by row."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import Qwen4ExpTextConfig
from transformers.models.qwen4_exp.modeling_qwen4_exp import Qwen4ExpTextQSAIndexer, Qwen4ExpTextRotaryEmbedding

from ridgefill import attention
from ridgefill.families import FAMILIES, family_of
from ridgefill.indexer import Choice, project
from ridgefill.plan import Identity
from ridgefill.schedule import run
from ridgefill.selectors.attention import Attention

SPLIT, TAIL = 4, 13


def indexer_of(heads: int, ratio: int, top: int, seed: int) -> tuple[Any, Any]:
    """An indexer of the model's own code, with norms that are not all alike, and its rotary."""
    config = Qwen4ExpTextConfig(
        hidden_size=16,
        num_hidden_layers=4,
        num_attention_heads=2,
        head_dim=16,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
        indexer_n_heads=heads,
        indexer_kv_heads=1,
        indexer_head_dim=12,
        indexer_budget=top * ratio,
        indexer_compress_ratio=ratio,
    )
    torch.manual_seed(seed)
    indexer = Qwen4ExpTextQSAIndexer(config, 3)
    for name, weight in indexer.named_parameters():
        weight.data.normal_(0, 0.3 if "layernorm" in name else 0.5)
    return indexer.requires_grad_(False), Qwen4ExpTextRotaryEmbedding(config)


@settings(max_examples=60)
@given(
    length=st.integers(1, 90),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6)),
    pads=st.integers(0, 20),
    bf16=st.booleans(),
    seed=st.integers(0, 99),
)
def test_it_is_the_model_s_choice(length: int, shape: tuple[int, int, int], pads: int, bf16: bool, seed: int) -> None:
    """Every row of a batch of two, one padded on the left, in one piece and in pieces and for scattered rows alone.

    Scores of zero, of blocks that no head likes, are common here and equal each other.
    """
    indexer, rotary = indexer_of(*shape, seed)
    family, pads = FAMILIES["qwen4_exp"], min(pads, length - 1)
    x = torch.randn(2, length, 16)
    if bf16:
        indexer, x = indexer.bfloat16(), x.bfloat16()
    padded = torch.arange(length)[None] < torch.tensor([[0], [pads]])
    positions = torch.arange(length) - torch.tensor([[0], [pads]])
    angles = rotary(x, positions.clamp(min=0)[None].expand(3, -1, -1))
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    visible = causal & ~padded[:, None]
    own = (indexer(x, angles, visible[:, None], None)[:, 0] & visible)[..., :length]
    queries, keys = project(indexer, x)
    queries = family.rotate(queries, angles)
    choice = Choice(indexer, queries, keys, angles, family.rotate, padded if pads else None)
    alone = torch.eye(length, dtype=torch.bool) & padded[..., None]  # a padding row reads itself
    rows = torch.arange(length)
    assert torch.equal(choice(slice(None), rows), own | alone)
    for part in (slice(0, length // 2), slice(length // 2, length)):
        if part.stop > part.start:
            assert torch.equal(choice(part, rows[part]), (own | alone)[:, part, : part.stop])
    scattered = rows[:: 1 + seed % 7]
    some = Choice(indexer, queries[:, scattered], keys, angles, family.rotate, padded)
    assert torch.equal(some(slice(None), scattered), (own | alone)[:, scattered, : int(scattered[-1]) + 1])


def test_a_row_need_not_read_itself(tiny: Any) -> None:
    """Where its block is complete and not among the best: so the choice is no mask around the row."""
    indexer, rotary = indexer_of(2, 4, 2, seed=1)
    x = torch.randn(1, 80, 16, generator=torch.Generator().manual_seed(0))
    angles = rotary(x, torch.arange(80)[None, None].expand(3, -1, -1))
    family = FAMILIES["qwen4_exp"]
    queries, keys = project(indexer, x)
    choice = Choice(indexer, family.rotate(queries, angles), keys, angles, family.rotate, None)
    read = choice(slice(None), torch.arange(80))[0]
    assert not read.diagonal()[3::4].all()
    assert read.diagonal()[4:][torch.arange(76) % 4 != 3].all()
    assert read.sum(1).max() <= 2 * 4 + 3


def test_a_choice_is_made_in_the_test_model(tiny: Any) -> None:
    """With a budget that holds the whole prompt the answer is another one."""
    ids = torch.randint(2, 97, (1, 90), generator=torch.Generator().manual_seed(0))
    few, all_of_it = tiny("qwen4_exp"), tiny("qwen4_exp", indexer_budget=400)
    assert (few(ids).logits[:, -1] - all_of_it(ids).logits[:, -1]).abs().max() > 1e-2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_reads_what_is_chosen_and_no_more(dtype: torch.dtype) -> None:
    """Both kernels, against a softmax over whole matrices."""
    generator = torch.Generator().manual_seed(2)
    queries, keys, values = (
        torch.randn(2, *shape, generator=generator) for shape in ((30, 4, 8), (2, 60, 8), (2, 60, 8))
    )
    at = torch.randperm(60, generator=generator)[:30].sort().values
    read = (torch.rand(2, 30, 60, generator=generator) < 0.3) & (torch.arange(60) <= at[:, None])
    read[:, torch.arange(30), at] = True

    def chosen(rows: slice, here: Tensor) -> Tensor:
        return read[:, rows, : int(here[-1]) + 1]

    given = [tensor.to(dtype) for tensor in (queries, keys, values)]
    found = attention.attend(*given, at, None, chosen)
    wide = [tensor.repeat_interleave(2, 1).float() for tensor in given[1:]]
    scores = (given[0].float().transpose(1, 2) @ wide[0].transpose(2, 3)) * 8**-0.5
    weights = scores.masked_fill(~read[:, None], -torch.inf).softmax(-1)
    bound = 1e-5 if dtype == torch.float32 else 3e-2
    assert (found.float() - (weights @ wide[1]).transpose(1, 2)).abs().max() <= bound
    got = attention.received(given[0], given[1], at, None, chosen)
    assert (got - weights.sum((1, 2))).abs().max() <= bound


@pytest.mark.parametrize("chunk", [None, 17])
def test_the_attention_selector_counts_what_is_read(chunk: int | None, tiny: Any) -> None:
    """Ranked by attention below the split, over the chosen columns: against the stock layers' own weights."""
    model, ids = tiny("qwen4_exp"), torch.randint(2, 97, (1, 90), generator=torch.Generator().manual_seed(0))
    model.set_attn_implementation("eager")
    weights = model(ids, output_attentions=True).attentions[0][0]  # of layer 3, the first that attends
    asking = weights[:, 90 - 64 : -1, : 90 - TAIL].sum((0, 1))
    expected = asking.topk(9).indices.sort().values
    done = run(model, Identity(SPLIT), ids, tail=TAIL, chunk=chunk, rows=Attention(layers=(3,)))
    assert done.rows[:9].tolist() == expected.tolist()


def test_filled_rows_pass_by_the_experts(tiny: Any) -> None:
    """Late experts, routers and mixers see the exact rows alone; the layers below see every row."""
    model, ids = tiny("qwen4_exp"), torch.randint(2, 97, (1, 90), generator=torch.Generator().manual_seed(0))
    rows = dict.fromkeys(range(8), 0)
    for number, layer in enumerate(model.model.layers):

        def count(_: Any, args: tuple[Tensor, ...], number: int = number) -> None:
            rows[number] += args[0].flatten(0, -2).shape[0]

        layer.mlp.experts.register_forward_pre_hook(count)
    run(model, Identity(SPLIT), ids, tail=TAIL, rows=[3, 20])
    assert rows == {number: 89 if number < SPLIT else TAIL - 1 + 2 for number in range(8)}
    assert family_of(model).name == "qwen4_exp"
