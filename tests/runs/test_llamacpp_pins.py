"""llama.cpp's pins: a library, a byte of the model or a flag that changed ends a run before its first sample."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.errors import Differs
from runs.engines import llamacpp_installed

here = pytest.mark.skipif(find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed")


def _contract() -> Any:
    """The tiny models of the engines' contract test."""
    spec = spec_from_file_location("engines_contract", Path(__file__).parents[1] / "contracts" / "test_engines.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _kept(name: str, digest: str) -> str:
    return f'{{"url": "file:///{name}", "archive_info": {{"hashes": {{"sha256": "{digest}"}}}}}}'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, ""),
        ("{}", ""),
        (_kept("a.whl", "00"), ""),
        (_kept("a.tar.gz", llamacpp_installed.ARCHIVE), llamacpp_installed.ARCHIVE),
    ],
)
def test_the_source_archive_is_what_the_installer_kept(text: str | None, found: str) -> None:
    assert llamacpp_installed._archive(text) == found


def test_another_source_archive_is_refused() -> None:
    with pytest.raises(Differs, match="another source archive"):
        llamacpp_installed._archive(_kept("a.tar.gz", "00"))


STUDY = """
name = "serving"

[models.lm]
source = "path:lm.gguf"
digest = "{model}"

[datasets.texts]
source = "path:texts"
digest = "{texts}"

[builds.llama]
engine = "llamacpp"
packages = {{ llama-cpp-python = "0.3.36" }}

[arms.exact]
engine = "llamacpp"
model = "lm"
flags = {{ prefill = "handoff", threads = 1 }}

[arms.filled]
engine = "llamacpp"
model = "lm"
fill = "identity"
split = 2
tail = 8
flags = {{ prefill = "handoff", threads = 1 }}

[tasks.cont]
task = "continuation"
dataset = "texts"
length = 60
follow = 8
baseline = "exact"
"""

CLAIMS = """
[[claim]]
id = "C1"
text = "The identity fill is worse."

[[claim.prediction]]
id = "p1"
metric = "loss"
statistic = "paired-difference"
comparator = ">"
threshold = "0"
arm = "filled"
baseline = "exact"
task = "cont"
n = 2
seeds = [0]
exclusions = "none"
stop_rule = "all samples"
"""


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory, packages: Path, bench_class: Callable[..., Any]) -> SimpleNamespace:
    """A registered study on the tiny GGUF, and a copy of llama-cpp-python that its commands import."""
    from provenance.measure import take

    root, contract = tmp_path_factory.mktemp("pins"), _contract()
    own, folder = root / "packages", root / "study"
    shutil.copytree(packages, own)
    site = Path(str(find_spec("llama_cpp").submodule_search_locations[0])).parent  # type: ignore[union-attr,index]
    for name in ("llama_cpp", "lib", "bin", "include", f"llama_cpp_python-{llamacpp_installed.VERSION}.dist-info"):
        if (site / name).is_dir():
            shutil.copytree(site / name, own / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "texts").mkdir(parents=True)
    for number in range(2):
        (folder / "texts" / f"d{number}.txt").write_text(contract.TEXT[number * 9 :])
    contract.tiny_model(root / "model")
    contract.tiny_gguf(root / "model", folder / "lm.gguf")
    digests = {
        "model": take("model", "lm", "path:lm.gguf", folder).digest,
        "texts": take("dataset", "texts", "path:texts", folder).digest,
    }
    (folder / "study.toml").write_text(STUDY.format(**digests))
    (folder / "claims.toml").write_text(CLAIMS)
    places = {name: str(root / name.lower()) for name in ("RIDGEFILL_STATE", "RIDGEFILL_KEYS", "XDG_CACHE_HOME")}
    study = bench_class(folder, {**os.environ, **places, "PYTHONPATH": str(own), "OMP_NUM_THREADS": "1"})
    for words in (("init", "-q"), ("add", "study.toml"), ("commit", "-q", "-m", "as registered")):
        identity = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *words], cwd=folder, check=True)
    study.register()
    return SimpleNamespace(study=study, own=own)


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@here
def test_another_library_another_byte_another_flag_end_before_the_first_sample(ready: Any) -> None:
    """Real bytes changed in copies: exit 5 that names it, and no run; then the same study runs and verifies."""
    folder = ready.study.folder
    library = next((ready.own / "llama_cpp" / "lib").glob("libggml-cpu.so"))
    text = (folder / "study.toml").read_text()
    for spoil, path, named in (
        (_flip, library, "llama_cpp/lib/libggml-cpu.so is not as it was installed"),
        (_flip, folder / "lm.gguf", "models.lm is not the pinned one"),
        (
            lambda path: path.write_text(text.replace("threads = 1", "threads = 2")),
            folder / "study.toml",
            '+ flags = { prefill = "handoff", threads = 2 }',
        ),
        (lambda path: path.write_text(text.replace("0.3.36", "0.3.35")), folder / "study.toml", "0.3.35"),
    ):
        kept = path.read_bytes()
        spoil(path)
        done = ready.study("run", "start")
        assert (done.code, named in done.err) == (5, True), done.err
        assert ready.study.runs() == []
        path.write_bytes(kept)
    done = ready.study("run", "start")
    assert done.code == 0, done.err
    assert len(ready.study.runs()) == 1
    assert ready.study("ledger", "verify").code == 0
    assert ready.study("audit", "builds").code == 0


