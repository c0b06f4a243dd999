"""The API over real HTTP: OpenAI's own client, every refusal, and bodies that are no requests."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import openai
import pytest

import ridgefill

PROMPT = " ".join(f"w{i * i % 95 + 2}" for i in range(60))
TAIL = 8


@pytest.fixture(scope="module")
def client(server: Any) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def own(folder: Any, tiny: Any, words: Any) -> Any:
    """own(text, limit, fill=True): what the library generates, greedily, as a completion's text."""
    model, maps = tiny("llama", max_position_embeddings=512), ridgefill.Maps.load(folder / "maps")

    def generate(text: str, limit: int, *, fill: bool = True) -> str:
        ids = words(text, return_tensors="pt").input_ids
        with ridgefill.filling(model, maps if fill else None, tail=TAIL):
            tokens = model.generate(ids, max_new_tokens=limit, do_sample=False)
        return " " + words.decode(tokens[0, ids.shape[1] :], skip_special_tokens=True)

    return generate


def test_completions_with_openais_client(client: openai.OpenAI, own: Any) -> None:
    given = {"model": "tiny", "prompt": PROMPT, "max_tokens": 7, "temperature": 0}
    filled = client.completions.create(**given)
    exact = client.completions.create(**given, extra_body={"fill": False})
    assert filled.choices[0].text == own(PROMPT, 7)
    assert exact.choices[0].text == own(PROMPT, 7, fill=False)
    assert (filled.choices[0].finish_reason, filled.object, filled.model) == ("length", "text_completion", "tiny")
    usage = filled.usage.to_dict()
    assert usage["prompt_tokens_details"] == {"filled_rows": 60 - TAIL, "exact_rows": TAIL}
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (60, 7, 67)
    assert exact.usage.to_dict()["prompt_tokens_details"] == {"filled_rows": 0, "exact_rows": 60}
    ids = [int(word[1:]) for word in PROMPT.split()]
    assert client.completions.create(**given | {"prompt": ids}).choices[0].text == filled.choices[0].text
    streamed = list(client.completions.create(**given, stream=True, stream_options={"include_usage": True}))
    texts = [chunk.choices[0].text for chunk in streamed if chunk.choices]
    assert "".join(texts) == filled.choices[0].text
    assert len([text for text in texts if text]) == 7  # one token a chunk, as they come
    assert streamed[-1].usage == filled.usage
    assert [chunk.choices[0].finish_reason for chunk in streamed if chunk.choices][-1] == "length"
    assert len({chunk.id for chunk in streamed}) == 1


def test_chat_with_openais_client(client: openai.OpenAI, own: Any) -> None:
    messages: list[Any] = [
        {"role": "developer", "content": "w5 w6"},
        {"role": "user", "content": [{"type": "text", "text": "w7 "}, {"type": "text", "text": "w11"}]},
    ]
    rendered = "w2 w3 w5 w6 w9 w4 w7 w11 w9 w8"  # by the template of conftest.py
    answer = client.chat.completions.create(model="tiny", messages=messages, max_completion_tokens=6, temperature=0)
    assert " " + answer.choices[0].message.content == own(rendered, 6)
    assert answer.choices[0].message.role == "assistant"
    assert answer.usage.prompt_tokens == 10
    chunks = list(
        client.chat.completions.create(model="tiny", messages=messages, max_tokens=6, temperature=0, stream=True)
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == answer.choices[0].message.content
    following = [*messages, answer.choices[0].message, {"role": "user", "content": "w3"}]
    again = client.chat.completions.create(model="tiny", messages=following, max_tokens=2, temperature=0)
    said = len(answer.choices[0].message.content.split())
    assert again.usage.prompt_tokens == 10 - 1 + (1 + said + 1) + (1 + 1 + 1) + 1  # its turn, another; w8 at the end


def test_a_prompt_may_start_with_the_padding_token(client: openai.OpenAI) -> None:
    for body in ({}, {"fill": False}):
        answer = client.completions.create(model="tiny", prompt="w0 " + PROMPT, max_tokens=2, extra_body=body)
        assert answer.usage.prompt_tokens == 61


def test_stop_strings_cut_the_text_wherever_a_token_ends(client: openai.OpenAI, own: Any) -> None:
    words = own(PROMPT, 12).split()
    given = {"model": "tiny", "prompt": PROMPT, "max_tokens": 12, "temperature": 0}
    for stop in (words[4] + " " + words[5], [words[4][-1] + " " + words[5][:2], "never"]):
        whole = client.completions.create(**given, stop=stop)
        chunks = list(client.completions.create(**given, stop=stop, stream=True))
        first = stop if isinstance(stop, str) else stop[0]
        expected = own(PROMPT, 12)[: own(PROMPT, 12).index(first)]
        assert whole.choices[0].text == expected
        assert whole.choices[0].finish_reason == "stop"
        assert "".join(chunk.choices[0].text for chunk in chunks) == expected
        assert whole.usage.completion_tokens <= 6


def test_seeds_temperature_and_top_p(client: openai.OpenAI) -> None:
    def drawn(**options: Any) -> str:
        return str(client.completions.create(model="tiny", prompt=PROMPT, max_tokens=8, **options).choices[0].text)

    assert drawn(seed=4) == drawn(seed=4)
    assert len({drawn(seed=seed, temperature=1.5) for seed in range(6)}) > 1
    assert len({drawn() for _ in range(6)}) > 1
    assert drawn(seed=1, top_p=1e-6, temperature=2) == drawn(temperature=0)


def test_logprobs(client: openai.OpenAI) -> None:
    given = {"model": "tiny", "prompt": PROMPT, "max_tokens": 4, "temperature": 0}
    echo = client.completions.create(**given, echo=True, logprobs=3, extra_body={"fill": False}).choices[0]
    told = echo.logprobs
    assert echo.text.startswith(PROMPT)
    assert len(told.tokens) == len(told.token_logprobs) == len(told.top_logprobs) == len(told.text_offset) == 64
    assert told.token_logprobs[0] is None
    assert all(chance < 0 for chance in told.token_logprobs[1:])
    assert [len(top) for top in told.top_logprobs[1:]] == [3] * 63
    for token, chance, top in list(zip(told.tokens, told.token_logprobs, told.top_logprobs, strict=True))[-4:]:
        assert top[token] == chance == max(top.values())  # greedy
    chat = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "w4"}], max_tokens=3, logprobs=True, top_logprobs=2
    )
    content = chat.choices[0].logprobs.content
    assert [len(one.top_logprobs) for one in content] == [2, 2, 2]
    assert bytes(content[0].bytes).decode() == content[0].token
    with pytest.raises(openai.BadRequestError, match="no log-probabilities") as refused:
        client.completions.create(**given, echo=True, logprobs=0)
    assert (refused.value.param, refused.value.code) == ("logprobs", "filled_prompt")
    assert client.completions.create(**given, echo=True).choices[0].text.startswith(PROMPT)
    assert len(client.completions.create(**given, logprobs=0).choices[0].logprobs.tokens) == 4


