"""Studies for machines that are not this one: they can be read anywhere, and what is missing is told in a line each."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from runs.engines.http_kinds import KINDS
from runs.load import load_study
from runs.study import Study

READY = Path(__file__).parents[2] / "studies" / "ready"
STUDIES = sorted(path.parent for path in READY.glob("*/study.toml"))
IMAGE = "sha256:809657ddb1533db10a0c08267c3ee6fde180b839e379713414efa121415914a3"
MAPS = "8646d41a5a28d60ef53cc5e1fee4b2bfb20d0775db88d3f89d0731ad9f6b629d"


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STOCK", "RIDGEFILL"):
        monkeypatch.setenv(f"LLAMA_SERVER_{name}", "/opt/llama-server")


def study(name: str) -> Study:
    return load_study(READY / name)


def test_there_are_two() -> None:
    assert [path.name for path in STUDIES] == ["qwen3.8-27b-llamacpp", "vllm"]


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_the_plan_says_what_this_machine_lacks(
    path: Path, tmp_path: Path, home: dict[str, str], bench_class: Any
) -> None:
    ready = load_study(path)
    copied = shutil.copytree(path, tmp_path / "ready")
    bare = {name: value for name, value in home.items() if not name.startswith("LLAMA_SERVER")}
    bench = bench_class(copied, {**bare, "HF_HOME": str(tmp_path / "hub"), "PATH": "/nowhere"})
    no_ledger = bench("run", "plan")
    assert (no_ledger.code, no_ledger.err.count("\n")) == (6, 1)
    assert "next: ridgefill ledger init" in no_ledger.err
    assert bench("ledger", "init").code == 0
    done = bench("run", "plan", "--exploratory")
    assert done.code in (5, 6)
    lacking = [line for line in done.err.splitlines() if line.startswith("error: study.toml: ")]
    for name in (*ready.models, *ready.maps, *ready.datasets, *ready.servers):
        (line,) = [line for line in lacking if f".{name}: " in line]
        assert "expected" in line
    assert len(lacking) == len(done.err.splitlines())


def test_the_arms_of_the_27b_differ_in_ridgefill_alone() -> None:
    servers = study("qwen3.8-27b-llamacpp").servers
    stock, off, filled = (servers[name].words({}) for name in ("stock", "off", "ridgefill"))
    assert stock[1:] == off[1:]
    assert filled[: len(off)] == off
    assert filled[len(off) :] == ["--ridgefill", "{maps.s16}", "--ridgefill-alpha", "0"]
    assert study("qwen3.8-27b-llamacpp").maps["s16"].digest == MAPS
    commits = {name: build.reports["commit"] for name, build in study("qwen3.8-27b-llamacpp").builds.items()}
    assert commits == {"stock": "1242be66f", "off": "b0439f7bb", "ridgefill": "b0439f7bb"}


def test_the_image_of_vllm_is_the_papers_in_every_command() -> None:
    for server in study("vllm").servers.values():
        assert f"tcclaviger/vllm@{IMAGE}" in server.words({})


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_every_server_starts_without_remembering_prompts_and_alone(path: Path) -> None:
    for server in load_study(path).servers.values():
        assert server.alone
        assert server.kind in KINDS
        assert {"--no-enable-prefix-caching", "--cache-reuse"} & set(server.words({}))
