"""Caches handed to a real llama.cpp: what it reads back, what it predicts from them, and what is refused."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ridgefill
from ridgefill.errors import FillMismatchError, FillUsageError
from ridgefill.handoff import Handoff
from ridgefill.llamastate import Layout, learn
from ridgefill.plan import Identity, NoFill
from ridgefill.schedule import run

TYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 30}


def naive(layout: Layout, keys: list[Any], values: list[Any]) -> bytes:
    """The state written element by element, as llama.cpp's source writes it."""
    n = keys[0].shape[2]
    out = struct.pack("<IiII", layout.magic, 0, 1, n)
    for position in range(n):
        out += struct.pack("<iIi", position, 1, 0)
    out += struct.pack("<II", 0, len(keys))
    for rows, kinds, turned in ((keys, layout.keys, layout.paired), (values, layout.values, False)):
        for layer, kind in zip(rows, kinds, strict=True):
            out += struct.pack("<iQ", TYPES[kind], layout.heads * layout.width * kind.itemsize)
            for position in range(n):
                for head in range(layout.heads):
                    row = layer[0, head, position].to(kind)
                    half = layout.width // 2
                    order = [at // 2 + half * (at % 2) if turned else at for at in range(layout.width)]
                    for at in order:
                        out += row[at : at + 1].view(torch.uint8).numpy().tobytes()
    return out


@st.composite
def caches(draw: st.DrawFn) -> tuple[Layout, list[Any], list[Any]]:
    layers, heads, n = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(0, 5))
    width = 2 * draw(st.integers(1, 4))
    kinds = [tuple(draw(st.sampled_from(list(TYPES))) for _ in range(layers)) for _ in range(2)]
    layout = Layout(draw(st.integers(0, 2**32 - 1)), kinds[0], kinds[1], heads, width, draw(st.booleans()))
    torch.manual_seed(draw(st.integers(0, 99)))
    keys, values = ([torch.randn(1, heads, n, width) for _ in range(layers)] for _ in range(2))
    return layout, keys, values


@settings(max_examples=60, deadline=None)
@given(caches())
def test_a_state_is_written_as_the_naive_writer_does_and_read_back(case: tuple[Layout, list[Any], list[Any]]) -> None:
    layout, keys, values = case
    state = layout.write(keys, values)
    assert state.numpy().tobytes() == naive(layout, keys, values)
    for mine, whole, kinds in zip(layout.read(state), (keys, values), (layout.keys, layout.values), strict=True):
        for rows, true, kind in zip(mine, whole, kinds, strict=True):
            assert torch.equal(rows, true.to(kind))
    if keys[0].shape[2]:
        assert learn(state, layout.heads, layout.width, paired=layout.paired) == layout


def _state(n: int = 3) -> tuple[Layout, bytearray]:
    layout = Layout(7, (torch.float16,) * 2, (torch.float16,) * 2, 2, 4, True)
    rows = [torch.randn(1, 2, n, 4) for _ in range(2)]
    return layout, bytearray(layout.write(rows, rows).numpy().tobytes())


@pytest.mark.parametrize(
    ("at", "form", "value", "named"),
    [
        (8, "<I", 2, "the number of streams; expected 1; found 2"),
        (16, "<i", 5, "cell 0, its position and number of sequences"),
        (20, "<I", 2, "cell 0, its position and number of sequences"),
        (52, "<I", 1, "keeps its values transposed"),
        (56, "<I", 3, "not understood"),
        (60, "<i", 8, "of type q8_0, which cannot be handed over"),
        (60, "<i", 99, "of type 99, which cannot be handed over"),
        (64, "<Q", 32, "the keys of layer 0, bytes a row; expected 2 heads of 4: 16; found 32"),
    ],
)
def test_a_strange_state_is_refused_by_name(at: int, form: str, value: int, named: str) -> None:
    _, state = _state()
    struct.pack_into(form, state, at, value)
    with pytest.raises(FillMismatchError, match=named):
        learn(torch.frombuffer(state, dtype=torch.uint8), 2, 4, paired=True)


