"""Real servers behind the engine: ours, llama-cpp-python's, transformers' own and vLLM's, on one tiny model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.errors import CannotCheck, Differs, EnvironmentProblem
from runs import engines
from runs.buildpins import check_builds
from runs.engines.base import Generate, Load, Opening, Prefill
from runs.engines.http_client import Client
from runs.server import Server
from runs.study import Arm, Build, Study

TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind. " * 3
ONE = {"OMP_NUM_THREADS": "1"}
SERVERS = {
    "ridgefill": Server(
        kind="ridgefill",
        command="{python} -m ridgefill serve path:{model} --maps {maps.s2} --tail 8 --dtype fp32 --port {port}",
        env=ONE,
    ),
    "llama-cpp-python": Server(
        kind="llama-cpp-python",
        command="{python} -m llama_cpp.server --model {model} --model_alias tiny --host 127.0.0.1 --port {port} "
        "--n_ctx 512 --n_threads 1 --n_threads_batch 1 --type_k 0 --type_v 0 --interrupt_requests false",
    ),
    "transformers": Server(
        kind="transformers",
        command="{python} -m transformers.cli.transformers serve {model} --host 127.0.0.1 --port {port} "
        "--device cpu --dtype float32",
        env=ONE,
    ),
    "vllm": Server(
        kind="vllm",
        command="{env.RIDGEFILL_SERVING_ENV} -m vllm.entrypoints.openai.api_server --model {model} "
        "--served-model-name tiny --dtype bfloat16 --max-model-len 512 --host 127.0.0.1 --port {port} "
        "--enforce-eager --no-enable-prefix-caching",
        env={**ONE, "VLLM_CPU_KVCACHE_SPACE": "1"},
        ready_s=900,
    ),
}
NEEDS = {"llama-cpp-python": ("llama_cpp", "sse_starlette", "starlette_context"), "ridgefill": ("fastapi", "uvicorn")}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """One model in a folder, as a GGUF, and maps of it."""
    pytest.importorskip("torch")
    spec = spec_from_file_location("engines_contract", Path(__file__).parents[1] / "contracts" / "test_engines.py")
    assert spec is not None
    assert spec.loader is not None
    contract = module_from_spec(spec)
    spec.loader.exec_module(contract)
    folder = tmp_path_factory.mktemp("servers")
    contract.tiny_model(folder / "model", head=64)  # vLLM's attention on CPUs has no smaller heads
    contract.tiny_gguf(folder / "model", folder / "lm.gguf")
    contract._tiny_maps(folder / "model", folder / "maps")
    return SimpleNamespace(model=folder / "model", gguf=folder / "lm.gguf", maps={"s2": folder / "maps"})


def opening(tiny: Any, kind: str) -> Opening:
    model = tiny.gguf if kind == "llama-cpp-python" else tiny.model
    return Opening("path:model", model, tiny.maps, "fp32", {}, SERVERS[kind], kind)


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=[pytest.mark.slow] if kind == "vllm" else []) for kind in SERVERS],
)
def up(request: pytest.FixtureRequest, tiny: Any) -> Iterator[SimpleNamespace]:
    """Each server in turn, running, with an arm that asks it."""
    kind = request.param
    for name in NEEDS.get(kind, ()):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed, so there is no server of {kind}")
    if kind == "vllm" and not os.environ.get("RIDGEFILL_SERVING_ENV"):
        pytest.skip("no environment of vLLM: make serving-env, then RIDGEFILL_SERVING_ENV=.../bin/python")
    opened = engines.engine("openai_http").open(opening(tiny, kind))
    arm = Arm(engine="openai_http", model="m", server=kind)
    yield SimpleNamespace(kind=kind, opened=opened, arm=arm, tokens=tuple(opened.encode(TEXT))[:100])
    opened.close()
    assert not opened._client.answers(opened._kind.ready)


def test_every_server_reads_the_very_same_tokens(up: Any, tiny: Any) -> None:
    from transformers import AutoTokenizer

    assert list(up.opened.encode(TEXT)) == AutoTokenizer.from_pretrained(tiny.model)(TEXT)["input_ids"]


def test_what_it_generates_is_greedy_and_counted(up: Any) -> None:
    made = up.opened.generate(up.arm, Generate(up.tokens, 8))
    assert 1 <= made.made <= 8
    assert made.tokens == ()
    assert up.opened.generate(up.arm, Generate(up.tokens, 8)) == made


def test_every_server_in_full_precision_continues_alike(up: Any, tiny: Any) -> None:
    """The likeliest first token of the model in PyTorch, as text, where the server computes in fp32."""
    if up.kind == "vllm":
        pytest.skip("its attention on CPUs is not in fp32 here")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(tiny.model), AutoTokenizer.from_pretrained(tiny.model)
    tokens = next(
        tokens
        for tokens in (up.tokens[:length] for length in range(100, 20, -1))
        if (token := _likeliest(torch, model, tokens)) and tokenizer.decode([token]).isalnum()
    )
    wanted = tokenizer.decode([_likeliest(torch, model, tokens)])
    assert up.opened.generate(up.arm, Generate(tokens, 1)).text == wanted


def _likeliest(torch: Any, model: Any, tokens: tuple[int, ...]) -> int:
    with torch.no_grad():
        return int(model(torch.tensor([tokens])).logits[0, -1].argmax())


def test_a_prefill_is_timed_from_outside_and_by_the_servers_clock_where_it_tells(up: Any) -> None:
    answers = [up.opened.prefill(up.arm, Prefill(up.tokens)) for _ in range(2)]
    for answer in answers:
        assert answer.seconds > 0
        assert answer.peak_mib > 10
        assert answer.ceiling == 1
        assert (answer.server_seconds > 0) == (up.kind == "ridgefill")
        assert answer.server_seconds < answer.seconds


def test_the_others_are_given_their_tokens_while_a_prompt_arrives(up: Any) -> None:
    request = Load(up.tokens, (up.tokens[:9], up.tokens[20:29]), 24)
    answer = up.opened.load(up.arm, request)
    assert answer.seconds > 0
    assert len(answer.others) == 2
    for stream in answer.others:
        # Some servers hold text back until a word is whole, and bytes that are no text come in more pieces than tokens.
        assert 2 <= len(stream.arrivals) <= 48
        assert stream.tokens <= 24
        assert stream.tokens == 24 or up.kind == "llama-cpp-python"


def test_its_build_names_its_packages_and_what_it_reports(up: Any) -> None:
    first, second = up.opened.build(), up.opened.build()
    assert first.digest == second.digest
    detail = first.detail or {}
    distributions: Any = detail["distributions"]
    reports: Any = detail["reports"]
    assert "{port}" in detail["command"]  # type: ignore[operator]
    assert (detail["engine"], detail["kind"]) == ("openai_http", up.kind)
    assert next(iter(distributions)).startswith(up.kind)
    if up.kind != "transformers":
        assert reports["version"] == distributions[next(iter(distributions))]
    assert any("libc.so" in name for name in first.files or {})
    assert "packages" not in detail  # an audit would look for them in our own environment


def test_another_version_of_its_packages_is_refused(up: Any) -> None:
    pin = up.opened.build()
    own = next(iter((pin.detail or {})["distributions"]))  # type: ignore[arg-type,call-overload]
    study = Study(
        name="s",
        models={},
        arms={"a": up.arm},
        tasks={},
        servers={up.kind: SERVERS[up.kind]},
        builds={"b": Build(engine="openai_http", server=up.kind, packages={own: "0.0.1"})},
    )
    with pytest.raises(Differs, match=rf"the build b is not the pinned one: {own}"):
        check_builds(study, [pin])
    other = {"b": Build(engine="openai_http", server="another", packages={own: "0.0.1"})}
    check_builds(study.model_copy(update={"builds": other}), [pin])


def test_ours_fills_by_request_and_says_how_many_rows(tiny: Any, up: Any) -> None:
    if up.kind != "ridgefill":
        pytest.skip("only ours is told by each request")
    filled = Arm(engine="openai_http", model="m", server=up.kind, fill="map", maps="s2", split=2, tail=8)
    assert up.opened.prefill(filled, Prefill(up.tokens)).notes == {"filled_rows": "92"}
    assert up.opened.prefill(up.arm, Prefill(up.tokens)).notes == {}
    short = up.opened.prefill(filled, Prefill(up.tokens[:8]))
    assert short.notes == {"filled_rows": "0", "exactly": "the server filled no row"}
    study = Study(name="s", models={}, arms={"a": filled}, tasks={}, servers={up.kind: SERVERS[up.kind]})
    check_builds(study, [up.opened.build()])
    for change in ({"split": 3}, {"tail": 16}):
        other = study.model_copy(update={"arms": {"a": filled.model_copy(update=change)}})
        with pytest.raises(Differs, match=f"fills with another {next(iter(change))} than the arm a"):
            check_builds(other, [up.opened.build()])


def test_a_prompt_that_no_text_gives_is_refused(up: Any) -> None:
    if up.opened._kind.ids:
        assert up.opened._tokens.prompt((200, 201)) == [200, 201]
        return
    with pytest.raises(CannotCheck, match="no text gives these tokens"):
        up.opened._tokens.prompt((*up.tokens[:3], 120))


def test_maps_that_are_not_the_studys_end_with_5(tiny: Any, tmp_path: Path) -> None:
    """The maps that a server reports against those the study pins."""
    import shutil

    opened = engines.engine("openai_http").open(opening(tiny, "ridgefill"))
    try:
        other = tmp_path / "maps"
        shutil.copytree(tiny.maps["s2"], other)
        manifest = other / "ridgefill.json"
        manifest.write_text(manifest.read_text() + " ")
        from runs.engines.http_identity import check_maps

        reports = opened._kind.reports(opened._client.get)
        check_maps(SERVERS["ridgefill"], tiny.maps, reports)
        with pytest.raises(Differs, match="fills with other maps than s2"):
            check_maps(SERVERS["ridgefill"], {"s2": other}, reports)
        with pytest.raises(EnvironmentProblem, match="answered 404"):
            Client(opened._client.url).get("/v1/nothing")
    finally:
        opened.close()