def test_models_and_health(client: openai.OpenAI, server: Any) -> None:
    (card,) = client.models.list().data
    assert (card.id, card.to_dict()["max_model_len"]) == ("tiny", 512)
    maps = card.to_dict()["ridgefill"]["maps"]
    assert (maps["split"], maps["tail"], len(maps["manifest_sha256"])) == (3, TAIL, 64)
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt")
    assert httpx.get(server.url.removesuffix("v1") + "health").json() == {"status": "ok"}


def test_metrics_count_what_was_done(server: Any) -> None:
    before = server.metrics()
    server.post("/completions", {"prompt": PROMPT, "max_tokens": 5})
    server.post("/completions", {"prompt": PROMPT, "max_tokens": 1, "fill": False})
    after = server.metrics()
    grew = {name: after[name] - before[name] for name in after if not name.startswith("process_")}
    assert grew["ridgefill_prompt_tokens_total"] == 120
    assert grew["ridgefill_generated_tokens_total"] == 6
    assert grew['ridgefill_prompt_rows_total{kind="filled"}'] == 60 - TAIL
    assert grew['ridgefill_prompt_rows_total{kind="exact"}'] == 60 + TAIL
    assert grew["ridgefill_time_to_first_token_seconds_count"] == 2
    assert grew["ridgefill_inter_token_seconds_count"] == 4
    assert grew['ridgefill_requests_total{outcome="length"}'] == 2
    # 6 layers; or 3, and 3 late ones' fills and exact rows; each prefill ends with a step that finds nothing left
    assert grew["ridgefill_prefill_step_seconds_count"] == (6 + 1) + (3 + 2 * 3 + 1)
    assert after["ridgefill_requests_waiting"] == after["ridgefill_requests_running"] == 0
    assert after["ridgefill_cache_tokens"] == 0


