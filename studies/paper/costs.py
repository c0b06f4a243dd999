"""The multiply-accumulate facts of sections 2.5 and 4.2, spelled for [let] of reported.toml.

The counts are those of `ridgefill.cost`; tests/recompute/test_paper_costs.py holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

# model -> layers, feed-forward width, POP's split and the splits that are compared with it
_DENSE: Mapping[str, tuple[str, int]] = {"llama": ("Llama-3.1-8B", 14336), "qwen3": ("Qwen3-8B", 12288)}
_CROSSINGS = (("llama", "16"), ("llama", "20"), ("qwen3", "13"), ("qwen3", "22"))
_HYBRID = {"16k": "16384", "120k": "120000"}

COST_RELATIONS: Mapping[str, str] = {
    "s25.mac.llama_half": "cross_llama_16",
    **dict.fromkeys(("s25.mac.llama_58", *(f"{s}.mac_cross.llama" for s in ("s1", "s64", "s8"))), "cross_llama_20"),
    "s25.mac.qwen3_13": "cross_qwen3_13",
    **dict.fromkeys(("s25.mac.qwen3_22", *(f"{s}.mac_cross.qwen3" for s in ("s1", "s64", "s8"))), "cross_qwen3_22"),
    **dict.fromkeys(("s25.mac.qwen3_13_less", "s64.qwen3_mac"), "100 * (1 - cost_qwen3_13_32k / pop_qwen3_32k)"),
    "s25.mac.qwen3_22_32k": "cost_qwen3_22_32k / pop_qwen3_32k",
    "s25.mac.qwen3_22_64k": "cost_qwen3_22_64k / pop_qwen3_64k",
    "s25.27b.skipped16k": "skipped_16k",
    "s42.skipped16k": "skipped_16k",
    "s25.27b.skipped120k": "skipped_120k",
    "s42.skipped120k": "skipped_120k",
}


def lets() -> Iterator[tuple[str, str]]:
    """(name, expression) in the order in which they build on each other."""
    yield "d", "4096"
    yield "tail", "exact({s25/mac.tail/value})"
    yield "one", "exact({s25/mac.pop_tail/value})"
    yield "bare", "2 * d * 1024"
    yield "mapped", "bare + d * d"
    for model, (name, f) in _DENSE.items():
        yield f"layers_{model}", f"exact({{t4/{name}/layers}})"
        yield f"row_{model}", f"2 * d * d + 2 * d * 1024 + 3 * d * {f}"
        yield f"pops_{model}", f"exact({{t17/{name}, POP/split}})"
    for model, split in _CROSSINGS:
        yield from _crossing(model, _split(model, split), f"{model}_{split}")
    for length, n in (("32k", "32768"), ("64k", "65536")):
        for split in ("13", "22"):
            cost = _cost("qwen3", _split("qwen3", split), "tail", "mapped", n)
            yield f"cost_qwen3_{split}_{length}", cost
        yield f"pop_qwen3_{length}", _cost("qwen3", "pops_qwen3", "one", "bare", n)
    yield from _hybrid()


def _split(model: str, split: str) -> str:
    return f"exact({{t17/{_DENSE[model][0]}, split {split}/split}})"


def _cost(model: str, split: str, tail: str, fill: str, n: str) -> str:
    """S (N P + A(0, N)) + (L - S) (T P + A(N - T, N) + (N - T) F)."""
    row = f"row_{model}"
    upper = f"{tail} * {row} + d * {tail} * (2 * {n} - {tail} + 1) + ({n} - {tail}) * {fill}"
    return f"{split} * ({n} * {row} + d * {n} * ({n} + 1)) + (layers_{model} - {split}) * ({upper})"


def _crossing(model: str, split: str, name: str) -> Iterator[tuple[str, str]]:
    """Where the two costs are equal: the larger root of a N^2 + b N + c, their difference."""
    row, layers, pops = f"row_{model}", f"layers_{model}", f"pops_{model}"

    def linear(s: str, tail: str, fill: str) -> str:
        return f"{s} * ({row} + d) + ({layers} - {s}) * (2 * d * {tail} + {fill})"

    def constant(s: str, tail: str, fill: str) -> str:
        return f"({layers} - {s}) * {tail} * ({row} + d * (1 - {tail}) - {fill})"

    yield f"a_{name}", f"d * ({split} - {pops})"
    yield f"b_{name}", f"{linear(split, 'tail', 'mapped')} - ({linear(pops, 'one', 'bare')})"
    yield f"c_{name}", f"{constant(split, 'tail', 'mapped')} - {constant(pops, 'one', 'bare')}"
    root = f"root(b_{name} * b_{name} - 4 * a_{name} * c_{name}, 2)"
    yield f"cross_{name}", f"(-b_{name} - {root}) / (2 * a_{name})"


def _hybrid() -> Iterator[tuple[str, str]]:
    """The 27B with its Gated DeltaNet maps charged to filled rows only, layer shapes as in its public config."""
    yield "width", "exact({s41/hidden/value})"
    yield "tail_27b", "exact({t4/Qwen3.8-27B/tail})"
    yield "probe", "exact({s24/27b.window/value})"
    yield "rescaled", "exact({s42/rescale_rows/value})"
    yield "heads", "24 * 256"
    yield "feed", "3 * width * 17408"
    yield "row_27b", "3 * width * heads + 2 * width * 1024 + feed"
    yield "mapped_27b", "2 * width * 1024 + width * width"
    yield "mixed", "2 * 16 * 128 + 48 * 128"
    yield "state", "width * (mixed + 2 * 48) + 4 * mixed + 4 * 48 * 128 * 128"
    yield "state_row", "state + 2 * width * 48 * 128 + feed"
    yield "state_mapped", "state + width * width"
    for length, n in _HYBRID.items():
        filled = f"{{s42/filled{length}/value}} / 100 * {n}"
        yield f"whole_{length}", f"{n} * row_27b + heads * {n} * ({n} + 1)"
        yield f"exact_{length}", f"{n} - tail_27b - {filled}"
        yield (
            f"attended_{length}",
            f"tail_27b * row_27b + heads * tail_27b * (2 * {n} - tail_27b + 1) + ({n} - tail_27b) * mapped_27b"
            f" + exact_{length} * (row_27b + heads * ({n} - tail_27b))"
            f" + probe * row_27b + heads * probe * (2 * {n} - probe + 1) + rescaled * mapped_27b",
        )
        yield f"stated_{length}", f"(tail_27b + exact_{length} + probe) * state_row + {filled} * state_mapped"
        yield (
            f"skipped_{length}",
            f"100 * (1 - (4 * whole_{length} + 12 * {n} * state_row + 12 * attended_{length} + 36 * stated_{length})"
            f" / (16 * whole_{length} + 48 * {n} * state_row))",
        )
