"""The rules of derivable.json as relations: one pattern a shape of rule, tried in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from costs import COST_RELATIONS

Rule = Mapping[str, Any]  # one object of derivable.json
Ref = Callable[[str], str]  # a published id -> its reference, in braces
Write = Callable[["Sources", re.Match[str]], str]

# How many samples stand behind a filled-region score, by the table or model that prints it.
_N = {"ta1": "llama", "ta2": "qwen35", "ta3": "qwen3", "s64": "llama", "s67": "llama"}


class Sources:
    """What one rule is made of. s[0]: the first number; s.n(0): its digits, as of a count."""

    def __init__(self, rule: Rule, ref: Ref, rules: Mapping[str, Rule]) -> None:
        self.rule, self.ref, self.rules = rule, ref, rules
        self.ids: Sequence[str] = rule["from"]

    def __getitem__(self, at: int) -> str:
        return self.ref(self.ids[at])

    def n(self, at: int) -> str:
        """A count: its digits are the number."""
        return f"exact({self[at]})"

    def all(self, to: str = ", ", start: int = 0, stop: int | None = None) -> str:
        """The numbers one after another."""
        return to.join(self.ref(name) for name in self.ids[start:stop])

    def counts(self, to: str) -> str:
        """The counts one after another."""
        return to.join(self.n(at) for at in range(len(self.ids)))

    def pairs(self, pattern: str) -> str:
        """`pattern` for each two that follow each other, as a and b."""
        return ", ".join(
            pattern.format(a=self.ref(a), b=self.ref(b)) for a, b in zip(self.ids[::2], self.ids[1::2], strict=True)
        )

    def samples(self, at: int) -> str:
        """How many samples a filled-region score is of."""
        table, model = self.ids[at].split(".")[:2]
        over = "filled_all" if self.ids[at].endswith("8_64") else "filled_8_32"
        return self.ref(f"t5.{_N.get(table, model)}.{over}")

    def credit(self, at: int) -> str:
        """The credit behind a filled-region score."""
        return f"quarters({self[at]}, {self.samples(at)})"

    def each(self) -> str:
        """The derivation of every source in its place."""
        return ", ".join(write(self.rules[name], self.ref, self.rules)[""] for name in self.ids)


def _share(length: str) -> str:
    """r of a filled prefill: split, layers and tail are the sources before the last."""
    layers, split, tail = (f"exact({{t4/Qwen3.8-Flash-Next/{column}}})" for column in ("layers", "split", "tail"))
    return f"(({length} - {tail}) * {split} + {tail} * {layers}) / ({length} * {layers})"


def _least(s: Sources, m: re.Match[str]) -> str:
    return f"{'min' if m[1] == 'smallest' else 'max'}({s.all()})"


def _of_ceiling(s: Sources, m: re.Match[str]) -> str:
    lengths = [f"exact({s.ref('s53.len_' + name.rsplit('.')[-1])})" for name in s.ids[:3]]
    terms = ", ".join(f"100 * {s[at]} * {_share(length)}" for at, length in enumerate(lengths))
    return f"{'min' if m[1] == 'smallest' else 'max'}({terms})"


def _weighted(s: Sources, _: re.Match[str]) -> str:
    docs = " + ".join(s.n(at) for at in range(3))
    return f"({' + '.join(f'{s.n(at)} * {s[at + 3]}' for at in range(3))}) / ({docs})"


def _change(s: Sources, m: re.Match[str]) -> str:
    pattern = "100 * (1 - {b} / {a})" if m[2] == "1 - RidgeFill/stock" else "100 * ({b} / {a} - 1)"
    return f"{'min' if m[1] == 'smallest' else 'max'}({s.pairs(pattern)})"


def _short(s: Sources, _: re.Match[str]) -> str:
    return f"100 * ({s.n(0)} - {s.n(1)} * (1 - {s.n(2)} / 4)) / {s.n(0)}"


def _gap(s: Sources, _: re.Match[str]) -> str:
    return f"100 * ({s.credit(0)} - {s.credit(1)}) / ({s.credit(2)} - {s.credit(1)})"


def _architecture(s: Sources, m: re.Match[str]) -> str:
    """`64 / 4` and the like: each number that is a source's, in their order, else a number."""
    return m[0].replace("L", s.n(0)).replace(" * ", "*").replace("*", " * ")


