"""A stand-in for llama-server, to be broken in ways that a real one rarely is: its protocol, and bytes for tokens.

usage: stub_server.py --model FILE --port PORT [--commit WORD] [--fault FAULT]
faults: deaf (never takes requests), loud (says why it fails, and fails), short (breaks off its second answer),
gone (ends within its second answer), cached (computes half of a prompt), stubborn (ignores SIGTERM)
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

asked = argparse.ArgumentParser()
for option in ("--model", "--port", "--commit", "--fault", "--child"):
    asked.add_argument(option, default="")
asked.add_argument("--pause", type=float, default=0.0)
given = asked.parse_args()
answers = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        paths = {
            "/health": {"status": "ok"},
            "/props": {
                "build_info": f"b1234-{given.commit or 'abc123'}",
                "total_slots": 4,
                "default_generation_settings": {"n_ctx": 512},
            },
            "/v1/models": {"data": [{"id": given.model, "meta": {"size": Path(given.model).stat().st_size}}]},
        }
        self.whole(paths[self.path])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            self.whole({"tokens": list(body["content"].encode())})
        else:
            self.stream(body)

    def whole(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, body: dict[str, object]) -> None:
        global answers
        answers += 1
        prompt, limit = body["prompt"], body["max_tokens"]
        read = len(prompt)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(limit):
            time.sleep(given.pause)
            if given.fault == "gone" and answers > 1:
                print("RuntimeError: out of everything", file=sys.stderr, flush=True)
                os._exit(9)
            self.event({"choices": [{"text": chr(97 + number % 26), "finish_reason": None}]})
        if not (given.fault == "short" and answers > 1):
            cached = read // 2 if given.fault == "cached" else 0
            timings = {"prompt_n": read - cached, "cache_n": cached, "prompt_ms": 1.5, "predicted_n": limit}
            self.event({"choices": [{"text": "", "finish_reason": "length"}], "timings": timings})
            self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def event(self, value: object) -> None:
        self.chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


if given.fault == "loud":
    print("ValueError: no room for the model\nsee above\nbye", file=sys.stderr)
    sys.exit(3)
if given.fault == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if given.child:  # a worker of its own, in a group of its own
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    Path(given.child).write_text(f"{os.getpid()} {worker.pid}")
if given.fault == "deaf":
    time.sleep(600)
ThreadingHTTPServer(("127.0.0.1", int(given.port)), Handler).serve_forever()
