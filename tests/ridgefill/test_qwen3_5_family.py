"""The qwen3_5 family: rotary, configs, kernels, and what is refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, Qwen3_5Config, Qwen3_5TextConfig

import ridgefill
from ridgefill.context import filling
from ridgefill.errors import FillUsageError
from ridgefill.families import family_of
from ridgefill.plan import Identity, NoFill
from ridgefill.schedule import prefill, run

SPLIT, TAIL = 4, 13  # attention layers are 3 and 7 of 8


@pytest.fixture
def model(tiny: Any) -> Any:
    return tiny("qwen3_5")


def ids_of(length: int) -> Tensor:
    return torch.randint(2, 97, (1, length), generator=torch.Generator().manual_seed(length))


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn"])
def test_every_rotary_that_is_let_in(kind: str, tiny: Any, oracle: Any, next_logits: Any) -> None:
    scaled = {"rope_type": kind, "factor": 4.0, "rope_theta": 10_000.0, "partial_rotary_factor": 0.25}
    options = {"rope_parameters": scaled, "max_position_embeddings": 32}
    own, model = (tiny("qwen3_5", **options) for _ in range(2))  # the dynamic kind remembers what it has seen
    ids = ids_of(65)
    true = oracle(own, ids, SPLIT)
    cache = prefill(model, true, ids, tail=TAIL, chunk=7)
    assert (next_logits(model, cache, ids) - true.logits[:, -1]).abs().max() <= 1e-5


def test_rotary_turns_a_quarter_of_each_head(model: Any) -> None:
    family, heads = family_of(model), torch.randn(1, 5, 2, 16)
    angles = family.angles(model.model, heads, torch.arange(5)[None] + 7)
    turned = family.rotate(heads, angles)
    assert angles[0].shape == (1, 5, 4)
    assert torch.equal(turned[..., 4:], heads[..., 4:])
    assert ((turned - heads)[..., :4].abs() > 1e-3).any(-1).all()


def test_configs_of_the_whole_model_and_of_its_text_are_one_family(model: Any) -> None:
    """A folder's config is that of text and images; the loaded text model has its own."""
    whole = Qwen3_5Config(text_config=model.config.to_dict())
    family = family_of(whole)
    assert family is family_of(model.config)
    assert family.layer_kinds(whole) == family.layer_kinds(model.config) == (["recurrent"] * 3 + ["full_attn"]) * 2
    assert family.stream_width(whole) == family.block_in_width(whole) == 32
    loaded = AutoModelForCausalLM.from_config(whole)
    assert isinstance(loaded.config, Qwen3_5TextConfig)
    ids = ids_of(65)
    assert run(loaded, Identity(SPLIT), ids, tail=TAIL).plan.layers == 8


def test_layers_and_rotary_of_unknown_kinds_are_refused_by_name(model: Any, tiny: Any) -> None:
    config = model.config
    config.rope_parameters = config.rope_parameters | {"rope_type": "spiral"}
    with pytest.raises(FillUsageError, match=r"rotary of an unknown kind.*spiral"):
        prefill(model, Identity(SPLIT), ids_of(65), tail=TAIL)
    model = tiny("qwen3_5")
    model.config.layer_types = ["linear_attention"] * 7 + ["sliding_attention"]
    with pytest.raises(FillUsageError, match=r"unknown kind.*sliding_attention"):
        prefill(model, Identity(SPLIT), ids_of(65), tail=TAIL)


@pytest.mark.parametrize("guess", ["assistant_model", "prompt_lookup_num_tokens"])
def test_a_cache_that_must_be_rolled_back_is_refused(guess: str, model: Any) -> None:
    """Before the prefill; transformers itself notices after it."""
    worked: list[int] = []
    model.model.layers[0].mlp.register_forward_hook(lambda *_: worked.append(1))
    option = {guess: model if guess == "assistant_model" else 3}
    with filling(model, Identity(SPLIT), tail=TAIL), pytest.raises(FillUsageError, match=f"{guess} rolls the cache"):
        model.generate(ids_of(65), max_new_tokens=5, **option)
    assert not worked
    with pytest.raises(RuntimeError, match="crop"):  # and so it must be: the stock cache cannot either
        prefill(model, Identity(SPLIT), ids_of(65), tail=TAIL).crop(-1)


def test_no_fill_below_the_first_attention_layer_is_refused(model: Any) -> None:
    """The cache's length is that of its first attention layer, which would be short."""
    with pytest.raises(FillUsageError, match="a split above 3"):
        prefill(model, NoFill(3), ids_of(65), tail=TAIL)


def test_the_model_for_text_and_images_is_refused(model: Any) -> None:
    text = model.config.to_dict()
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32}
    whole = AutoModelForImageTextToText.from_config(Qwen3_5Config(text_config=text, vision_config=vision))
    with pytest.raises(FillUsageError, match=r"text and images.*AutoModelForCausalLM"):
        prefill(whole, Identity(SPLIT), ids_of(65), tail=TAIL)


KERNEL = '''
import torch

calls = 0


def chunk_gated_delta_rule(
    q, k, v, g, beta, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False
):
    """Row by row, in fp32: what the fast kernel computes in chunks."""
    global calls
    calls += 1
    groups = v.shape[2] // k.shape[2]
    q, k = (torch.nn.functional.normalize(x.float(), dim=-1).repeat_interleave(groups, 2) for x in (q, k))
    state = torch.zeros(*v.shape[:1], v.shape[2], k.shape[-1], v.shape[-1]) if initial_state is None else initial_state
    read = torch.empty(*v.shape)
    for row in range(v.shape[1]):
        state = state * g[:, row, :, None, None].exp()
        key, found = k[:, row, :, :, None], (state * k[:, row, :, :, None]).sum(-2)
        state = state + key * (beta[:, row, :, None] * (v[:, row] - found))[..., None, :]
        read[:, row] = (state * q[:, row, :, :, None]).sum(-2) / k.shape[-1] ** 0.5
    return read.to(v), state
'''


USE = """
import fla, torch
from transformers import AutoModelForCausalLM
from ridgefill.plan import Identity
from ridgefill.schedule import run

model = AutoModelForCausalLM.from_pretrained("model").eval()
ids = torch.load("ids.pt")
cache = run(model, Identity(4), ids, tail=13, rows=[3]).cache
print(fla.calls)
torch.save([layer.recurrent_states[0] for layer in cache.layers if hasattr(layer, "recurrent_states")], "states.pt")
"""


@pytest.mark.parametrize("family", ["qwen3_5", "qwen4_exp"])
def test_an_installed_kernel_is_used_and_gives_the_same_states(family: str, tiny: Any, tmp_path: Path) -> None:
    """Where flash-linear-attention is installed transformers calls it, and so do we; here a package of that name that
    goes row by row, which is a second implementation of the scan besides."""
    (tmp_path / "fla.py").write_text(KERNEL)
    ids, model = ids_of(65), tiny(family)
    torch.save(ids, tmp_path / "ids.pt")
    model.save_pretrained(tmp_path / "model")
    paths = os.pathsep.join((str(tmp_path), str(Path(ridgefill.__file__).parents[1])))
    done = subprocess.run(
        [sys.executable, "-c", USE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == 6  # once for each recurrent layer
    own = run(model, Identity(SPLIT), ids, tail=TAIL, rows=[3]).cache
    ours = [layer.recurrent_states[0] for layer in own.layers if hasattr(layer, "recurrent_states")]
    for mine, theirs in zip(torch.load(tmp_path / "states.pt"), ours, strict=True):
        assert (mine - theirs).norm() <= 1e-5 * theirs.norm()
