"""Made-up samples that have the printed marginals, for trying the machinery on the paper's designs. Not data."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from layout import place_of

from recompute.boxes import Box
from recompute.functions import STEPS

Rule = Mapping[str, Any]
Entry = Mapping[str, Any]
PARTITIONS = {
    "difficulty": ("easy", "hard"),
    "span": ("short", "medium", "long"),
    "domain": ("single_doc_qa", "multi_doc_qa", "long_icl", "dialogue", "code_repo", "structured"),
}
OUTCOMES = ("both", "lost", "gained", "neither")  # answered by stock and by RidgeFill
LENGTHS = {"16k": 16384, "32k": 32768}
MODELS = {"ta1": "Llama-3.1-8B", "ta2": "Qwen3.5-9B", "ta3": "Qwen3-8B"}


def files(entries: Sequence[Entry], rules: Sequence[Rule]) -> dict[str, str]:
    """Name -> CSV."""
    by_id = {str(entry["id"]): entry for entry in entries}
    counts = {str(rule["id"]): rule for rule in rules if "k" in rule}
    return {
        "table11.csv": _csv(_longbench(by_id, counts), ("item", *PARTITIONS, "stock", "ridgefill")),
        "table10.csv": _csv(_tasks(by_id, counts), ("task", "length", "item", "stock", "ridgefill")),
        "documents.csv": _csv(_documents(by_id), ("domain", "document", "ridgefill", "identity")),
        "filled.csv": _csv(_filled(by_id, counts), ("model", "arm", "metric", "item", "credit")),
    }


def _csv(rows: Iterator[tuple[Any, ...]], header: Sequence[str]) -> str:
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(header)
    lines.writerows(rows)
    return out.getvalue()


def _longbench(by_id: Mapping[str, Entry], counts: Mapping[str, Rule]) -> Iterator[tuple[Any, ...]]:
    """One item a row: each partition has its printed counts, and the split of gains and losses nearest its intervals.

    How two partitions cross is not printed; they cross at random.
    """
    draw = random.Random(11)  # noqa: S311 - made up, and the same each time
    gained, lost = (int(by_id[f"s46.disc_{arm}"]["value"]) for arm in ("ridgefill", "stock"))
    labels: dict[str, dict[str, list[str]]] = {outcome: {} for outcome in OUTCOMES}
    for partition, groups in PARTITIONS.items():
        for outcome, found in _split(groups, by_id, counts, gained).items():
            draw.shuffle(found)
            labels[outcome][partition] = found
    if {len(labels["lost"][partition]) for partition in PARTITIONS} != {lost}:
        raise ValueError(f"the losses of the groups do not add up to {lost}")
    rows = [
        (*where, int(outcome in ("both", "lost")), int(outcome in ("both", "gained")))
        for outcome in OUTCOMES
        for where in zip(*labels[outcome].values(), strict=True)
    ]
    draw.shuffle(rows)
    for number, row in enumerate(rows, 1):
        yield (f"item{number:03}", *row)


def _split(
    groups: Sequence[str], by_id: Mapping[str, Entry], counts: Mapping[str, Rule], gained: int
) -> dict[str, list[str]]:
    """Outcome -> the group of each of its items: of all splits of the gains, the one nearest the printed intervals."""
    known = {name: _Group(name, by_id, counts) for name in groups}
    best = min(
        (
            chosen
            for chosen in product(*(group.near for group in known.values()))
            if sum(g for g, _ in chosen) == gained
        ),
        key=lambda chosen: sum(off for _, off in chosen),
    )
    found: dict[str, list[str]] = {outcome: [] for outcome in OUTCOMES}
    for group, (gains, _) in zip(known.values(), best, strict=True):
        losses = gains + group.stock - group.fill
        both = group.stock - losses
        for outcome, size in zip(OUTCOMES, (both, losses, gains, group.n - both - losses - gains), strict=True):
            found[outcome] += [group.name] * size
    return found


class _Group:
    """The counts of one group; near: its likeliest (gains, how far the interval is then from the printed one)."""

    def __init__(self, name: str, by_id: Mapping[str, Entry], counts: Mapping[str, Rule]) -> None:
        self.name = name
        self.n = int(by_id[f"t11.{name}.n"]["value"])
        self.stock, self.fill = (int(counts[f"t11.{name}.{arm}"]["k"]) for arm in ("stock", "ridgefill"))
        ends = [Fraction(str(end)) * self.n / 100 for end in by_id[f"t11.{name}.delta"]["ci"]]
        found = []
        for gains in range(max(0, self.fill - self.stock), 41):
            losses = gains + self.stock - self.fill
            if gains <= self.fill and losses <= self.stock and gains + losses <= self.n:
                law = [_end(q, gains, losses, self.n) for q in ("0.025", "0.975")]
                found.append((gains, float(sum(abs(a - b) for a, b in zip(law, ends, strict=True)))))
        self.near = sorted(found, key=lambda one: one[1])[:8]


def _end(q: str, gains: int, losses: int, n: int) -> Fraction:
    """An end of the exact percentile interval, in items."""
    box: Box = STEPS["resampled"][2](*(Box.point(Fraction(one)) for one in (q, gains, losses, n)))
    return box.low * n


def _tasks(by_id: Mapping[str, Entry], counts: Mapping[str, Rule]) -> Iterator[tuple[Any, ...]]:
    """Table 10: each task's 20 items, with as many of its reference answers found as printed."""
    tasks = dict.fromkeys(name.split(".")[1] for name in by_id if name.startswith("t10."))
    for task, (short, length) in product(tasks, LENGTHS.items()):
        rules = [counts[f"t10.{task}.{short}.{arm}"] for arm in ("stock", "ridgefill")]
        label = place_of(by_id[f"t10.{task}.{short}.stock"])[1]
        scores = [_spread(Fraction(str(rule["k"])), rule["k_of"] // 20, 20) for rule in rules]
        for item, values in enumerate(zip(*scores, strict=True), 1):
            yield (label, length, f"{short}-{item:02}", *values)


def _spread(total: Fraction, most: int, items: int) -> list[float]:
    """Scores of items, each a whole number of `most` parts, that add up to so many parts: first items first."""
    return [float(min(max(total - most * item, Fraction(0)), Fraction(most)) / most) for item in range(items)]


def _documents(by_id: Mapping[str, Entry]) -> Iterator[tuple[Any, ...]]:
    """Six domains of 15 documents: Qwen3-8B's novel-token losses have the printed means; their spread is made up."""
    fill, identity = (Fraction(str(by_id[f"ta3.{arm}.nll_novel"]["value"])) for arm in ("ridgefill", "identity"))
    domains, size = (int(by_id[f"s32.{name}"]["value"]) for name in ("domains", "docs_domain"))
    for domain, number in product(range(1, domains + 1), range(size)):
        spread = Fraction(domain * (number - size // 2), 1000)  # adds up to nothing in each domain
        values = (float(fill + spread), float(identity + spread / 2))
        yield (f"domain{domain}", f"domain{domain}-{number + 1:02}", *values)


def _filled(by_id: Mapping[str, Entry], counts: Mapping[str, Rule]) -> Iterator[tuple[Any, ...]]:
    """Tables A.1 to A.3: each arm's filled-region samples, with the credit that its percent stands for.

    The samples at 8K to 64K are not those at 8K to 32K and more: each score stands for itself.
    """
    for name, rule in counts.items():
        table, _, metric = [*name.split("."), "", ""][:3]
        if table in MODELS and metric in ("ruler_filled_8_32", "ruler_filled_8_64"):
            _, label, column = place_of(by_id[name])
            for item, value in enumerate(_credits(Fraction(str(rule["k"])), int(rule["k_of"]))):
                yield (MODELS[table], label, column, f"s{item:03}", f"{value:g}")


def _credits(total: Fraction, items: int) -> list[float]:
    """Quarter credits that add up to a total: whole ones first."""
    return _spread(total * 4, 4, items)
