"""A server as an engine, through the command line: pins that refuse, servers that break, nothing left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ledger.errors import Differs
from provenance.measure import take
from runs import engines
from runs.engines.base import Generate, Opening
from runs.engines.http_client import Client
from runs.engines.http_process import free_port
from runs.server import Server
from runs.study import Arm

STUB = Path(__file__).with_name("stub_server.py")
STUDY = """
name = "served"

[models.lm]
source = "path:model.bin"
digest = "{model}"

[datasets.texts]
source = "path:texts"
digest = "{texts}"

[servers.stub]
kind = "llama-server"
{server}
ready_s = 120

[builds.stub]
engine = "openai_http"
server = "stub"
files = {{ {files} }}
reports = {{ {reports} }}

[arms.served]
engine = "openai_http"
model = "lm"
server = "stub"

[tasks.first]
task = "ttft"
dataset = "texts"
document = "long.txt"
length = 40

[tasks.crowd]
task = "load"
dataset = "texts"
document = "long.txt"
length = 40
short = 8
follow = 12
users = [1, 3]
"""
CLAIMS = """
[[claim]]
id = "C1"
text = "The first token comes within a minute."

[[claim.prediction]]
id = "p1"
metric = "seconds"
statistic = "median"
comparator = "<"
threshold = "60"
arm = "served"
task = "first"
n = 3
seeds = [0]
exclusions = "none"
stop_rule = "all samples"
"""


@pytest.fixture
def served(tmp_path: Path, home: dict[str, str], bench_class: Any) -> Callable[..., Any]:
    """A study of one served arm. options: of the stub; server: its table instead; files, reports: what is pinned."""

    def make(options: str = "", server: str = "", files: str = "", reports: str = 'commit = "abc123"') -> Any:
        folder, program = tmp_path / "study", tmp_path / "stub-server"
        (folder / "texts").mkdir(parents=True)
        (folder / "texts" / "long.txt").write_text("All the world's a stage. " * 8)
        (folder / "model.bin").write_bytes(b"weights")
        program.write_text(f"#!{sys.executable}\n{STUB.read_text()}")
        program.chmod(0o755)
        command = f'command = "{{env.STUB}} --model {{model}} --port {{port}} {options}"'
        digests = {
            name: take("file", name, f"path:{file}", folder).digest
            for name, file in (("model", "model.bin"), ("texts", "texts"))
        }
        files = files.replace("BINARY", take("file", "b", f"path:{program}", folder).digest)
        (folder / "study.toml").write_text(
            STUDY.format(**digests, server=server or command, files=files, reports=reports)
        )
        (folder / "claims.toml").write_text(CLAIMS)
        return bench_class(folder, {**home, "STUB": str(program)})

    return make


def rows(study: Any) -> list[dict[str, Any]]:
    """The sealed rows of the study's one run."""
    (run,) = study.runs()
    path = study.folder / "records" / run["run"] / "samples.parquet"
    found: list[dict[str, Any]] = pq.ParquetFile(path).read(use_threads=False).to_pylist()
    return found


