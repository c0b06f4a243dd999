"""What every engine must do, crossed over the registry: a new engine is tested by being entered there."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import UsageProblem
from runs import engines
from runs.engines.base import (
    COMPARE,
    EQUIVALENCE,
    GENERATE,
    LOAD,
    PREFILL,
    SCORE,
    Equivalence,
    Generate,
    Load,
    Opened,
    Opening,
    Prefill,
    Score,
    answer,
)
from runs.server import Server
from runs.study import Arm

TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind. " * 3
EXACT = {"model": "m"}
# What an engine must be told to answer for arms that fill.
FLAGS: dict[str, dict[str, Any]] = {"llamacpp": {"prefill": "handoff", "threads": 1}}
# What is asked by an engine that asks a server.
SERVERS = {
    "openai_http": Server(
        kind="ridgefill",
        command="{python} -m ridgefill serve path:{model} --maps {maps.s2} --tail 8 --dtype fp32 --port {port}",
        env={"OMP_NUM_THREADS": "1"},
    )
}
FILLS: list[dict[str, Any]] = [
    {"fill": "no-fill", "split": 2, "tail": 8},
    {"fill": "identity", "split": 2, "tail": 8},
    {"fill": "map", "split": 2, "tail": 8, "maps": "s2"},
]


def tiny_model(folder: Path, head: int = 8) -> None:
    """A random model of four layers with a tokenizer of bytes, in a transformers folder. head: width of its heads."""
    torch = pytest.importorskip("torch")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: place for place, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=alphabet[0]).save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=4 * head,
        intermediate_size=48,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def tiny_gguf(folder: Path, file: Path) -> None:
    """The tiny model of a transformers folder as llama.cpp has it, in fp32: its heads rotate pairs, not halves."""
    gguf = pytest.importorskip("gguf")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    config, writer = model.config, gguf.GGUFWriter(file, "llama")
    heads = {"q": config.num_attention_heads, "k": config.num_key_value_heads}
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads["q"])
    writer.add_head_count_kv(heads["k"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    # A file without a merge cannot be written: the last byte, which no text here has, makes room for one.
    writer.add_token_list([*sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)[:-1], "qz"])
    writer.add_token_merges(["q z"])
    writer.add_token_types([3] + [1] * (config.vocab_size - 1))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        known = names.get_name(name, try_suffixes=(".weight",))
        for part, count in heads.items():
            if name.endswith(f"{part}_proj.weight") and "attn" in name:
                weight = weight.unflatten(0, (count, 2, -1)).transpose(1, 2).flatten(0, 2)
        writer.add_tensor(known, weight.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tiny_maps(model: Path, folder: Path) -> None:
    import ridgefill
    from ridgefill.sources import load, parse_dtype

    loaded, tokenizer = load(f"path:{model}", parse_dtype("fp32"))
    ridgefill.fit(loaded, tokenizer, [TEXT * 10], [2], penalty=0.1, window=64)[2].save(folder)


@pytest.fixture(scope="module", params=sorted(engines.REGISTRY))
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(engine, opened) of each engine in turn, on what it takes for a model."""
    place = tmp_path_factory.mktemp(request.param)
    model, maps = place / "model", {"s2": place / "maps"}
    if request.param == "toy":
        model.write_bytes(b"weights")
    else:
        tiny_model(model)
    if request.param == "llamacpp":
        pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed: pip install 'ridgefill[llamacpp]'")
        tiny_gguf(model, model := model.with_suffix(".gguf"))
    if request.param != "toy":
        _tiny_maps(model, maps["s2"])
    engine = engines.engine(request.param)
    flags, server = FLAGS.get(request.param, {}), SERVERS.get(request.param)
    session = engine.open(Opening(f"path:{model}", model, maps, "fp32", flags, server, "s" if server else ""))
    yield engine, session
    session.close()


@pytest.fixture
def scoring(opened: Any) -> Any:
    """The same, of engines that score."""
    if SCORE not in opened[0].capabilities:
        pytest.skip(f"{opened[0].name} does not say that it can score")
    return opened