@pytest.mark.parametrize("size", [3, 20, 57, 200, -1, -40])
def test_a_state_of_another_length_is_refused(size: int) -> None:
    """Cut anywhere, or with more behind it, as recurrent layers and sliding windows write."""
    _, state = _state()
    for wrong in (state[:size], state + bytes(abs(size))):
        with pytest.raises(FillMismatchError, match="not understood"):
            learn(torch.frombuffer(wrong, dtype=torch.uint8), 2, 4, paired=True)


def _contract() -> Any:
    """The tiny models of the engines' contract test."""
    spec = spec_from_file_location("engines_contract", Path(__file__).parents[1] / "contracts" / "test_engines.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A tiny model in PyTorch, its file, and an opener of llama.cpp's contexts on that file."""
    llama_cpp = pytest.importorskip("llama_cpp", reason="pip install 'ridgefill[llamacpp]'")
    contract, folder = _contract(), tmp_path_factory.mktemp("handoff")
    contract.tiny_model(folder / "model")
    contract.tiny_gguf(folder / "model", folder / "model.gguf")
    model, tokenizer = ridgefill.load(f"path:{folder / 'model.gguf'}", torch.float32)
    opened = []

    def llama(cache: int = 0, **options: Any) -> Any:
        given = {"n_ctx": 512, "flash_attn": True, "n_threads": 1, "n_threads_batch": 1, **options}
        made = llama_cpp.Llama(str(folder / "model.gguf"), type_k=cache, type_v=cache, verbose=False, **given)
        opened.append(made)
        return made

    ids = tokenizer(contract.TEXT, return_tensors="pt").input_ids[:, :60]
    yield SimpleNamespace(folder=folder, model=model, tokenizer=tokenizer, ids=ids, llama=llama, contract=contract)
    for made in opened:
        made.close()


@pytest.mark.parametrize(("cache", "near"), [(0, 5e-3), (1, 0.02), (30, 0.1)], ids=["f32", "f16", "bf16"])
def test_llama_cpp_goes_on_from_the_cache_as_the_model_does(both: Any, cache: int, near: float) -> None:
    llama = both.llama(cache)
    handoff = Handoff(llama.ctx, both.model)
    for arm in (None, Identity(2)):
        done = run(both.model, arm, both.ids, tail=8, min_prompt=8)
        assert handoff.hand(done.cache) == 59
        mine = handoff._feed(both.ids[0, 59:])
        with torch.no_grad():
            true = both.model(both.ids[:, 59:], cache=done.cache).logits[0, 0]
        assert float((mine - true).abs().max()) < near * float(true.abs().max())


def test_filled_and_exact_caches_lead_elsewhere(both: Any) -> None:
    handoff = Handoff(both.llama().ctx, both.model)
    rows = []
    for arm in (None, Identity(2)):
        handoff.hand(run(both.model, arm, both.ids, tail=8, min_prompt=8).cache)
        rows.append(handoff._feed(both.ids[0, 59:]))
    assert float((rows[0] - rows[1]).abs().max()) > 0.1


def test_its_own_calls_go_on_from_there(both: Any) -> None:
    """`llama_cpp.Llama` continues with the model's own greedy tokens, and decodes only the prompt's last one anew."""
    llama = both.llama()
    handoff, prompt = Handoff(llama.ctx, both.model), both.ids[0].tolist()
    handoff.hand(run(both.model, None, both.ids).cache)
    handoff.go_on(llama, prompt[:-1])
    fed = []
    whole, llama.eval = llama.eval, lambda tokens: (fed.append(len(tokens)), whole(tokens))
    made = [token for token, _ in zip(llama.generate(prompt, temp=0.0), range(6), strict=False)]
    own = both.model.generate(both.ids, max_new_tokens=6, do_sample=False, pad_token_id=0)[0, 60:].tolist()
    assert made == own
    assert set(fed) == {1}


def test_what_has_no_place_in_llama_cpp_is_refused(both: Any) -> None:
    handoff = Handoff(both.llama().ctx, both.model)
    with pytest.raises(FillUsageError, match="the arm that fills nothing"):
        handoff.hand(run(both.model, NoFill(2), both.ids, tail=8, min_prompt=8).cache)
    with pytest.raises(FillUsageError, match="one prompt"):
        handoff.hand(run(both.model, None, both.ids.repeat(2, 1)).cache)
    with pytest.raises(FillMismatchError, match="more rows than its context has"):
        handoff.hand(run(both.model, None, both.ids.repeat(1, 9)).cache)


def test_a_context_that_cannot_take_it_is_refused_by_name(both: Any) -> None:
    for options, named in (
        ({"flash_attn": False}, "keeps its values transposed"),
        ({"cache": 8, "flash_attn": True}, "of type q8_0|could not|not understood"),
    ):
        try:
            llama = both.llama(**options)
        except ValueError:
            continue  # llama.cpp itself refuses blocks of 32 in heads of 8
        with pytest.raises(FillMismatchError, match=named):
            Handoff(llama.ctx, both.model)


def test_another_model_is_refused(both: Any) -> None:
    other = type(both.model)(both.model.config).eval()
    with pytest.raises(FillMismatchError, match="other keys in layer 0"):
        Handoff(both.llama().ctx, other)
    config = both.model.config.__class__(**{**both.model.config.to_dict(), "num_hidden_layers": 3})
    with pytest.raises(FillMismatchError, match="the number of layers; expected 3; found 4"):
        Handoff(both.llama().ctx, type(both.model)(config))


@pytest.mark.parametrize("kind", ["recurrent", "hybrid"])
def test_models_whose_state_lies_elsewhere_are_refused(both: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No such model is at hand: llama.cpp's own answer is replaced, everything else is real."""
    import llama_cpp

    monkeypatch.setattr(llama_cpp, f"llama_model_is_{kind}", lambda _: True)
    with pytest.raises(FillMismatchError, match=f"a {kind} model cannot be handed over"):
        Handoff(both.llama().ctx, both.model)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def generate(both: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """generate(*options, model=): exit code, stdout and stderr of `ridgefill generate --decode llamacpp`."""
    from ridgefill.cli import main

    def call(*options: str, model: str = "model.gguf") -> tuple[int, str, str]:
        words = ["ridgefill", "generate", f"path:{both.folder / model}", "--dtype", "fp32", "--decode", "llamacpp"]
        words += ["--max-new-tokens", "6", "--prompt", both.contract.TEXT[:60], *options]
        monkeypatch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capfd.readouterr()
        return int(left.value.code or 0), out, err

    return call


def test_generate_decodes_with_llama_cpp(both: Any, generate: Run) -> None:
    """Exact and filled: the tokens are those of PyTorch on the same cache."""
    ids = both.tokenizer(both.contract.TEXT[:60], return_tensors="pt").input_ids
    filled = ("--fill", "identity", "--split", "2", "--tail", "8")
    for options, arm in ((("--fill", "exact"), None), (filled, Identity(2))):
        with ridgefill.filling(both.model, arm, tail=8):
            own = both.model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=0)[0, ids.shape[1] :]
        code, out, err = generate(*options, "--json")
        assert code == 0, err
        answer = json.loads(out)
        assert answer["text"] == both.tokenizer.decode(own, skip_special_tokens=True)
        assert (answer["decoded_by"], answer["prompt_tokens"]) == ("llamacpp", ids.shape[1])
        assert "handed to llama.cpp" in err
        code, out, _ = generate(*options)
        assert (code, out.rstrip("\n")) == (0, answer["text"].rstrip("\n"))


def test_generate_with_llama_cpp_needs_a_gguf_and_every_layer(generate: Run) -> None:
    code, _, err = generate("--fill", "exact", model="model")
    assert (code, "--decode llamacpp needs a GGUF" in err) == (2, True)
    code, _, err = generate("--fill", "none", "--split", "2")
    assert (code, "leaves late layers without rows" in err) == (2, True)
