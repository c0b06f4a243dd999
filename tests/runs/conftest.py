"""A whole study with the toy engine in a temporary folder, and the command line run on a copy of the packages."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("ledger", "provenance", "runs", "ridgefill")

STUDY = """
name = "toy-study"
seeds = [0]

[models.m]
source = "path:model.bin"
digest = "{model}"

[datasets.texts]
source = "path:texts"
digest = "{texts}"

[arms.exact]
engine = "toy"
model = "m"
flags = {{ delay_ms = {delay_ms} }}

[[grid]]
name = "{{fill}}-{{split}}"
engine = "toy"
model = "m"
fill = ["identity", "no-fill"]
split = [4]
flags = {{ delay_ms = {delay_ms} }}

[tasks.cont]
task = "continuation"
dataset = "texts"
length = 20
follow = 10
baseline = "exact"
"""

CLAIMS = """
[[claim]]
id = "C1"
text = "The identity fill loses more than the exact arm."

[[claim.prediction]]
id = "p1"
metric = "loss"
statistic = "paired-difference"
comparator = ">"
threshold = "0"
arm = "identity-4"
baseline = "exact"
task = "cont"
n = 5
seeds = [0]
exclusions = "none"
stop_rule = "all samples"
"""


@dataclass
class Done:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Bench:
    """A study folder and the command line, with a home of its own for keys and memory."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, group: str, *arguments: str) -> list[str]:
        module = {"run": "runs", "ledger": "ledger", "audit": "provenance"}[group]
        return [sys.executable, "-m", module, *arguments]

    def __call__(self, group: str, *arguments: str, **options: Any) -> Done:
        done = subprocess.run(
            self.command(group, *arguments),
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=300,
            check=False,
            **options,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def popen(self, group: str, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(group, *arguments),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self("run", "list", "--json").json["runs"]
        return found

    def register(self) -> None:
        for arguments in (("init",), ("register",)):
            done = self("ledger", *arguments)
            assert done.code == 0, done.err

    def twin(self, name: str) -> Bench:
        """A copy of the whole study with a memory of its own."""
        folder = self.folder.with_name(name)
        shutil.copytree(self.folder, folder)
        return Bench(folder, {**self.environment, "RIDGEFILL_STATE": str(folder.with_name(f"{name}-state"))})


@pytest.fixture(scope="session")
def bench_class() -> type[Bench]:
    """For tests that make their own study."""
    return Bench


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of our packages, so that a source file can be edited, and is not by anyone else."""
    copied = tmp_path_factory.mktemp("packages")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, copied / name, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


def _places(root: Path) -> dict[str, str]:
    return {name: str(root / name.lower()) for name in ("RIDGEFILL_STATE", "RIDGEFILL_KEYS", "XDG_CACHE_HOME")}


@pytest.fixture
def home(tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of commands: keys, memory and cache in the temporary folder."""
    for name, value in _places(tmp_path).items():
        monkeypatch.setenv(name, value)
    return {**os.environ, "PYTHONPATH": str(packages), "OMP_NUM_THREADS": "1"}


def write_study(folder: Path, samples: int, delay_ms: int) -> None:
    """A study of so many documents whose every answer takes so long; pinned, not registered."""
    from provenance.measure import take

    (folder / "texts").mkdir(parents=True)
    source = random.Random(7)
    for number in range(samples):
        (folder / "texts" / f"d{number:03}.txt").write_text("".join(source.choices("abcdefgh ", k=40)))
    (folder / "model.bin").write_bytes(b"toy weights")
    digests = {
        "model": take("model", "m", "path:model.bin", folder).digest,
        "texts": take("dataset", "texts", "path:texts", folder).digest,
    }
    (folder / "study.toml").write_text(STUDY.format(**digests, delay_ms=delay_ms))
    (folder / "claims.toml").write_text(CLAIMS)


@pytest.fixture
def make_study(tmp_path: Path, home: dict[str, str]) -> Callable[..., Bench]:
    """Write a study and give the command line for it."""

    def make(samples: int = 5, delay_ms: int = 0) -> Bench:
        write_study(tmp_path / "study", samples, delay_ms)
        return Bench(tmp_path / "study", home)

    return make


@pytest.fixture(scope="session")
def registered(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Path:
    """A registered study with its keys and memory, to be copied."""
    root = tmp_path_factory.mktemp("registered")
    write_study(root / "study", 5, 0)
    Bench(root / "study", {**os.environ, **_places(root), "PYTHONPATH": str(packages)}).register()
    return root


@pytest.fixture
def study(tmp_path: Path, registered: Path, home: dict[str, str]) -> Bench:
    """Five samples, three arms, one registered claim."""
    shutil.copytree(registered, tmp_path, dirs_exist_ok=True)
    return Bench(tmp_path / "study", home)
