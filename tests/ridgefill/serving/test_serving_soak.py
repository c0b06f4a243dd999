"""500 requests of 16 clients, a third of them called off midway, beside one who reads a byte a second."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2 as httpx
import pytest

REQUESTS, CLIENTS, KINDS = 500, 16, 12


def body(kind: int) -> dict[str, Any]:
    """One of a few greedy requests: short and long, filled and exact."""
    length = (3, 20, 60, 150, 300, 440)[kind % 6]
    words = " ".join(f"w{(i * i + 7 * kind) % 95 + 2}" for i in range(length))
    return {"prompt": words, "max_tokens": 4 + 5 * (kind % 5), "temperature": 0, "fill": kind >= 6}


class Byte(threading.Thread):
    """A client that reads a byte a second of a long stream, and little of it in one piece."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        host, _, port = url.removeprefix("http://").removesuffix("/v1").partition(":")
        content = json.dumps({"prompt": "w3", "max_tokens": 500, "temperature": 0, "stream": True}).encode()
        self.connection, self.read, self.leave = socket.socket(), b"", threading.Event()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        self.connection.connect((host, int(port)))
        head = f"POST /v1/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        self.connection.sendall(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)

    def __enter__(self) -> Byte:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave.set()
        self.join()

    def run(self) -> None:
        with self.connection:
            while not self.leave.wait(1):
                self.read += self.connection.recv(1)


def ask(server: Any, number: int) -> tuple[int, str | None]:
    """Request `number`: its kind, and its text or None if it was called off, as every third is. Comes again on 429."""
    rng = random.Random(number)
    kind, off = rng.randrange(KINDS), number % 3 == 0
    request = body(kind) | {"stream": off or number % 2 == 0}
    patience = rng.randint(0, 1)  # events to read before it is called off; the shortest stream has two
    while True:
        options = {"content": json.dumps(request), "headers": {"content-type": "application/json"}, "timeout": 300}
        with httpx.stream("POST", server.url + "/completions", **options) as answer:
            if answer.status_code == 200:
                return kind, text_of(answer, patience if off else None)
            assert answer.status_code == 429, answer.read()
        time.sleep(0.05)


def text_of(answer: httpx.Response, patience: int | None) -> str | None:
    """The whole text; None once so many events have come."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return str(json.loads(answer.read())["choices"][0]["text"])
    said, done = "", False
    for line in answer.iter_lines():
        if line.startswith("data: {"):
            said += json.loads(line[6:])["choices"][0]["text"]  # an error event has no choices
            if patience is not None:
                patience -= 1
                if patience < 0:
                    return None
        done |= line == "data: [DONE]"
    assert done
    return said


@pytest.mark.slow
def test_500_requests_of_16_clients(start: Any, folder: Any) -> None:
    with start("--maps", str(folder / "maps"), "--tail", "8", "--queue", "8", "--slots", "4", "--pause", "0") as server:
        alone = [server.post("/completions", body(kind)).json()["choices"][0]["text"] for kind in range(KINDS)]
        with Byte(server.url) as slow, ThreadPoolExecutor(CLIENTS) as clients:
            first = list(clients.map(lambda number: ask(server, number), range(REQUESTS // 2)))
            before = server.metrics()["process_resident_memory_bytes"]
            second = list(clients.map(lambda number: ask(server, number), range(REQUESTS // 2, REQUESTS)))
            assert slow.is_alive()
        completed = [(kind, text) for kind, text in first + second if text is not None]
        assert len(completed) == len([number for number in range(REQUESTS) if number % 3])
        assert all(text == alone[kind] for kind, text in completed)
        assert slow.read.startswith(b"HTTP/1.1 200"[: len(slow.read)])
        ends = time.monotonic() + 60
        while server.metrics()["ridgefill_requests_running"] and time.monotonic() < ends:
            time.sleep(0.05)
        after = server.metrics()
        assert after["ridgefill_cache_tokens"] == after["ridgefill_requests_waiting"] == 0
        assert after['ridgefill_requests_total{outcome="failed"}'] == 0
        assert after['ridgefill_requests_total{outcome="cancelled"}'] > 0
        assert after['ridgefill_requests_total{outcome="refused"}'] > 0
        assert after["process_resident_memory_bytes"] - before < 16 << 20
        assert server.process.poll() is None