TEXTS = {"prompt": "w1"}
CHAT = {"messages": [{"role": "user", "content": "w1"}]}


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("completions", {"prompt": "w1 " * 512}, 400, "too long"),
        ("completions", {"prompt": "w1 " * 600}, 400, "600 tokens"),
        ("completions", {"prompt": "w1", "max_tokens": 512}, 400, "too long"),
        ("completions", {"prompt": "  "}, 400, "empty"),
        ("completions", {"prompt": ""}, 400, "empty"),
        ("completions", {"prompt": [3, 97]}, 400, "vocabulary"),
        ("completions", {"prompt": [-1]}, 400, "vocabulary"),
        ("completions", {"prompt": []}, 400, "prompt"),
        ("completions", {}, 400, "prompt: Field required"),
        ("completions", TEXTS | {"model": "gpt"}, 404, "this server has tiny"),
        ("completions", TEXTS | {"temperature": "hot"}, 400, "temperature"),
        ("completions", TEXTS | {"temperature": 3}, 400, "temperature"),
        ("completions", TEXTS | {"top_p": 0}, 400, "top_p"),
        ("completions", TEXTS | {"n": 2}, 400, "n: "),
        ("completions", TEXTS | {"max_tokens": 0}, 400, "max_tokens"),
        ("completions", TEXTS | {"max_tokens": True}, 400, "max_tokens"),
        ("completions", TEXTS | {"stop": ["a"] * 5}, 400, "stop"),
        ("completions", TEXTS | {"stop": ""}, 400, "stop"),
        ("completions", TEXTS | {"top_k": 4}, 400, "top_k: this server has no such option"),
        ("completions", TEXTS | {"seed": 1 << 70}, 400, "seed"),
        ("completions", TEXTS | {"suffix": "w2"}, 400, "suffix"),
        ("chat/completions", CHAT | {"tools": []}, 400, "tools: this server has no such option"),
        ("chat/completions", {"messages": []}, 400, "messages"),
        ("chat/completions", {"messages": [{"role": "tool", "content": "w1"}]}, 400, "role"),
        ("chat/completions", {"messages": [{"role": "user", "content": "w13"}]}, 400, "unlucky"),
        (
            "chat/completions",
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}
                ]
            },
            400,
            "messages.0.content",
        ),
    ],
)
def test_refusals(path: str, body: Any, status: int, says: str, server: Any) -> None:
    answer = server.post(f"/{path}", body)
    assert answer.status_code == status
    check_error(answer)
    assert says in answer.json()["error"]["message"]


def check_error(answer: httpx.Response) -> None:
    """OpenAI's shape, and nothing of our insides."""
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert not re.search(r"Traceback|File \"|\.py|ridgefill/", answer.text)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/completions", 405),
        ("POST", "/v1/nothing", 404),
        ("GET", "/docs", 404),
        ("GET", "/openapi.json", 404),
    ],
)
def test_other_addresses(method: str, path: str, status: int, server: Any) -> None:
    answer = httpx.request(method, server.url.removesuffix("/v1") + path)
    assert answer.status_code == status
    check_error(answer)


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/v1/models/../../../etc/passwd", "/v1/models/%2e%2e%2fconfig.json"]
)
def test_no_file_is_reachable(path: str, server: Any) -> None:
    root = server.url.removesuffix("/v1")
    with httpx.Client() as client:
        answer = client.send(client.build_request("GET", httpx.URL(root).copy_with(raw_path=path.encode())))
    assert answer.status_code == 404
    check_error(answer)


def malformed(seed: int) -> bytes:
    """A body that is no request: cut, with bytes changed, with a value of another kind, or nonsense."""
    rng = random.Random(seed)
    good = TEXTS | {"max_tokens": 3, "temperature": 0.5, "stop": ["x"], "stream": False, "seed": 5, "top_p": 0.5}
    kinds = (None, True, -1, 1.5, "\x00", "\U0001f600" * 3, [], {}, [[[]]], {"a": {"b": []}}, 10**400, [None] * 50)
    match seed % 5:
        case 0:
            body = json.dumps(good).encode()
            return body[: rng.randrange(len(body))]
        case 1:
            body = bytearray(json.dumps(good).encode())
            for _ in range(rng.randint(1, 4)):
                body[rng.randrange(1, len(body))] = rng.choice((0x00, 0xFF, 0xC3, 0x7B, 0x22))
            return bytes(body) + rng.choice((b"}", b"\xff", b"]"))
        case 2:
            name = rng.choice(("prompt", "max_tokens", "temperature", "stop", "stream", "seed", "top_p"))
            wrong = [kind for kind in kinds if kind is not None or name == "prompt"]
            rejected = {
                "prompt": ("\x00", "\U0001f600" * 3),
                "stop": ("\x00", "\U0001f600" * 3, []),
                "stream": (True,),
                "seed": (-1,),
                "temperature": (1.5,),
            }
            value = rng.choice(
                [
                    kind
                    for kind in wrong
                    if kind not in rejected.get(name, ()) and not (name == "prompt" and kind is True)
                ]
            )
            return json.dumps(good | {name: value}).encode()
        case 3:
            return rng.choice(
                (
                    b"[" * 100_000,
                    b'{"a":' * 50_000,
                    b'{"prompt": "\\ud800"}',
                    b'{"prompt": NaN}',
                    b'{"prompt": "w1", "temperature": 1e999}',
                    b'{"prompt": "w1", "temperature": Infinity}',
                    b"\xff\xfe{}",
                    b"null",
                    b"3",
                    b'"prompt"',
                    b"",
                )
            )
        case _:
            return rng.randbytes(rng.randint(1, 300))


def test_200_malformed_bodies(server: Any) -> None:
    for seed in range(200):
        body = malformed(seed)
        path = "/completions" if seed % 2 else "/chat/completions"
        answer = server.post(path, body)
        assert 400 <= answer.status_code < 500, (seed, body[:200], answer.text)
        check_error(answer)
    assert server.process.poll() is None
    assert server.post("/completions", TEXTS | {"max_tokens": 1}).status_code == 200


def test_a_body_that_is_no_json_is_refused_by_its_type(server: Any) -> None:
    answer = server.post("/completions", TEXTS, headers={"content-type": "text/plain"})
    assert answer.status_code == 415
    check_error(answer)
