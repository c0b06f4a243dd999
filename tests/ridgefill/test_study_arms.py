"""Arms of a study: each deployment as one line, and every selector and correction, through `run start`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import ridgefill
from ledger.errors import Faults
from ridgefill.corrections import CORRECTIONS
from ridgefill.errors import FillUsageError
from ridgefill.rowsel import RowTable
from ridgefill.selectors import SELECTORS
from ridgefill.terminal import correct
from runs.engines.base import Opening, Score
from runs.engines.reference import ENGINE
from runs.load import parse_study
from runs.study import Arm

STUDY = """
name = "deployed"
[models.lm]
source = "path:lm"
[maps.m]
source = "path:maps"
[datasets.texts]
source = "path:texts"
[arms.exact]
engine = "reference"
model = "lm"
[arms.named]
engine = "reference"
model = "lm"
fill = "map"
maps = "m"
{named}
[arms.written]
engine = "reference"
model = "lm"
fill = "map"
maps = "m"
{written}
[tasks.cont]
task = "continuation"
dataset = "texts"
length = {length}
follow = 4
baseline = "exact"
"""

# deployment, family, layers, the same written out, tokens of the prompt
DEPLOYED = [
    ("reference", "llama", 32, "split = 12\ntail = 4096", 4130),
    pytest.param(
        *("qwen3.8-27b", "qwen3_5", 64),
        'split = 16\ntail = 4096\nrows = "probe"\ncorrections = ["value-rescale"]',
        4160,
        marks=pytest.mark.slow,
    ),
    pytest.param("flash-next", "qwen4_exp", 48, "split = 24\ntail = 2048", 2112, marks=pytest.mark.slow),
    pytest.param(
        *("flash-next-quality", "qwen4_exp", 48),
        'split = 24\ntail = 2048\nrows = "protected"\ncorrections = ["terminal-state"]',
        2112,
        marks=pytest.mark.slow,
    ),
]


def text(step: int, length: int) -> str:
    return " ".join(f"w{(i * i + step * i) % 95 + 2}" for i in range(length))


def maps_of(model: Any, words: Any, split: int) -> ridgefill.Maps:
    """Maps with all that a release of the paper carries beside them: rarities, and the correction of a hybrid."""
    fitted = ridgefill.fit(model, words, [text(1, 300)], splits=[split], penalty=0.1)[split]
    fitted = RowTable.of(words, [text(1, 300)]).attach(fitted, [text(1, 300)])
    if "recurrent" not in fitted.manifest.layers.values():
        return fitted
    return correct(model, words, fitted, [text(2, 200)], every=64)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of our packages: a run refuses to end on a source that was edited meanwhile."""
    copied, root = tmp_path_factory.mktemp("packages"), Path(ridgefill.__file__).parents[1]
    for name in ("ledger", "provenance", "runs", "ridgefill"):
        shutil.copytree(root / name, copied / name, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


@pytest.fixture
def command(tmp_path: Path, packages: Path) -> Callable[..., tuple[int, str]]:
    """command("run", "plan"): exit code and output, in the study's folder."""
    (tmp_path / "study").mkdir()
    places = {name: str(tmp_path / name.lower()) for name in ("RIDGEFILL_STATE", "RIDGEFILL_KEYS", "XDG_CACHE_HOME")}
    environment = {**os.environ, **places, "PYTHONPATH": str(packages), "OMP_NUM_THREADS": "1"}

    def call(*arguments: str) -> tuple[int, str]:
        line = [sys.executable, "-m", "ridgefill", *arguments]
        done = subprocess.run(
            line, cwd=tmp_path / "study", env=environment, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    return call


@pytest.mark.parametrize(("name", "family", "layers", "written", "length"), DEPLOYED)
def test_one_line_is_table_4(
    name: str, family: str, layers: int, written: str, length: int, tiny: Any, words: Any, tmp_path: Path, command: Any
) -> None:
    """Bit for bit, on a model of that depth and a prompt longer than the tail, and not what the exact arm answers."""
    folder, model = tmp_path / "study", tiny(family, num_hidden_layers=layers, max_position_embeddings=8192)
    model.save_pretrained(folder / "lm")
    words.save_pretrained(folder / "lm")
    split = int(written.split()[2])
    maps_of(model, words, split).save(folder / "maps")
    (folder / "texts").mkdir()
    (folder / "texts" / "one.txt").write_text(text(3, length + 4))
    (folder / "study.toml").write_text(STUDY.format(named=f'deployment = "{name}"', written=written, length=length))
    assert command("ledger", "init")[0] == 0
    code, out = command("run", "plan", "--exploratory")
    assert code == 0
    assert f"{name}: " in out
    assert f"split {split} of {layers} layers" in out
    code, out = command("run", "start", "--exploratory")
    assert code == 0, out
    (samples,) = (folder / "records").glob("*/samples.parquet")
    rows = pq.ParquetFile(samples).read(use_threads=False).to_pylist()
    assert {row["status"] for row in rows} == {"ok"}
    assert not [row for row in rows if json.loads(row["detail"]).get("exactly")]
    told = {
        arm: {row["metric"]: row["value"] for row in rows if row["arm"] == arm} for arm in ("exact", "named", "written")
    }
    assert told["named"] == told["written"]
    assert told["named"]["loss"] != told["exact"]["loss"]


ARMS = """
name = "methods"
[models.lm]
source = "path:lm"
[maps.m]
source = "path:maps"
[datasets.texts]
source = "path:texts"
[arms.exact]
engine = "reference"
model = "lm"
{arms}
[tasks.cont]
task = "continuation"
dataset = "texts"
length = {length}
follow = 6
baseline = "exact"
"""
ARM = """[arms.{name}]
engine = "reference"
model = "lm"
fill = "map"
maps = "m"
split = 4
tail = 40
{key}
"""
# Something for every selector: a special token, digits, capitals, and a sentence that the question names.
PROMPT = (
    "<|mark|>The access code for vault Zephyr is 88231. "
    + "It goes on about other things that Nobody asks for. " * 9
    + "What is the access code for vault Zephyr?"
)


def letters() -> PreTrainedTokenizerFast:
    """A tokenizer of bytes and one special token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=alphabet[0])
    made.add_special_tokens({"additional_special_tokens": ["<|mark|>"]})
    return made


@pytest.mark.parametrize(
    "family",
    ["llama", pytest.param("qwen3_5", marks=pytest.mark.slow), pytest.param("qwen4_exp", marks=pytest.mark.slow)],
)
def test_every_selector_and_correction_of_the_registries(family: str, tiny: Any, tmp_path: Path, command: Any) -> None:
    """Each by its name in a study file, some at a share too; none leaves the answer as it is without."""
    folder, model, tokenizer = tmp_path / "study", tiny(family, vocab_size=257), letters()
    model.save_pretrained(folder / "lm")
    tokenizer.save_pretrained(folder / "lm")
    maps = ridgefill.fit(model, tokenizer, [PROMPT[::-1]], splits=[4], penalty=0.1)[4]
    hybrid = "recurrent" in maps.manifest.layers.values()
    if hybrid:
        maps = correct(model, tokenizer, maps, [PROMPT.swapcase()], every=64)
    maps.save(folder / "maps")
    (folder / "texts").mkdir()
    (folder / "texts" / "one.txt").write_text(PROMPT + " It is")
    corrections = [name for name in CORRECTIONS if hybrid or name != "terminal-state"] + ["exact-keys", "exact-values"]
    keys = {"plain": ""} | {name: f'rows = "{name}"' for name in SELECTORS}
    keys |= {f"{name}-tenth": f'rows = "{name}"\nshare = 0.1' for name in ("digits", "protected", "probe")}
    keys |= {name: f'corrections = ["{name}"]' for name in corrections}
    arms = "".join(ARM.format(name=name, key=key) for name, key in keys.items())
    length = len(tokenizer(PROMPT)["input_ids"])
    (folder / "study.toml").write_text(ARMS.format(arms=arms, length=length))
    assert command("ledger", "init")[0] == 0
    code, out = command("run", "start", "--exploratory")
    assert code == 0, out
    (samples,) = (folder / "records").glob("*/samples.parquet")
    rows = pq.ParquetFile(samples).read(use_threads=False).to_pylist()
    assert {row["status"] for row in rows} == {"ok"}
    losses = {row["arm"]: row["value"] for row in rows if row["metric"] == "loss"}
    assert losses.keys() == {"exact", *keys}
    assert [name for name in losses if losses[name] == losses["plain"]] == ["plain"]


@pytest.mark.parametrize("beside", ["split = 16", "tail = 9", 'rows = "digits"', 'corrections = ["value-rescale"]'])
def test_nothing_that_it_decides_may_stand_beside_it(beside: str) -> None:
    wrong = STUDY.format(named=f'deployment = "qwen3.8-27b"\n{beside}', written="split = 3", length=9)
    with pytest.raises(Faults) as caught:
        parse_study(wrong, "study.toml")
    (fault,) = caught.value.faults
    assert fault.startswith("study.toml:12: arms.named: the deployment 'qwen3.8-27b' decides")
    assert f"no {beside.split()[0]} beside it" in fault


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ('deployment = "qwen3.8"', "deployments are reference, qwen3.8-27b, flash-next, flash-next-quality, not 'qwen"),
        ("", "needs a split, or a deployment that has one"),
    ],
)
def test_an_unknown_one_and_none_are_told_when_the_file_is_read(named: str, says: str) -> None:
    with pytest.raises(Faults) as caught:
        parse_study(STUDY.format(named=named, written="split = 3", length=9), "study.toml")
    (fault,) = caught.value.faults
    assert says in fault


def test_an_exact_arm_and_the_toy_engine_have_none() -> None:
    for old, new, says in (
        ('fill = "map"\nmaps = "m"\ndep', "dep", "an exact arm has no split"),
        ('"reference"\nmodel = "lm"\nfill = "map"\nmaps', '"toy"\nmodel = "lm"\nfill = "map"\nmaps', "the toy engine"),
    ):
        good = STUDY.format(named='deployment = "reference"', written="split = 3", length=9)
        with pytest.raises(Faults) as caught:
            parse_study(good.replace(old, new, 1), "study.toml")
        assert any(says in fault for fault in caught.value.faults)


def test_what_a_study_may_name_is_what_the_registries_have() -> None:
    """A study is read without torch, so the engine has the names by itself."""
    for key, names in (("rows", SELECTORS), ("corrections", CORRECTIONS)):
        for name in names:
            value = name if key == "rows" else (name,)
            assert ENGINE.check(Arm(engine="reference", model="lm", fill="identity", split=3, **{key: value})) == ""
    told = ENGINE.check(Arm(engine="reference", model="lm", fill="identity", split=3, rows="best"))
    assert told == f"rows are {', '.join(SELECTORS)}, not 'best'"
    told = ENGINE.check(Arm(engine="reference", model="lm", fill="identity", split=3, corrections=("magic",)))
    assert all(name in told for name in CORRECTIONS)


def test_a_model_of_another_depth_is_refused_by_name(tiny: Any, words: Any, tmp_path: Path) -> None:
    tiny("qwen3").save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    opened = ENGINE.open(Opening("path:lm", tmp_path, {}, "fp32", {}))
    arm = Arm(engine="reference", model="lm", fill="identity", deployment="flash-next")
    with pytest.raises(FillUsageError, match=r"flash-next says nothing.*expected 48 layers; found 6"):
        opened.score(arm, Score(tuple(range(2, 60)), 50), None)
    opened.close()
