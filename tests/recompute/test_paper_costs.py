"""The multiply-accumulate facts of the paper: what its relations spell and what ridgefill.cost counts are the same."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from recompute.boxes import Box
from recompute.equations import parse
from recompute.recomputation import Recomputation, recompute
from ridgefill.cost import Recurrence, Shape, crossing, exact, filled, pop

STUDY = Path(__file__).parents[2] / "studies" / "paper"
LLAMA = Shape(layers=32, d=4096, d_q=4096, d_kv=1024, f=14336, d_in=4096)
QWEN3 = Shape(layers=36, d=4096, d_q=4096, d_kv=1024, f=12288, d_in=4096)
HYBRID = Shape(
    layers=64, d=5120, d_q=24 * 256, d_kv=1024, f=17408, d_in=5120, gated=True,
    recurrent=tuple(layer for layer in range(64) if layer % 4 != 3),
    recurrence=Recurrence(key_heads=16, value_heads=48, d_k=128, d_v=128, conv=4),
)  # fmt: skip


@pytest.fixture(scope="module")
def done() -> Recomputation:
    return recompute(STUDY)


def right_side(done: Recomputation, name: str) -> Box:
    """What a relation comes to when every printed number is taken at its word."""
    (relation,) = [one for one in done.reported.relations if one.id == name]
    equation = parse(relation.holds, done.reported.let)
    boxes = {}
    for known, reference in equation.names.items():
        boxes[known] = Box.point(done.bindings.printed[reference][0].digits.value or 0)
    return equation.right.range(boxes)[0]


def test_the_study_spells_them_as_its_generator_does(done: Recomputation) -> None:
    spec = spec_from_file_location("paper_costs", STUDY / "costs.py")
    assert spec is not None
    assert spec.loader is not None
    costs = module_from_spec(spec)
    spec.loader.exec_module(costs)
    spelled = dict(costs.lets())
    stated = tomllib.loads((STUDY / "reported.toml").read_text(encoding="utf-8"))
    assert stated["let"] == spelled
    about = {one["id"]: one["holds"].partition(" = ")[2] for one in stated["relation"]}
    assert {name: about[name] for name in costs.COST_RELATIONS} == costs.COST_RELATIONS
    assert done.reported.let.keys() == spelled.keys()


@pytest.mark.parametrize(
    ("name", "shape", "split", "published"),
    [
        ("s25.mac.llama_half", LLAMA, 16, 14333),
        ("s25.mac.llama_58", LLAMA, 20, 45660),
        ("s25.mac.qwen3_13", QWEN3, 13, 10552),
        ("s25.mac.qwen3_22", QWEN3, 22, 58891),
        ("s64.mac_cross.qwen3", QWEN3, 22, 58891),
    ],
)
def test_crossings_with_pop(done: Recomputation, name: str, shape: Shape, split: int, published: int) -> None:
    box = right_side(done, name)
    assert box.high - box.low < Fraction(1, 100)
    assert round(box.low) == crossing(shape, split, 4096) == published


@pytest.mark.parametrize(
    ("name", "split", "length"),
    [("s25.mac.qwen3_22_32k", 22, 32768), ("s25.mac.qwen3_22_64k", 22, 65536), ("s25.mac.qwen3_13_less", 13, 32768)],
)
def test_cost_over_pop(done: Recomputation, name: str, split: int, length: int) -> None:
    ratio = Fraction(filled(QWEN3, length, split, 4096), pop(QWEN3, length))
    assert right_side(done, name) == Box.point(100 * (1 - ratio) if name.endswith("less") else ratio)


@pytest.mark.parametrize(("name", "length", "share"), [("16k", 16384, 54), ("120k", 120000, 67)])
def test_the_27bs_skipped_share_and_the_other_way_to_count_it(
    done: Recomputation, name: str, length: int, share: int
) -> None:
    """Maps of recurrent layers charged to filled rows only: 31.2 and 42.8 %; to every prefix row: 30.4 and 42.1 %."""
    rows = length - 4096 - Fraction(share * length, 100)
    ends = [Fraction(*pair) for pair in _skipped(length, int(rows), predict_all=False)]
    box = right_side(done, f"s25.27b.skipped{name}")
    assert min(ends) <= box.low <= box.high <= max(ends)
    printed = {"16k": 30, "120k": 42}[name]
    assert round(float(box.low)) != printed
    assert {round(float(Fraction(*pair))) for pair in _skipped(length, int(rows), predict_all=True)} == {printed}


def _skipped(length: int, rows: int, *, predict_all: bool) -> list[tuple[int, int]]:
    """100 * (1 - RidgeFill / exact) with as many whole exact rows, and with one more, as fractions."""
    whole = exact(HYBRID, length)
    costs = [
        filled(HYBRID, length, 16, 4096, exact_rows=n, rescale_rows=512, probe_rows=256, predict_all=predict_all)
        for n in (rows, rows + 1)
    ]
    return [(100 * (whole - cost), whole) for cost in costs]
