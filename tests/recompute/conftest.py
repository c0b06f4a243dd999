"""A finished study: five texts, three arms, one registered claim, one complete run, all of it real."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from recompute.reported import Data
from recompute.sources import Sources

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

[[grid]]
name = "{{fill}}-{{split}}"
engine = "toy"
model = "m"
fill = ["identity", "no-fill"]
split = [4]

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


def call(folder: Path, group: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One command in a study's folder; a traceback is never an answer."""
    module = {"run": "runs", "ledger": "ledger", "audit": "provenance", "recompute": "recompute"}[group]
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def _write_study(folder: Path) -> None:
    from provenance.measure import take

    (folder / "texts").mkdir(parents=True)
    source = random.Random(7)
    for number in range(5):
        (folder / "texts" / f"d{number:03}.txt").write_text("".join(source.choices("abcdefgh ", k=40)))
    (folder / "model.bin").write_bytes(b"toy weights")
    digests = {
        "model": take("model", "m", "path:model.bin", folder).digest,
        "texts": take("dataset", "texts", "path:texts", folder).digest,
    }
    (folder / "study.toml").write_text(STUDY.format(**digests))
    (folder / "claims.toml").write_text(CLAIMS)


@pytest.fixture(scope="session")
def _finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study with its keys and memory, to be copied."""
    root = tmp_path_factory.mktemp("finished")
    _write_study(root / "study")
    with pytest.MonkeyPatch.context() as patch:
        _at_home(root, patch)
        for group, command in (("ledger", "init"), ("ledger", "register"), ("run", "start")):
            done = call(root / "study", group, command)
            assert done.returncode == 0, done.stderr
    return root


def _at_home(root: Path, patch: pytest.MonkeyPatch) -> None:
    for name in ("RIDGEFILL_STATE", "RIDGEFILL_KEYS", "XDG_CACHE_HOME"):
        patch.setenv(name, str(root / name.lower()))
    patch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def finished(tmp_path: Path, _finished: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a copied study whose one run is complete; keys, memory and cache lie in the temporary folder."""
    shutil.copytree(_finished, tmp_path, dirs_exist_ok=True)
    _at_home(tmp_path, monkeypatch)
    return tmp_path / "study"


@pytest.fixture
def run_command() -> object:
    """`run_command(folder, group, *arguments)` runs the command line in a study's folder."""
    return call


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with keys, memory and cache of its own."""
    _at_home(tmp_path, monkeypatch)
    assert os.environ["XDG_CACHE_HOME"].startswith(str(tmp_path))
    return tmp_path


@pytest.fixture
def outside(home: Path) -> Callable[..., Sources]:
    """`outside(rows, ...)` writes each list of rows, in our columns, as a file of JSON lines and gives the sources."""

    def make(*tables: Sequence[Mapping[str, Any]]) -> Sources:
        told = []
        for number, rows in enumerate(tables):
            name = f"data-{number}.jsonl"
            (home / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
            told.append(Data(file=name))
        return Sources.of(home, None, told)

    return make