RULES: tuple[tuple[str, Write], ...] = (
    (r"(?:stock|exact) seconds / .*", lambda s, m: f"{s[0]} / {s[1]}"),
    (r"1/\(1 - skipped share\)", lambda s, m: f"100 / (100 - {s[0]})"),
    (
        r"100\*\(\(1 \+ gap_quality/100\).*",
        lambda s, m: f"100 * ((1 + {s[0]} / 100) / (1 + {s[1]} / 100) - 1)",
    ),
    (r".*about two thirds", lambda s, m: f"100 * floor(3 * {s.n(0)} / {s.n(1)} + 0.5) / 3"),
    (r"100\*256/16384", lambda s, m: f"100 * {s.n(0)} / {s.ref('t8.16384.tokens')}"),
    (r"(smallest|largest) 100\*measured speedup\*r.*", _of_ceiling),
    (r"(smallest|largest) 100\*\((.*?)\) over the (?:six|five) schedules.*", _change),
    (r"(smallest|largest) margin over .*", lambda s, m: f"{'min' if m[1] == 'smallest' else 'max'}({s.each()})"),
    (r"largest absolute change .*", lambda s, m: f"max({s.pairs('{a} - {b}, {b} - {a}')})"),
    (
        r"largest size of the two .* rounded up .*",
        lambda s, m: f"ceil(100 * max({s[0]}, -{s[0]}, {s[1]}, -{s[1]})) / 100",
    ),
    (r"(smallest|largest) (?!size).*", _least),
    (r"change of (smallest|largest) size", lambda s, m: f"{'max' if m[1] == 'smallest' else 'min'}({s.all()})"),
    (r"max\(0, streamed - resident\).*", lambda s, m: f"max(0, {s[0]} - {s[1]})"),
    (r"resident MiB - streamed MiB.*", lambda s, m: f"({s[0]} - {s[1]} + {s[2]} - {s[3]}) / 2 / 1024"),
    (r"MiB / 1024.*", lambda s, m: f"{s[0]} / 1024"),
    (r"mean task score of .*", lambda s, m: f"mean({s.all(stop=13)}) - mean({s.all(start=13)})"),
    (r"stock cwe - RidgeFill cwe", lambda s, m: f"{s[1]} - {s[0]}"),
    (
        r".*difference of the reconstructed credits",
        lambda s, m: f"100 * ({s.credit(0)} - {s.credit(1)}) / {s.samples(0)}",
    ),
    (r"100\*\(splice - RidgeFill\).*", _gap),
    (r"100\*\(1 - loss with the splice .*", lambda s, m: f"100 * (1 - {s[1]} / {s[0]})"),
    (r"document-weighted mean .*", _weighted),
    (r"mean of the two arms", lambda s, m: f"mean({s.counts(', ')})"),
    (r"mean .*", lambda s, m: f"mean({s.all()})"),
    (r"100\*k/n with k=\S+ the only whole number.*", lambda s, m: f"k_of({s[0]})"),
    (r"100\*k/n .*quarter.*", lambda s, m: f"quarters_of({s[0]})"),
    (r"100\*k/\(20\*\d+\).*: (\d+) reference.*", lambda s, m: f"k_of({s[0]} * {m[1]})"),
    (r"100\*\d+/\d+,? with n = 25 samples \* (\d) lengths.*", lambda s, m: f"k_of({s[0]} * {m[1]})"),
    (
        r"100\*\(k_ridgefill - k_stock\)/n.*",
        lambda s, m: f"100 * (items({s[2]}, {s[0]}) - items({s[1]}, {s[0]})) / {s.n(0)}",
    ),
    (r"k_stock - k_ridgefill", lambda s, m: f"items({s[0]}, {s[2]}) - items({s[1]}, {s[2]})"),
    (r"discordant total .*", lambda s, m: f"{s.n(3)} + items({s[0]}, {s[2]}) - items({s[1]}, {s[2]})"),
    (r"100\*\(\d+ - (?:2\*\()?1/4\)?\)/\d+: .*", _short),
    (
        r"100\*\(credits at .*",
        lambda s, m: f"100 * (quarters({s[0]}, {s[2]}) - quarters({s[1]}, {s[3]})) / ({s.n(2)} - {s.n(3)})",
    ),
    (r"two-sided exact binomial.*", lambda s, m: f"sign_test({s[0]}, {s[1]})"),
    (r"-100\*\(1 - 0.05\^\(1/n\)\)", lambda s, m: f"100 * (root(0.05, {s[0]}) - 1)"),
    (r"ln\(vocabulary size\)", lambda s, m: f"ln({s.n(0)})"),
    (r"1/r, r = .*", lambda s, m: f"1 / ({_share(s.n(3))})"),
    (r"r = \(\(N-T\)\*S.*", lambda s, m: _share(s.n(3))),
    (
        r"100\*\(1 - 0\.\d+\)\*\((\d+) - 4096\).*",
        lambda s, m: f"(100 - {s[0]}) * ({m[1]} - {s.n(1)}) / {m[1]}",
    ),
    (
        r"48\*\(5120\*5120 int8.*",
        lambda s, m: f"{s.n(1)} * ({s.n(0)} * {s.n(0)} * (1 + 2 / {s.n(2)}) + 2 * {s.n(0)}) / 1073741824",
    ),
    (
        r"24\*\(2560\*10240 int8.*",
        lambda s, m: f"{s.n(2)} * ({s.n(1)} * {s.n(0)} * {s.n(1)} * (1 + 2 / {s.n(3)}) + 2 * {s.n(1)}) / 1073741824",
    ),
    (r"4096\*4096\*2 bytes.*", lambda s, m: f"{s.n(0)} * {s.n(0)} * 2 / 1048576"),
    (
        r"48\*\(5120\*5120/32\*34 bytes.*",
        lambda s, m: f"{s.n(1)} * ({s.n(0)} * {s.n(0)} / 32 * 34 + 4 * {s.n(0)}) + {s.n(2)} * 48 * 128 * 128 * 4",
    ),
    (r"tasks \* items per task|documents \* scored tokens|6 \* 15", lambda s, m: s.counts(" * ")),
    (r"\d+ tasks \* 3 lengths \* 25 samples \+ .*", lambda s, m: f"{s.n(0)} * 3 * {s.n(1)} + {s.n(2)}"),
    (r"\d+ tasks \* 3 lengths \* 25 samples", lambda s, m: f"{s.n(0)} * 3 * {s.n(1)}"),
    (r"6 domains \* 5 lengths .*", lambda s, m: f"{s.n(0)} * 5"),
    (r"3 shares \* 3 chunk sizes", lambda s, m: "3 * 3"),
    (r"sum|\d+ \+ \d+ \+ \d+", lambda s, m: s.counts(" + ")),
    (r"48 layers \* 512 .*", lambda s, m: f"{s.n(0)} * 512"),
    (r"\(\d+ - \d+\)/4", lambda s, m: f"({s.n(0)} - {s.n(1)}) / {f'({s.n(2)} + 1)' if len(s.ids) > 2 else 4}"),
    (r"\d+ / (\d)", lambda s, m: f"{s.n(0)} / {s.n(1) if len(s.ids) > 1 else m[1]}"),
    (r"3/8 \* \d+", lambda s, m: f"3 * {s.n(0)} / 8"),
    (r"floor\(3/8 \* \d+\)", lambda s, m: f"floor(3 * {s.n(0)} / 8)"),
    (r"(?:floor|ceil)\(.*L.*\)", _architecture),
    (r"\d+ - 1", lambda s, m: f"{s.n(0)} - 1"),
    (r"\d+ - \d+(?: - \d+)?|L - S", lambda s, m: s.counts(" - ")),
    (r".* - .*", lambda s, m: f"{s[0]} - {s[1]}"),
)
PARTS: Mapping[str, Sequence[tuple[str, Callable[[Ref], str]]]] = {
    "t11.overall.n": (
        ("", lambda ref: _groups(ref, "easy", "hard")),
        (".length", lambda ref: _groups(ref, "short", "medium", "long")),
        (
            ".task",
            lambda ref: _groups(
                ref, "single_doc_qa", "multi_doc_qa", "long_icl", "dialogue", "code_repo", "structured"
            ),
        ),
    ),
    "t12.docs": tuple(
        (
            suffix,
            lambda ref, length=length: " + ".join(  # type: ignore[misc]
                f"exact({ref(f't13.{length}.{share}.docs')})" for share in ("lt02", "02to05", "ge05")
            ),
        )
        for suffix, length in (("", "16k"), (".32k", "32k"))
    ),
    "s64.below_split": tuple(
        (
            suffix,
            lambda ref, model=model, split=split: (  # type: ignore[misc]
                f"exact({ref(f't17.{model}.pop.split')}) - exact({ref(f't17.{model}.{split}.split')})"
            ),
        )
        for suffix, model, split in (("", "llama", "s20"), (".qwen3", "qwen3", "s22"))
    ),
}


