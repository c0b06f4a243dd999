"""The parts of the server engine alone: what a server's table may say, its keeper, and builds held against pins."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ledger.errors import CannotCheck, Differs
from provenance.pins import build_pin
from runs import engines
from runs.buildpins import check_builds
from runs.engines.http_client import Completion
from runs.engines.http_keeper import below
from runs.engines.http_kinds import KINDS
from runs.engines.http_process import Launched
from runs.load import parse_study
from runs.server import Server
from runs.study import Arm, Build, Study

GOOD = "llama-server --model {model} --port {port}"


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"command": GOOD}, ""),
        ({"command": f"{GOOD} --maps {{maps.s2}} --home {{env.HOME}} --json '{{\"a\": 1}}'"}, ""),
        ({"url": "http://127.0.0.1:8080"}, ""),
        ({}, "a command that starts it, or the url"),
        ({"command": GOOD, "url": "http://127.0.0.1:8080"}, "a command that starts it, or the url"),
        ({"command": "llama-server --port {port}"}, "does not say {model}"),
        ({"command": "llama-server --model {model}"}, "does not say {port}"),
        ({"command": f"{GOOD} {{maps}}"}, "{maps} stands for nothing"),
        ({"command": f"{GOOD} {{model.x}}"}, "{model.x} stands for nothing"),
        ({"command": GOOD, "env": {"A": "{where.is}"}}, "{where.is} stands for nothing"),
        ({"command": GOOD, "kind": "tgi"}, "no kind of server is called 'tgi'"),
        ({"command": GOOD, "ready_s": 0}, "ready_s"),
        ({"url": "https://127.0.0.1:8080/v1"}, "a url is http://HOST:PORT"),
        ({"url": "http://127.0.0.1:8080", "env": {"A": "1"}}, "has its own env"),
        ({"url": "http://127.0.0.1:8080", "alone": True}, "is not stopped for another"),
        ({"command": GOOD, "surprise": 1}, "surprise"),
    ],
)
def test_a_server_is_judged_by_its_table(table: dict[str, Any], why: str) -> None:
    table = {"kind": "llama-server", **table}
    if not why:
        assert Server.model_validate(table)
        return
    with pytest.raises(ValidationError) as told:
        Server.model_validate(table)
    assert why in str(told.value)


def test_its_words_are_those_of_a_shell_with_the_studys_files_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "/opt/a b")
    command = "{env.PLACE}/run --model '{model}' --port {port} --maps {maps.a} --maps {maps.b}\n --said 'x y'"
    server = Server(kind="vllm", command=command)
    found = {"model": "/m n/lm", "port": "81", "maps.a": "/a"}
    shown = [
        "/opt/a b/run",
        "--model",
        "/m n/lm",
        "--port",
        "81",
        "--maps",
        "/a",
        "--maps",
        "{maps.b}",
        "--said",
        "x y",
    ]
    assert server.words(found) == shown
    assert server.maps == ("a", "b")
    assert Server(kind="vllm", command="{python} {model} {port}").program == sys.executable
    monkeypatch.delenv("PLACE")
    with pytest.raises(CannotCheck, match="the variable PLACE is not set"):
        server.check_here()


def test_nothing_but_the_studys_own_variables_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LLAMA_ARG_CTX_SIZE", "VLLM_USE_V1", "OMP_NUM_THREADS", "PYTHONPATH"):
        monkeypatch.setenv(name, "1")
    server = Server(kind="vllm", command=GOOD, env={"OMP_NUM_THREADS": "2", "WHERE": "{env.VLLM_USE_V1}/x"})
    assert {"OMP_NUM_THREADS": "2", "WHERE": "1/x"}.items() <= server.environment.items()
    assert not {"LLAMA_ARG_CTX_SIZE", "VLLM_USE_V1", "PYTHONPATH"} & server.environment.keys()


def test_the_kinds_are_known_by_the_files_that_ship() -> None:
    assert set(KINDS) == {"ridgefill", "llama-server", "llama-cpp-python", "vllm", "transformers"}
    for kind in KINDS.values():
        assert kind.ready.startswith("/")
        assert kind.body(4, endless=True, fill=False) != kind.body(4, endless=False, fill=False)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"fill": "map", "maps": "s2", "split": 2}, ""),
        ({"server": None}, "which server?"),
        ({"flags": {"threads": 1}}, "not in the arm: threads"),
        ({"dtype": "bf16"}, "decides its dtype"),
        ({"fill": "identity", "split": 2}, "no server fills with identity"),
    ],
)
def test_an_arm_is_judged_before_anything_is_started(changes: dict[str, Any], why: str) -> None:
    arm = Arm(**{"engine": "openai_http", "model": "m", "server": "s", **changes})
    found = engines.engine("openai_http").check(arm)
    assert why in found
    assert bool(why) == bool(found)


STUDY = """
name = "s"
[models.m]
source = "path:m"
[maps.s2]
source = "path:s2"
[servers.plain]
kind = "llama-server"
command = "llama-server --model {{model}} --port {{port}}"
[servers.filled]
kind = "llama-server"
command = "llama-server --model {{model}} --port {{port}} --ridgefill {{maps.s2}}"
[servers.theirs]
kind = "vllm"
url = "http://127.0.0.1:1"
{builds}
[arms.a]
engine = "{engine}"
model = "m"
{arm}
[tasks.t]
task = "load"
dataset = "d"
document = "x"
length = 9
[datasets.d]
source = "path:d"
"""
TOLD = '[builds.b]\nengine = "openai_http"\nserver = "theirs"\nreports = { version = "1" }'
FILLED = 'fill = "map"\nmaps = "s2"\nsplit = 2\n'


@pytest.mark.parametrize(
    ("arm", "engine", "builds", "why"),
    [
        ('server = "plain"', "openai_http", TOLD, ""),
        (FILLED + 'server = "filled"', "openai_http", TOLD, ""),
        (FILLED + 'server = "theirs"', "openai_http", TOLD, ""),
        ('server = "plaim"', "openai_http", TOLD, "no server is called 'plaim', did you mean 'plain'?"),
        ('server = "plain"', "toy", TOLD, "the engine toy asks no server"),
        ("", "openai_http", TOLD, "which server?"),
        ('server = "filled"', "openai_http", TOLD, "it fills every prompt"),
        (FILLED + 'server = "plain"', "openai_http", TOLD, "its command names no {maps.s2}"),
        ('server = "plain"', "openai_http", "", "nothing says which server must run there"),
        ('server = "plain"', "openai_http", TOLD.replace("theirs", "there"), "no server is called 'there'"),
    ],
)
def test_a_study_is_told_which_table_is_wrong(arm: str, engine: str, builds: str, why: str) -> None:
    from ledger.errors import Faults

    text = STUDY.format(arm=arm, engine=engine, builds=builds)
    if not why:
        assert parse_study(text, "study.toml").arms["a"].server
        return
    with pytest.raises(Faults) as told:
        parse_study(text, "study.toml")
    assert why in told.value.line()


def pinned(**wanted: Any) -> Study:
    build = Build(engine="openai_http", server="s", **wanted)
    return Study(name="s", models={}, arms={"a": Arm(engine="toy", model="m")}, tasks={}, builds={"b": build})


def test_builds_are_held_against_their_pins_one_by_one() -> None:
    ran = build_pin(
        "s",
        {"/opt/bin/llama-server": "a" * 64, "/opt/lib/libggml.so": "b" * 64, "/usr/lib/libggml.so": "c" * 64},
        {"engine": "openai_http", "server": "s", "distributions": {"vllm": "1"}, "reports": {"context": 512}},
    )
    for good in (
        {},
        {"packages": {"vllm": "1"}},
        {"files": {"llama-server": "a" * 64}},
        {"reports": {"context": 512}},
        {"digest": ran.digest},
    ):
        check_builds(pinned(**good), [ran])
    for bad, said in (
        ({"packages": {"vllm": "2"}}, "pinned one: vllm; expected 2; found 1"),
        ({"packages": {"torch": "2"}}, "pinned one: torch; expected 2; found not installed"),
        ({"files": {"llama-server": "d" * 64}}, "pinned one: llama-server; expected dddd"),
        ({"files": {"libllama.so": "d" * 64}}, "found no file of that name"),
        ({"files": {"libggml.so": "b" * 64}}, f"found {'c' * 64}"),  # another of the same name is loaded too
        ({"reports": {"context": 1024}}, "its server's context; expected 1024; found 512"),
        ({"reports": {"commit": "abc"}}, "its server's commit; expected abc; found nothing"),
        ({"digest": "0" * 64}, "pinned one: all of it"),
    ):
        with pytest.raises(Differs) as told:
            check_builds(pinned(**bad), [ran])
        assert said in told.value.line()


def test_tokens_are_the_servers_count_or_else_the_pieces_within_the_limit() -> None:
    seen = (1.0, 2.0, 3.0)
    assert Completion(0.5, seen, 9, "", {"completion_tokens": 7}, {}).tokens == 7
    assert Completion(0.5, seen, 9, "", {}, {"predicted_n": 5}).tokens == 5
    assert Completion(0.5, seen, 9, "", {}, {}).tokens == 3
    assert Completion(0.5, seen, 2, "", {}, {}).tokens == 2
    assert Completion(0.5, seen, 9, "", {}, {}).first == 0.5


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
one = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("ready", one.pid, flush=True)
time.sleep(600)
"""


def test_what_does_not_end_when_asked_is_killed_with_all_that_it_started() -> None:
    launched = Launched([sys.executable, "-c", STUBBORN], {}, grace=0.2)
    deadline = time.monotonic() + 120
    while len(launched.pids) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pids = launched.pids
    assert launched.ended() == ""
    launched.stop()
    launched.stop()
    assert launched.ended() == "killed by SIGKILL"
    assert not any(map(alive, pids))


def test_a_server_ends_with_its_keeper_too() -> None:
    launched = Launched(["/bin/sleep", "600"], {})
    keeper: subprocess.Popen[bytes] = launched._keeper
    pid = launched.pid
    assert below(keeper.pid) == [pid]
    keeper.kill()
    keeper.wait()
    deadline = time.monotonic() + 120
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    launched.stop()


def test_a_program_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    launched = Launched([str(tmp_path)], {})
    launched._keeper.wait()
    told = launched.failure("it ended").line()
    launched.stop()
    assert "its last line: it cannot be started: Permission denied" in told
    (log,) = [word for word in told.split() if word.endswith(".kept.log")]
    Path(log).unlink()