def _arm(engine: Any, **changes: Any) -> Arm:
    asks = {"server": "s"} if engine.name in SERVERS else {}
    return Arm(**{"engine": engine.name, "flags": FLAGS.get(engine.name, {}), **asks, **EXACT, **changes})


def _fills(engine: Any) -> list[dict[str, Any]]:
    """The exact arm and those that the engine takes."""
    return [fill for fill in ({}, *FILLS) if not engine.check(_arm(engine, **fill))]


def _take(engine: Any, fill: dict[str, Any]) -> Arm:
    """An arm, or a skip that says why the engine does not take it."""
    arm = _arm(engine, **fill)
    if why := engine.check(arm):
        pytest.skip(why)
    return arm


def _request(session: Opened, follow: int = 10) -> Score:
    tokens = tuple(session.encode(TEXT))[:60]
    return Score(tokens[: 50 + follow], 50)


def test_it_says_what_it_is(opened: Any) -> None:
    engine, _ = opened
    assert engines.engine(engine.name) is engine
    assert engine.about.startswith(f"{engine.name}: ")
    assert engine.capabilities <= {SCORE, GENERATE, PREFILL, COMPARE, EQUIVALENCE, LOAD}
    assert engine.capabilities


def test_it_judges_an_arm_before_it_is_opened(opened: Any) -> None:
    engine, _ = opened
    assert {} in _fills(engine)
    assert FILLS[-1] in _fills(engine)
    assert "surprise" in engine.check(_arm(engine, flags={"surprise": 1}))


def test_its_build_is_the_same_twice_and_names_the_engine(opened: Any) -> None:
    engine, session = opened
    first, second = session.build(), session.build()
    assert first.digest == second.digest
    assert first.kind == "build"
    assert (first.detail or {})["engine"] == engine.name


@pytest.mark.parametrize("fill", [{}, *FILLS], ids=lambda fill: fill.get("fill", "exact"))
def test_scores_are_losses_of_the_tokens_asked_and_the_same_twice(scoring: Any, fill: dict[str, Any]) -> None:
    engine, session = scoring
    request = _request(session)
    arm, exact = _take(engine, fill), _arm(engine)
    found = answer(session, arm, request, exact)
    assert found == answer(session, arm, request, exact)
    assert found.tokens == request.tokens[50:]
    assert len(found.losses) == len(found.top) == len(found.kl) == len(found.same) == 10
    assert all(loss >= 0 and math.isfinite(loss) for loss in found.losses)
    assert all(kl > -1e-6 for kl in found.kl)
    if not fill:
        assert set(found.kl) == {0.0}
        assert all(found.same)
    else:
        assert sum(found.kl) > 0
        assert found.losses != answer(session, exact, request, None).losses


def test_without_a_baseline_nothing_is_compared(scoring: Any) -> None:
    engine, session = scoring
    found = answer(session, _arm(engine), _request(session), None)
    assert (found.kl, found.same) == ((), ())


def test_the_order_of_arms_changes_nothing(scoring: Any) -> None:
    """A resumed run asks only some arms of a sample: what was asked before must not matter."""
    engine, session = scoring
    one, other = _request(session), Score(tuple(session.encode(TEXT))[5:60], 45)
    arm, exact = _arm(engine, **FILLS[1]), _arm(engine)
    alone = answer(session, arm, one, exact)
    answer(session, exact, other, exact)
    answer(session, arm, other, exact)
    answer(session, exact, one, exact)
    assert answer(session, arm, one, exact) == alone


def test_a_loss_depends_on_nothing_after_it(scoring: Any) -> None:
    engine, session = scoring
    arm = _arm(engine)
    short, long = (answer(session, arm, _request(session, follow), None).losses for follow in (4, 10))
    assert long[:4] == pytest.approx(short, abs=1e-4)