@here
def test_every_library_of_the_package_is_held_against_what_was_installed(ready: Any) -> None:
    """Each in turn, a byte changed in the copy: named, and nothing of llama.cpp was loaded before."""
    code = """
import sys
from pathlib import Path
from ledger.errors import Differs
from runs.engines.llamacpp_installed import check_installed
check_installed()
for path in map(Path, sys.argv[1:]):
    kept = path.read_bytes()
    path.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    try:
        check_installed()
    except Differs as wrong:
        print(wrong.exit_code, wrong.line().split(" is not as it was installed")[0])
    path.write_bytes(kept)
print("llama_cpp" in sys.modules)
"""
    libraries = sorted((ready.own / "llama_cpp" / "lib").glob("*.so*"))
    run = [sys.executable, "-c", code, *map(str, libraries)]
    done = subprocess.run(run, env=ready.study.environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [*(f"5 llama_cpp/lib/{path.name}" for path in libraries), "False"]
    assert len({path.name.split(".so")[0] for path in libraries}) == 5  # llama, mtmd, ggml and two parts of it


@here
def test_a_library_that_passes_for_the_installed_one_is_refused_too(ready: Any, tmp_path: Path) -> None:
    """One from elsewhere that the loader prefers; one in its place, RECORD and all, where the study pins the file."""
    folder, own = ready.study.folder, ready.own
    before = ready.study.runs()
    base = own / "llama_cpp" / "lib" / "libggml-base.so.0"
    record = own / f"llama_cpp_python-{llamacpp_installed.VERSION}.dist-info" / "RECORD"
    kept, listed, text = base.read_bytes(), record.read_text(), (folder / "study.toml").read_text()
    other = kept + b"one more"  # bytes after an ELF's end change nothing that it does
    (tmp_path / base.name).write_bytes(other)
    elsewhere = {**ready.study.environment, "LD_LIBRARY_PATH": str(tmp_path)}
    done = type(ready.study)(folder, elsewhere)("run", "start")
    assert (done.code, f"another {base.name} is loaded" in done.err) == (5, True), done.err

    pinned = f'[builds.llama.files]\n"{base.name}" = "{sha256(kept).hexdigest()}"\n\n[arms.exact]'
    (folder / "study.toml").write_text(text.replace("[arms.exact]", pinned))
    base.write_bytes(other)
    digest = base64.urlsafe_b64encode(sha256(other).digest()).decode().rstrip("=")
    record.write_text(
        re.sub(rf"(llama_cpp/lib/{re.escape(base.name)},)[^\n]*", rf"\1sha256={digest},{len(other)}", listed)
    )
    done = ready.study("run", "start", "--exploratory")
    assert (done.code, f"the build llama is not the pinned one: {base.name}" in done.err) == (5, True), done.err
    for path, content in ((base, kept), (record, listed.encode()), (folder / "study.toml", text.encode())):
        path.write_bytes(content)
    assert ready.study.runs() == before
