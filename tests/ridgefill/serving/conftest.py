"""A real server in a process of its own, on a tiny model that a config built."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

import ridgefill

TEMPLATE = (
    "w2 {% for m in messages %}"
    "{% if m.content == 'w13' %}{{ raise_exception('unlucky') }}{% endif %}"
    "{{ {'system': 'w3', 'user': 'w4', 'assistant': 'w5'}[m.role] }} {{ m.content }} w9 "
    "{% endfor %}w8"
)
TAIL = 8


@dataclass
class Server:
    """A running server: its address and its process."""

    url: str
    process: subprocess.Popen[str]

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        """One request; a body that is not bytes is sent as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": "application/json"} | options.pop("headers", {})
        return httpx.post(self.url + path, content=content, headers=headers, timeout=120, **options)

    def metrics(self) -> dict[str, float]:
        """Every sample by its name and labels."""
        text = httpx.get(self.url.removesuffix("/v1") + "/metrics", timeout=60).text
        lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny: Any, words: Any) -> Path:
    """A model with 512 positions and a chat template, and maps/ for split 3 with a tail of at least 1."""
    at = tmp_path_factory.mktemp("serving")
    model = tiny("llama", max_position_embeddings=512)
    model.save_pretrained(at / "model")
    words.save_pretrained(at / "model")
    (at / "model" / "chat_template.jinja").write_text(TEMPLATE)
    texts = [" ".join(f"w{i * i % 95 + 2}" for i in range(200))]
    ridgefill.fit(model, words, texts, splits=[3], penalty=0.1, window=256)[3].save(at / "maps")
    return at


@contextmanager
def running(model: str, *options: str, **environment: str) -> Iterator[Server]:
    """A server on a free port, killed at the end if it has not ended by itself."""
    command = [sys.executable, "-m", "ridgefill", "serve", model, "--dtype", "fp32", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            pytest.fail(f"no server: {process.communicate()[1]}")
        yield Server(json.loads(line)["url"], process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def start(folder: Path) -> Callable[..., Any]:
    """with start("--queue", "1") as server: ..."""
    tiny = f"path:{folder / 'model'}"
    return lambda *options, model=tiny, **environment: running(model, *options, **environment)


@pytest.fixture(scope="session")
def server(start: Callable[..., Any], folder: Path) -> Iterator[Server]:
    """One server for all tests that leave it as it was: with maps, a tail of 8, a pause after every step."""
    with start("--maps", str(folder / "maps"), "--tail", str(TAIL), "--pause", "0", "--name", "tiny") as up:
        yield up