@pytest.mark.parametrize("fill", [{}, *FILLS], ids=lambda fill: fill.get("fill", "exact"))
def test_generation_is_greedy_and_within_its_limit(opened: Any, fill: dict[str, Any]) -> None:
    engine, session = opened
    arm = _take(engine, fill)
    request = _request(session)
    made = session.generate(arm, Generate(request.tokens[:50], 6))
    again = session.generate(arm, Generate(request.tokens[:50], 6))
    assert (made.tokens, made.text) == (again.tokens, again.text)
    assert 1 <= (made.made or len(made.tokens)) <= 6
    if SCORE in engine.capabilities:
        assert made.tokens[0] == answer(session, arm, request, None).top[0]


def test_a_prefill_takes_time(opened: Any) -> None:
    engine, session = opened
    assert session.prefill(_arm(engine), Prefill(_request(session).tokens)).seconds > 0


def test_everyone_of_a_load_is_answered(opened: Any) -> None:
    engine, session = opened
    if LOAD not in engine.capabilities:
        pytest.skip(f"{engine.name} does not say that it can")
    tokens = _request(session).tokens
    for users in (0, 2):
        found = session.load(_arm(engine), Load(tokens, tuple(tokens[at : at + 9] for at in range(users)), 12))
        assert found.seconds > 0
        assert [stream.tokens for stream in found.others] == [12] * users
        for stream in found.others:
            assert stream.asked < stream.arrivals[0]
            assert list(stream.arrivals) == sorted(stream.arrivals)


def test_the_baselines_own_continuation_is_scored_by_every_arm(scoring: Any) -> None:
    engine, session = scoring
    prompt, exact = _request(session).tokens[:50], _arm(engine)
    made = session.generate(exact, Generate(prompt, 6)).tokens
    for fill in _fills(engine):
        found = answer(session, _arm(engine, **fill), Score(prompt, 50, greedy=6), exact)
        assert found.tokens == made
        assert len(found.same) == len(made)
        given = answer(session, _arm(engine, **fill), Score(prompt + made, 50), exact)
        assert (given.losses, given.kl) == (found.losses, found.kl)
    assert all(answer(session, exact, Score(prompt, 50, greedy=6), exact).same)


def test_a_cut_prompt_is_the_baselines_alone(scoring: Any) -> None:
    """Every arm is given the same losses of the baseline, whole and cut, from which key tokens are found."""
    engine, session = scoring
    exact, whole = _arm(engine), _request(session)
    cut = Score(whole.tokens, whole.prompt, cut=8)
    answers = [answer(session, _arm(engine, **fill), cut, exact) for fill in _fills(engine)]
    own = answer(session, exact, whole, None).losses
    short = answer(session, exact, Score(whole.tokens[42:], 8), None).losses
    assert {found.baseline for found in answers} == {own}
    assert {found.cut for found in answers} == {short}
    assert answer(session, exact, Score(whole.tokens, whole.prompt, cut=50), exact).cut in ((), own)


def test_only_the_exact_arm_is_equivalent(opened: Any) -> None:
    engine, session = opened
    if EQUIVALENCE not in engine.capabilities:
        pytest.skip(f"{engine.name} does not say that it can")
    request = Equivalence(_request(session).tokens)
    fills = [{"tail": 8}, *_fills(engine)[1:]]
    answers = [session.equivalence(_arm(engine, **fill), request) for fill in fills]
    assert [found.identical for found in answers] == [fill == {"tail": 8} for fill in fills]
    assert answers[0].difference == 0 < min(found.difference for found in answers[1:])


def test_an_unknown_engine_is_usage() -> None:
    with pytest.raises(UsageProblem, match="no engine is called 'x'"):
        engines.engine("x")


@pytest.mark.parametrize("name", sorted(engines.REGISTRY))
def test_an_engine_is_found_without_importing_what_it_runs_on(name: str) -> None:
    code = (
        f"import sys; from runs.engines import engine; engine({name!r}); "
        "print([m for m in ('torch', 'transformers', 'ridgefill', 'llama_cpp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