def _groups(ref: Ref, *names: str) -> str:
    return " + ".join(f"exact({ref(f't11.{name}.n')})" for name in names)


def write(rule: Rule, ref: Ref, rules: Mapping[str, Rule]) -> dict[str, str]:
    """What stands right of the equals sign, by what is added to the relation's id. Raises LookupError for no rule."""
    name, said = str(rule["id"]), str(rule["rule"])
    if name in COST_RELATIONS:
        return {"": COST_RELATIONS[name]}
    if rule["quantity"] == "ci":
        share = f"{ref(rule['from'][1])}, {ref(rule['from'][0])}, {ref(rule['from'][2])}"
        return {f":{end}": f"100 * resampled({q}, {share})" for end, q in (("low", "0.025"), ("high", "0.975"))}
    if name in PARTS:
        return {suffix: part(ref) for suffix, part in PARTS[name]}
    for pattern, made in RULES:
        if found := re.fullmatch(pattern, said):
            return {"": made(Sources(rule, ref, rules), found)}
    raise LookupError(f"{name}: no relation is known for {said!r}")


def restated(rule: Rule, ref: Ref, interval: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """(slot of the left side, right side) of one value printed in two places."""
    (other,), said = rule["from"], str(rule["rule"])
    for slot, word in (("low", "lower"), ("high", "upper")):
        if said.startswith(f"{word} bound"):
            yield "", f"{ref(other)[:-1]}:{slot}}}"
            return
    # "without its sign" and "minus": the text says the size only.
    minus = said.startswith("minus") or said.endswith("without its sign")
    yield "", f"-{ref(other)}" if minus else ref(other)
    if not minus and interval(str(rule["id"])) and interval(other):
        for slot in ("low", "high"):
            yield f":{slot}", f"{ref(other)[:-1]}:{slot}}}"
