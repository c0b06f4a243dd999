"""What the ledger's tests share: the golden ledger, drafts of false ones, real studies, and the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

import ledger.commands.prove
import ledger.commands.read
import ledger.commands.write  # noqa: F401 - loaded before forking
from ledger.cli import ledger as ledger_group
from ledger.console import guard

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"

CLAIMS = """
[[claim]]
id = "C1"
text = "Maps keep the loss"
files = ["config.toml"]
[[claim.prediction]]
id = "P1"
metric = "nll"
statistic = "mean_difference"
comparator = "<"
threshold = "0.05"
n = 40
seeds = [0, 1]
exclusions = "none"
stop_rule = "all samples scored"

[[claim]]
id = "C2"
text = "Look at the value heads"
exploratory = true
follows = "C1"
"""


def _module(name: str) -> ModuleType:
    spec = spec_from_file_location(f"golden_{name}", GOLDEN / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def make() -> ModuleType:
    """tests/golden/make_ledger.py: Draft, claim(), prediction(), private(), build()."""
    return _module("make_ledger")


@pytest.fixture(scope="session")
def golden(make: ModuleType) -> dict[str, bytes]:
    """Every file of the golden ledger."""
    folder = GOLDEN / "ledger"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A time-stamping authority of our own."""
    return _module("authority").Authority(tmp_path_factory.mktemp("authority") / "tsa")


@pytest.fixture(scope="session")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One that nobody trusts."""
    return _module("authority").Authority(tmp_path_factory.mktemp("authority") / "tsa", "a stranger")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and memory of every test in its own folder; never the user's."""
    monkeypatch.setenv("RIDGEFILL_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("RIDGEFILL_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("RIDGEFILL_DEBUG", raising=False)


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        assert self.out.endswith("\n")
        assert self.out.count("\n") == 1, self.out
        value = json.loads(self.out)
        assert isinstance(value, dict)
        assert value["exit_code"] == self.code
        assert value["ok"] is (self.code == 0)
        return value

    @property
    def error(self) -> str:
        """The one line of an error."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self.err
        return lines[0]


def run(*arguments: object, cwd: Path | None = None, **environment: str) -> Answer:
    """Run the command in a process of its own, forked from this one: exit code, stdout, stderr as a user sees them."""
    words = [os.fsdecode(_plain(argument)) for argument in arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            _become(words, out.fileno(), err.fileno(), cwd, environment)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        err.seek(0)
        return _told(code, out.read(), err.read())


def _become(words: list[str], out: int, err: int, cwd: Path | None, environment: dict[str, str]) -> NoReturn:
    """The child: what `python -m ledger` does, without the 0.2 seconds of its imports."""
    code: Any = 99
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open until the child ends
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        os.environ.update(environment)
        if cwd:
            os.chdir(cwd)
        sys.argv = ["ledger", *words]
        guard(ledger_group)
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _spawned(*arguments: object, cwd: Path | None = None, **environment: str) -> Answer:
    """Run `python -m ledger` from scratch."""
    done = subprocess.run(
        [sys.executable, "-m", "ledger", *map(_plain, arguments)],
        capture_output=True,
        check=False,
        cwd=cwd,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    return _told(done.returncode, done.stdout, done.stderr)


def _told(code: int, out: bytes, err: bytes) -> Answer:
    """No command may ever show a traceback or blame itself."""
    answer = Answer(code, out.decode(), err.decode())
    assert "Traceback" not in answer.err, answer.err
    assert "a fault in ridgefill" not in answer.err + answer.out, answer.err
    return answer


def _plain(argument: object) -> Any:
    return argument if isinstance(argument, str | bytes | os.PathLike) else str(argument)


@pytest.fixture
def cli() -> Any:
    """`cli("verify", folder)` -> Answer."""
    return run


@pytest.fixture
def spawned() -> Any:
    """The same from scratch: slower, and exactly what a shell runs."""
    return _spawned


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `study` copies: study/, keys/ and state/, made by the commands."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "study").mkdir()
    (folder / "study" / "claims.toml").write_text(CLAIMS)
    (folder / "study" / "config.toml").write_text("split = 11\n")
    places = {"RIDGEFILL_KEYS": str(folder / "keys"), "RIDGEFILL_STATE": str(folder / "state")}
    for command in (["init", "--name", "toy"], ["register"], ["note", "hello"], ["checkpoint"]):
        answer = run(*command, "-C", folder / "study", **places)
        assert (answer.code, answer.err) == (0, "")
    return folder


@pytest.fixture
def study(made_once: Path, tmp_path: Path) -> Path:
    """A study with a ledger of five entries: genesis, C1, C2, a remark, a checkpoint."""
    shutil.copytree(made_once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "study"


@pytest.fixture
def golden_study(tmp_path: Path) -> Path:
    """A copy of the golden ledger that may be hurt."""
    return Path(shutil.copytree(GOLDEN / "ledger", tmp_path / "golden"))