def alive(pid: int) -> bool:
    """Whether a process runs: one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_registered_run_is_timed_by_both_clocks_and_its_server_is_pinned(served: Callable[..., Any]) -> None:
    study = served(files='"stub-server" = "BINARY"')
    study.register()
    done = study("run", "start")
    assert done.code == 0, done.err
    found = rows(study)
    assert len(found) == 3 * 5 + 4 * 5
    first = {(row["metric"], row["status"]) for row in found if row["task"] == "first"}
    assert first == {(name, "ok") for name in ("seconds", "tokens_per_second", "server_seconds", "peak_mib", "ceiling")}
    assert {row["value"] for row in found if row["metric"] == "server_seconds"} == {0.0015}
    crowd = {(row["stratum"], row["metric"]): row for row in found if row["task"] == "crowd"}
    assert {stratum for stratum, _ in crowd} == {"1", "3"}
    assert crowd["1", "others_itl_max"]["status"] == "skipped"
    assert crowd["3", "others_itl_p99"]["value"] <= crowd["3", "others_itl_max"]["value"]
    assert json.loads(crowd["3", "seconds"]["detail"])["decoding_at_first_token"] in ("0", "1", "2")
    (build,) = [pin for pin in _record(study)["pins"] if pin["kind"] == "build"][:1]
    assert build["detail"]["command"] == ["{env.STUB}", "--model", "{model}", "--port", "{port}"]
    assert build["detail"]["reports"] == {
        "build_info": "b1234-abc123",
        "commit": "abc123",
        "context": 512,
        "model": "{model}",
        "model.size": 7,
        "slots": 4,
    }
    assert any(name.endswith("/stub-server") for name in build["files"])
    assert any("libc.so" in name for name in build["files"])
    audited = study("audit", "all")
    assert audited.code == 0, audited.err


def _record(study: Any) -> dict[str, Any]:
    (run,) = study.runs()
    found: dict[str, Any] = json.loads((study.folder / "records" / run["run"] / "record.json").read_bytes())
    return found


def _swap_binary(study: Any) -> str:
    program = Path(study.environment["STUB"])
    program.write_bytes(program.read_bytes() + b"#")
    return "the build stub is not the pinned one: stub-server"


def _swap_model(study: Any) -> str:
    (study.folder / "model.bin").write_bytes(b"weightz")
    return "models.lm is not the pinned one"


def _swap_flag(study: Any) -> str:
    path = study.folder / "study.toml"
    path.write_text(path.read_text().replace("--port {port}", "--port {port} --pause 0.001"))
    return "study.toml is not as registered"


def _swap_commit(study: Any) -> str:
    program = Path(study.environment["STUB"])
    program.write_text(program.read_text().replace("abc123", "abc124"))
    return "the build stub is not the pinned one: its server's commit; expected abc123; found abc124"


@pytest.mark.parametrize("swap", [_swap_binary, _swap_model, _swap_flag, _swap_commit])
def test_what_is_not_the_pinned_one_ends_with_5_before_the_first_sample(
    served: Callable[..., Any], swap: Callable[[Any], str]
) -> None:
    files = '"stub-server" = "BINARY"' if swap is _swap_binary else ""
    study = served(files=files)
    study.register()
    told = swap(study)
    done = study("run", "start")
    assert done.code == 5, done.err
    assert told in done.err
    assert study.runs() == []
    assert not list(study.folder.glob("records/*"))


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_a_killed_runner_leaves_no_server_behind(served: Callable[..., Any], tmp_path: Path, executor: str) -> None:
    told = tmp_path / "pids"
    study = served(f"--child {told} --pause 0.05")
    study.environment["TMPDIR"] = str(tmp_path)
    study("ledger", "init")
    process = study.popen("run", "start", "--exploratory", "--executor", executor)
    _until(lambda: told.exists() and len(told.read_text().split()) == 2 and _asked(study))
    pids = [int(word) for word in told.read_text().split()]
    assert all(map(alive, pids))
    process.kill()
    process.wait()
    _until(lambda: not any(map(alive, pids)))
    _until(lambda: not list(tmp_path.glob("ridgefill-server-*")))


def _asked(study: Any) -> bool:
    return any(b'"values"' in path.read_bytes() for path in study.folder.glob("records/*/journal.jsonl"))


def _until(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 240
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_ctrl_c_stops_the_server_too(served: Callable[..., Any], tmp_path: Path) -> None:
    told = tmp_path / "pids"
    study = served(f"--child {told} --pause 0.05")
    study("ledger", "init")
    process = study.popen("run", "start", "--exploratory")
    _until(lambda: _asked(study))
    pids = [int(word) for word in told.read_text().split()]
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    assert not any(map(alive, pids))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--fault loud", "ended before it was ready (exit code 3); found its last line: bye; likely cause: ValueError"),
        ("--fault deaf", "was not ready within 1 s; found it said nothing"),
    ],
)
def test_a_server_that_never_gets_ready_is_shown(served: Callable[..., Any], options: str, said: str) -> None:
    study = served(options)
    path = study.folder / "study.toml"
    if "deaf" in options:
        path.write_text(path.read_text().replace("ready_s = 120", "ready_s = 1"))
    study("ledger", "init")
    done = study("run", "start", "--exploratory")
    assert done.code == 7
    assert said in done.err
    (log,) = {word for word in done.err.split() if word.endswith(".log")}
    assert Path(log).exists()
    Path(log).unlink()
    assert study.runs() == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("gone", "the server stub ended while it answered (exit code 9)"),
        ("short", "the server's answer broke off"),
        ("cached", "20 tokens from its cache; next: start it without prefix caching"),
    ],
)
def test_a_server_that_breaks_costs_the_samples_it_broke_on(served: Callable[..., Any], fault: str, said: str) -> None:
    """Every sample is asked: a server that ended is started again for the next."""
    study = served(f"--fault {fault}")
    study("ledger", "init")
    done = study("run", "start", "--exploratory", "--task", "first")
    assert done.code == 1, done.err
    errors = {json.loads(row["detail"])["error"] for row in rows(study) if row["status"] == "error"}
    assert len({row["sample_id"] for row in rows(study)}) == 3
    assert errors
    assert all(said in error and "\n" not in error for error in errors)
    for error in errors:
        for word in error.split():
            Path(word).unlink(missing_ok=True) if word.endswith(".kept.log") else None


@contextmanager
def running(program: str, model: Path, *options: str) -> Iterator[str]:
    """A stub that somebody else has started."""
    port = free_port()
    process = subprocess.Popen([program, "--model", str(model), "--port", str(port), *options])
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("commit", "code"), [("abc123", 0), ("abc999", 5)])
def test_a_running_server_is_asked_who_it_is(
    served: Callable[..., Any], tmp_path: Path, commit: str, code: int
) -> None:
    program = tmp_path / "theirs"
    program.write_text(f"#!{sys.executable}\n{STUB.read_text()}")
    program.chmod(0o755)
    with running(str(program), STUB, "--commit", commit) as url:
        study = served(server=f'url = "{url}"')
        study("ledger", "init")
        _wait_for(url)
        done = study("run", "start", "--exploratory", "--task", "first")
        assert done.code == code, done.err
        _wait_for(url)  # it is not ours to stop
    if code:
        assert "its server's commit; expected abc123; found abc999" in done.err
        assert study.runs() == []
    else:
        assert _record(study)["pins"][-1]["detail"]["url"] == url


def _wait_for(url: str) -> None:
    _until(lambda: Client(url).answers("/health"))


def test_a_server_that_does_not_run_and_one_of_another_kind_are_told_in_a_line(served: Callable[..., Any]) -> None:
    study = served(server=f'url = "http://127.0.0.1:{free_port()}"')
    study("ledger", "init")
    done = study("run", "start", "--exploratory")
    assert done.code == 7
    assert "no server answers at http://127.0.0.1:" in done.err
    path = study.folder / "study.toml"
    other = 'command = "{env.STUB} --model {model} --port {port}"\nkind = "ridgefill"'
    lines = [line for line in path.read_text().splitlines() if not line.startswith(("url =", "kind ="))]
    path.write_text("\n".join(lines).replace("[servers.stub]", f"[servers.stub]\n{other}"))
    done = study("run", "start", "--exploratory")
    assert done.code == 7, done.err
    assert "is no ridgefill" in done.err or "answered" in done.err


def test_a_server_that_runs_alone_makes_room_and_comes_back_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, model = tmp_path / "stub-server", tmp_path / "model.bin"
    program.write_text(f"#!{sys.executable}\n{STUB.read_text()}")
    program.chmod(0o755)
    model.write_bytes(b"weights")
    monkeypatch.setenv("STUB", str(program))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server = Server(kind="llama-server", command="{env.STUB} --model {model} --port {port}", alone=True, ready_s=120)
    arm = Arm(engine="openai_http", model="m", server="s")
    engine = engines.engine("openai_http")
    one, other = (engine.open(Opening("path:m", model, {}, "fp32", {}, server, name)) for name in ("one", "other"))
    try:
        assert (one._launched, other._launched is None) == (None, False)
        built = one.build()  # what it was while it ran
        assert one._launched is None
        assert one.generate(arm, Generate((1, 2, 3), 4)).text == "abcd"
        assert (other._launched, one._launched is None) == (None, False)
        assert one.build().files == built.files
        program.write_bytes(program.read_bytes() + b"#")
        with pytest.raises(Differs, match="stub-server: the server was started again, and is another"):
            other.generate(arm, Generate((1, 2, 3), 4))
    finally:
        one.close()
        other.close()


def test_a_program_that_is_not_here_is_told_by_the_plan(served: Callable[..., Any]) -> None:
    study = served()
    study.register()
    for value, said in (("/nowhere/llama-server", "its program is not here"), ("", "the variable STUB is not set")):
        study.environment = {key: item for key, item in study.environment.items() if key != "STUB"}
        study.environment |= {"STUB": value} if value else {}
        done = study("run", "plan")
        assert done.code == 6, done.err
        (line,) = [line for line in done.err.splitlines() if "servers.stub" in line]
        assert said in line
