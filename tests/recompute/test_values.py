"""Values as a whole: what is kept and how it is lost, what moves a value and what must not."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from recompute import keep, tables
from recompute.estimate import Estimate
from recompute.keep import Computed, cache_file, read_cache, write_cache
from recompute.reported import Data
from recompute.sources import Sources
from recompute.spec import Spec
from recompute.valued import Valued
from recompute.values import recomputed
from runs.history import read_history

Make = Callable[..., Sources]

SPECS = {
    "difference": Spec(statistic="paired_difference", metric="m", arm="a", baseline="b", resamples=400, unit="points"),
    "floor": Spec(statistic="non_inferiority", metric="m", arm="a", baseline="a", resamples=400),
    "median": Spec(statistic="median", metric="m", arm="a", resamples=400, interval="percentile"),
    "sign": Spec(statistic="sign_test", metric="m", arm="a", baseline="b"),
    "gap": Spec(statistic="gap_closed", metric="m", arm="a", baseline="b", exact="c", resamples=400),
    "refused": Spec(statistic="mean", metric="m", arm="d"),
    "zeros": Spec(statistic="mean", metric="m", arm="a", missing="score_zero", interval="none"),
}


def rows(seed: int = 0, n: int = 40) -> list[dict[str, Any]]:
    source = random.Random(seed)
    return [
        {"arm": arm, "task": "t", "sample_id": f"s{i:03}", "metric": metric, "value": source.random() + shift}
        | {"stratum": f"h{i % 3}"}
        for shift, arm in enumerate("abc")
        for metric in ("m", "other")
        for i in range(n)
    ]


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Sources]:
    """How often the tables were loaded."""
    calls: list[Sources] = []
    real = tables.load

    def counted(sources: Sources, *arguments: Any, **named: Any) -> tables.Tables:
        calls.append(sources)
        return real(sources, *arguments, **named)

    monkeypatch.setattr("recompute.computed.load", counted)
    return calls


def test_what_is_kept_is_exactly_what_was_computed(outside: Make, loads: list[Sources]) -> None:
    sources = outside(rows())
    bare = recomputed(sources, SPECS, cache=False)
    first = recomputed(sources, SPECS)
    again = recomputed(sources, SPECS)
    assert bare == first == again
    assert len(loads) == 2
    assert list(again) == list(SPECS)
    assert [name for name, value in again.items() if value.refused] == ["refused"]
    assert all(value.key for name, value in again.items() if name != "refused")
    more = SPECS | {"new": SPECS["median"].model_copy(update={"metric": "other"})}
    assert recomputed(sources, more) == recomputed(sources, more, cache=False)
    assert len(loads) == 4
    recomputed(sources, SPECS)
    recomputed(sources, more)
    assert len(loads) == 4  # asking for less forgets nothing


def test_kept_values_open_no_database_and_load_no_scipy(finished: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from recompute.sources import Sources\n"
        "from recompute.spec import Spec\n"
        "from recompute.values import recomputed\n"
        "from runs.history import read_history\n"
        "spec = Spec(statistic='paired_difference', metric='loss', arm='identity-4', baseline='exact', task='cont')\n"
        "told = recomputed(Sources.of(Path('.'), read_history(Path('.')), ()), {'v': spec})['v']\n"
        "print(told.estimate, told.key, sorted({'duckdb', 'pyarrow', 'scipy'} & set(sys.modules)), sep='|')\n"
    )

    def run() -> list[str]:
        call = [sys.executable, "-c", program]
        done = subprocess.run(call, cwd=finished, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().split("|")

    cold, kept = run(), run()
    assert cold[:2] == kept[:2]
    assert cold[2] == "['duckdb', 'pyarrow', 'scipy']"
    assert kept[2] == "[]"


def test_a_damaged_cache_costs_time_and_never_truth(outside: Make, loads: list[Sources]) -> None:
    sources = outside(rows())
    right = recomputed(sources, SPECS)
    file = cache_file(sources.folder)
    whole = file.read_bytes()
    head, body = whole.split(b"\n", 1)
    number = body.index(b'"value":"') + len(b'"value":"')
    flipped = bytes([body[number] ^ 1]) if body[number : number + 1].isdigit() else b"7"
    damaged = {
        "cut": whole[: len(whole) // 2],
        "cut by one byte": whole[:-1],
        "empty": b"",
        "garbage": b"\x00\xff" * 50,
        "another version": whole.replace(b"ridgefill values 1", b"ridgefill values 0", 1),
        "one digit": head + b"\n" + body[:number] + flipped + body[number + 1 :],
        "not an object": b"[]",
    }
    for how, data in damaged.items():
        assert data != whole
        file.write_bytes(data)
        before = len(loads)
        assert recomputed(sources, SPECS) == right, how
        assert len(loads) == before + 1, how
        assert file.read_bytes() == whole, how
    file.unlink()
    file.mkdir()
    assert recomputed(sources, SPECS) == right
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_cache_that_cannot_be_written_is_no_failure(outside: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = outside(rows())
    (sources.folder / "a-file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(sources.folder / "a-file"))
    assert recomputed(sources, SPECS) == recomputed(sources, SPECS, cache=False)


def test_data_code_and_mapping_move_the_key_and_a_new_value_is_computed(
    outside: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"v": SPECS["difference"]}
    first = recomputed(outside(rows()), spec)["v"]
    other = recomputed(outside(rows(seed=1)), spec)["v"]
    assert first.estimate != other.estimate
    sources = outside(rows())
    assert recomputed(sources, spec)["v"] == first
    told = [Data(file="data-0.jsonl", columns={"stratum": "arm"}, where={"metric": "m"})]
    mapped = recomputed(Sources.of(sources.folder, None, told), spec)["v"]
    for module in ("digests", "values", "computed"):
        monkeypatch.setattr(f"recompute.{module}.code_digest", lambda: "another", raising=False)
    recoded = recomputed(sources, spec)["v"]
    assert recoded.estimate == first.estimate
    assert len({value.key for value in (first, other, mapped, recoded)}) == 4


def test_a_file_that_a_value_does_not_read_moves_neither_it_nor_its_key(outside: Make) -> None:
    unrelated = [{"arm": "z", "task": "u", "sample_id": "s", "metric": "m", "value": 1}]
    wanted = {name: spec for name, spec in SPECS.items() if name != "refused"}  # its line lists the arms there are
    assert recomputed(outside(rows()), wanted) == recomputed(outside(rows(), unrelated), wanted)


def test_rows_in_any_order_and_other_specs_move_nothing(outside: Make) -> None:
    """The invariances of statistics.md 2d that the selection could break."""
    wanted = {name: spec for name, spec in SPECS.items() if name != "refused"}
    first = recomputed(outside(rows()), wanted, cache=False)
    mixed = rows()
    random.Random(5).shuffle(mixed)
    shuffled = recomputed(outside(mixed), dict(reversed(wanted.items())), cache=False)
    for name in wanted:
        assert shuffled[name].estimate == first[name].estimate, name
    for name, spec in wanted.items():
        assert recomputed(outside(rows()), {name: spec}, cache=False)[name] == first[name]


def test_one_process_gives_what_several_give(outside: Make) -> None:
    sources = outside(rows())
    program = (
        "import sys, json\n"
        "from pathlib import Path\n"
        "from recompute.reported import Data\n"
        "from recompute.sources import Sources\n"
        "from recompute.spec import Spec\n"
        "from recompute.values import recomputed\n"
        "specs = {name: Spec.model_validate(spec) for name, spec in json.loads(sys.argv[1]).items()}\n"
        "sources = Sources.of(Path('.'), None, [Data(file='data-0.jsonl')])\n"
        "print(json.dumps({k: v.as_dict() for k, v in recomputed(sources, specs, cache=False).items()}))\n"
    )
    found: dict[str, Any] = {}
    for half in (list(SPECS)[::2], list(SPECS)[1::2]):
        asked = json.dumps({name: SPECS[name].model_dump(mode="json") for name in half})
        call = [sys.executable, "-c", program, asked]
        done = subprocess.run(call, cwd=sources.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found |= json.loads(done.stdout)
    assert found == {name: value.as_dict() for name, value in recomputed(sources, SPECS, cache=False).items()}


def both(outside: Make, a: list[float], b: list[float], spec: Spec) -> Valued:
    values = (("a", a), ("b", b))
    data = [
        {"arm": arm, "task": "t", "sample_id": f"s{i:03}", "metric": "m", "value": value}
        for arm, column in values
        for i, value in enumerate(column)
    ]
    return recomputed(outside(data), {"v": spec}, cache=False)["v"]


@pytest.mark.parametrize("same", [1.0, 0.1])
def test_equal_arms_have_a_degenerate_interval_and_no_noise(outside: Make, same: float) -> None:
    """Bug log 1 (scipy#14804): constant data; pytest turns any warning into an error."""
    told = both(outside, [same] * 30, [same] * 30, SPECS["difference"]).estimate
    assert told is not None
    assert (told.value, told.ends, told.flags) == (0, (0, 0), ("degenerate",))


def test_no_discordant_pair_is_an_answer(outside: Make) -> None:
    """Bug log 20 (evaluate#795): a division by zero."""
    told = both(outside, [1, 0, 1], [1, 0, 1], SPECS["sign"]).estimate
    assert told is not None
    assert (told.value, dict(told.counts)) == (1, {"gains": 0, "losses": 0, "ties": 3})


def test_the_resamples_spread_as_the_formula_says(outside: Make) -> None:
    """Bug log 20 (compare-mt#108): half the items without replacement would be too narrow by the root of two."""
    source = random.Random(3)
    a = [source.gauss(0, 1) for _ in range(200)]
    spec = Spec(statistic="mean", metric="m", arm="a", interval="percentile", level=0.6827)
    told = both(outside, a, [0.0] * 200, spec).estimate
    assert told is not None
    assert told.ends is not None
    low, high = told.ends
    mean = sum(a) / 200
    error = (sum((x - mean) ** 2 for x in a)) ** 0.5 / 200
    assert float((high or 0) - (low or 0)) / 2 == pytest.approx(error, rel=0.04)


def test_values_are_in_the_unit_that_is_printed(outside: Make) -> None:
    plain = replace_unit(SPECS["difference"], "")
    shares = both(outside, [1, 0, 1, 1], [1, 1, 0, 0], plain).estimate
    points = both(outside, [1, 0, 1, 1], [1, 1, 0, 0], SPECS["difference"]).estimate
    assert shares is not None
    assert points == shares.scaled(100)
    assert points is not None
    assert points.value == 25


def replace_unit(spec: Spec, unit: str) -> Spec:
    return spec.model_copy(update={"unit": unit})


def test_a_value_says_where_it_comes_from(finished: Path) -> None:
    history = read_history(finished)
    spec = Spec(statistic="mean", metric="kl", arm="identity-4", task="cont")
    told = recomputed(Sources.of(finished, history, ()), {"v": spec})["v"]
    (run,) = history.runs
    assert run.finish is not None
    assert run.finish.samples is not None
    assert told.runs == (run.id,)
    assert told.files == {f"records/{run.id}/samples.parquet": run.finish.samples.sha256}
    assert told.rows == 5
    assert told.estimate is not None
    mean = run.finish.metrics["cont/identity-4/kl"]
    assert float(told.estimate.value or 0) == pytest.approx(float(mean), abs=1e-12)


def test_every_estimate_survives_being_kept(tmp_path: Path) -> None:
    third = Fraction(1, 3)
    estimates = [
        Estimate(None, 3, 1, why="undefined: it would"),
        Estimate(-third, 3, 1, (Fraction(-(10**40), 7), None), (0.1, None), 100, "", ("floor",), {"a": 1}),
        Estimate(third, 3, 1, (third, third), (float("inf"), 5e-324), 100),
    ]
    kept = {str(i): Computed(estimate, runs=("r",), files={"f": "s"}, key="k") for i, estimate in enumerate(estimates)}
    kept["refused"] = replace(kept["0"], estimate=None, refused="no\nnumber")
    write_cache(tmp_path / "deep" / "kept.json", "digest", kept)
    assert read_cache(tmp_path / "deep" / "kept.json", "digest") == kept
    assert read_cache(tmp_path / "deep" / "kept.json", "other") == {}
    assert keep.FORMAT == 1
