"""Reports to look at: every standing, every verdict, traces eight steps deep, two tables, two plots."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ledger.findings import note, warning
from recompute.decided import Decided, Verdict
from recompute.estimate import Estimate
from recompute.lineage import Edge, Link
from recompute.query import query
from recompute.report.model import Report
from recompute.reported import Plot, Reported, Table
from recompute.rounding import spell
from recompute.spec import Spec
from recompute.standing import Checked, Standing
from recompute.valued import Valued

SPLITS = ("8 of 30", "11 of 30", "15 of 30", "19 of 30")
ARMS = ("No fill", "Identity", "Map")
LENGTHS = ("1K", "2K", "4K", "8K")
LIMITS = "no chain can prove that nothing was seen before a claim was registered, or what the machine really ran"
LOSS = {
    "No fill": ("0.712", "0.655", "0.571", "0.364"),
    "Identity": ("2.204", "1.871", "0.482", "0.117"),
    "Map": ("0.0953", "0.0612", "0.0344", "-0.0081"),
}
SECONDS = {
    "Exact": ("0.81", "1.74", "4.11", "10.93"),
    "Map": ("0.62", "1.22", "2.71", "7.04"),
    "No fill": ("0.44", "0.93", "2.08", "5.51"),
}


def digest(text: str) -> str:
    """A sha256 that looks like one because it is one."""
    return hashlib.sha256(text.encode()).hexdigest()


def estimate(value: str, half: str = "0.03", **more: Any) -> Estimate:
    """A value with an interval a little longer on its right."""
    middle, wide = Fraction(value), Fraction(half)
    ends = (middle - wide, middle + wide * Fraction(6, 5))
    return Estimate(middle, 60, 5, ends, (0.0004, 0.0005), 10_000, **more)


def valued(name: str, spec: Spec, found: Estimate | None, run: str = "a1", refused: str = "") -> Valued:
    """A value of one run."""
    files = {f"records/{run}/samples.parquet": digest(run)}
    return Valued(name, spec, found, refused, query(spec, run), 120, {}, (run,), files, digest(name))


def lineage(value: Valued, worst: Edge = Edge.OK) -> Link:
    """Number, analysis, query, samples, run, start and finish, claim, pins, checkpoint: eight steps deep."""
    run = value.runs[0]
    head = Link("checkpoint", "checkpoints/24.note", "covers 25 entries, signed", Edge.OK)
    claim = Link("claim", "C1", "entry 2, registered before the run", Edge.OK, (head,))
    pins = tuple(Link("pin", f"maps/{n}.safetensors", f"sha256 {digest(str(n))[:16]}", worst) for n in range(3))
    start = Link("start", f"entry {5 + len(run)}", "source tree clean at 73fad49", Edge.OK, (claim, *pins))
    finish = Link("finish", f"entry {6 + len(run)}", f"samples sha256 {digest(run)[:16]}", Edge.OK)
    ran = Link("run", run, "arms exact, map; finished", Edge.OK, (start, finish))
    samples = Link("samples", f"records/{run}/samples.parquet", f"{value.rows} rows read", Edge.OK, (ran,))
    told = f"{value.rows} rows: {' '.join(value.query.split())}"
    asked = Link("query", value.spec.metric, told, Edge.OK, (samples,))
    analysis = Link("analysis", value.spec.statistic, "BCa, 10000 resamples, 5 strata", Edge.OK, (asked,))
    return Link("number", value.id, "recomputed now", Edge.OK, (analysis,))


def checked(value: Valued, line: int, standing: Standing = Standing.MATCH, **more: Any) -> tuple[Checked, ...]:
    """Point and interval of a cell as they are printed; `standing` is the point's."""
    table, row, column = value.id.split("/")
    found = value.estimate
    where = {"file": "report.md", "line": line, "table": table, "row": row, "column": column, "value": value.id}
    numbers = (None, None, None) if found is None or found.ends is None else (found.value, *found.ends)
    slots = []
    for slot, number in zip(("value", "low", "high"), numbers, strict=True):
        text = {"printed": spell(number, 3), "recomputed": spell(number, 6)} if number is not None else {}
        given = {"standing": standing, **text, **more} if slot == "value" else {"standing": Standing.MATCH, **text}
        slots.append(Checked(**{**where, "slot": slot, "rule": "3 decimals, ties to even", **given}))
    return tuple(slots[:1] if found is None else slots)


def split_table() -> list[Valued]:
    """Sixteen cells: loss of three arms and agreement of one at four splits."""
    cells = []
    for index, split in enumerate(SPLITS):
        for arm in ARMS:
            spec = Spec(statistic="paired_difference", metric="loss", arm=arm, baseline="Exact", where={"split": index})
            cells.append(valued(f"split/{split}/{arm}", spec, estimate(LOSS[arm][index], "0.17")))
        spec = Spec(statistic="mean", metric="agreement", arm="Map", unit="percent", where={"split": index})
        cells.append(valued(f"split/{split}/Agreement", spec, estimate(f"{84 + 3 * index}.25", "1.7")))
    return cells


def speed_table() -> list[Valued]:
    """Twelve cells: seconds of three arms at four lengths."""
    return [
        valued(
            f"speed/{length}/{arm}",
            Spec(statistic="median", metric="ttft", arm=arm, task="ttft", length=1024 * 2**index),
            estimate(SECONDS[arm][index], "0.38"),
            run="b22",
        )
        for index, length in enumerate(LENGTHS)
        for arm in SECONDS
    ]


def decisions() -> list[Decided]:
    """Eight predictions of four claims, every verdict among them, and a claim that predicts nothing."""
    loss = Spec(statistic="paired_difference", metric="loss", arm="Map", baseline="Identity")
    speed = Spec(statistic="ratio_of_medians", metric="ttft", arm="Exact", baseline="Map")
    bound = Spec(statistic="non_inferiority", metric="retrieved", arm="Map", baseline="Exact", unit="points")
    one_sided = Estimate(Fraction(-1, 2), 138, 13, (Fraction(-9, 5), None), (0.1, None), 10_000)

    def one(name: str, verdict: Verdict, rule: str, spec: Spec, found: Estimate | None, **more: Any) -> Decided:
        claim, _, prediction = name.partition("/")
        told = {"C1": "A fitted map loses less than the identity.", "C2": "Filling is faster where prompts are long."}
        text = told.get(claim, "Retrieval from the filled region is kept.")
        words = f"{spec.statistic} of {spec.metric}, {spec.arm} against {spec.baseline}: {rule} (95 % BCa interval)"
        why = more.pop("why", f"all of the interval is {rule}")
        value = valued(name, spec, found) if found else None
        entry = 2 + int(claim[1:])
        return Decided(claim, prediction, verdict, text, f"{words}, n = 60, seeds 0", why, entry, value=value, **more)

    confirmed, late = Verdict.CONFIRMED, "registered in entry 19, after run a1 was started in entry 12"
    return [
        one("C1/P1", confirmed, "< 0", loss, estimate("-0.447")),
        one("C1/P2", Verdict.REFUTED, "< -0.5", loss, estimate("-0.21"), why="none of the interval is < -0.5"),
        one("C1/P3", Verdict.INCONCLUSIVE, "< 0.01", loss, estimate("0.012", "0.09"), why="the interval allows both"),
        one("C2/P1", confirmed, "> 1.3", speed, estimate("1.517", "0.04")),
        one("C2/P2", Verdict.DEVIATED, "> 1.5", speed, estimate("1.553", "0.02"), outcome=confirmed),
        one("C3/P1", confirmed, "> -2", bound, one_sided),
        one("C3/P2", Verdict.INADMISSIBLE, "> -1", bound, estimate("-0.4", "0.9"), why=late),
        one("C4/P1", Verdict.UNRUN, ">= 0.9", bound, None, why="no run about it was started"),
        one("C5", Verdict.INADMISSIBLE, "> 0", bound, None, why="exploratory, and predicts nothing", aside=True),
    ]


def standing_of_each(cells: list[Valued]) -> list[Checked]:
    """Printed numbers of every standing; lines as they would be in a file."""
    special: Mapping[str, tuple[Standing, dict[str, str]]] = {
        "split/8 of 30/Map": (Standing.MATCH_OTHER_TIE, {"printed": "0.0954", "cause": "tie rounded up"}),
        "split/11 of 30/Identity": (Standing.MISMATCH, {"printed": "1.817", "cause": "digits swapped"}),
        "split/15 of 30/Agreement": (Standing.MISMATCH, {"printed": "0.902", "cause": "a factor of 100"}),
        "split/19 of 30/No fill": (Standing.STALE, {"cause": "printed before the samples were sealed again"}),
        "speed/8K/No fill": (Standing.REFUSED, {"printed": "5.51", "recomputed": ""}),
        "speed/1K/Exact": (Standing.MISSING, {"printed": ""}),
        "speed/2K/Map": (Standing.MC_CONSISTENT, {"printed": "1.221", "rule": "within 3.5 Monte-Carlo errors"}),
    }
    found: list[Checked] = []
    for index, cell in enumerate(cells):
        standing, more = special.get(cell.id, (Standing.MATCH, {}))
        found += checked(cell, 40 + index // 4 + (20 if cell.id.startswith("speed") else 0), standing, **more)
    unbound = Checked(Standing.UNBOUND, "report.md", 71, "Table 3", "Ceiling", "Cost", printed="1.51")
    holds = "{speed/2K/gain} = {speed/2K/Exact} / {speed/2K/Map}"
    related = Checked(Standing.RELATION_ONLY, "report.md", 72, value="gain", slot="value", printed="1.43", rule=holds)
    return [*found, unbound, related]


def tables() -> tuple[Table, ...]:
    """The two tables as reported.toml would say them."""
    arms: dict[str, Any] = {arm: {"metric": "loss", "arm": arm} for arm in ARMS}
    split = Table(
        id="split",
        file="report.md",
        name="Table 1",
        rows={split: {"where": {"split": n}} for n, split in enumerate(SPLITS)},
        columns={**arms, "Agreement": {"metric": "agreement"}},
    )
    return split, Table(id="speed", file="report.md", name="Table 2", rows="length", columns="arm")


MACHINE = {
    "cpu": {"model": "AMD EPYC 9R14", "cores": 2, "usable_cores": 2, "flags": ["avx2", "avx512_bf16"]},
    "gpus": {"error": "nvidia-smi: not found"},
    "memory_bytes": 25276502016,
    "packages": {f"package-{n:02d}": f"{n}.{n % 7}.1" for n in range(40)},
    "python": {"version": "3.11.2", "implementation": "CPython"},
    "system": {"kernel": "Linux 6.1.0", "distribution": "Debian GNU/Linux 12 (bookworm)"},
}


def sample() -> Report:
    """A study of thirty values with something of everything."""
    loose = Spec(statistic="mean", metric="loss", arm="Map", n=60)
    extra = [
        valued("calibration", loose, estimate("0.1234567")),
        valued("unpaired", loose, None, refused="12 samples of Map have no partner in Exact: d03, d07, ..."),
    ]
    cells = [*split_table(), *speed_table()]
    cells[-1] = valued(cells[-1].id, cells[-1].spec, None, run="b22", refused="3 samples are NaN: t1, t2, t9")
    decided = decisions()
    values = [*cells, *extra]
    traced = [*values, *(one.value for one in decided if one.value)]
    states = {"split/8 of 30/Map": Edge.FAIL, "speed/4K/Map": Edge.UNCHECKED}
    plots = (
        Plot(table="split", title="Loss by split", series="columns", only=ARMS, x="layers run exactly", y="nats"),
        Plot(table="speed", title="Time to first token", series="columns", kind="bar", x="prompt", y="seconds"),
    )
    return Report(
        study="smollm2",
        strict=False,
        values=tuple(values),
        checked=tuple(standing_of_each(cells)),
        decided=tuple(decided),
        findings=(
            note("documents", "report.md", "2 tables, 31 numbers"),
            warning("no-pin", "ledger.jsonl", "no head from you covers this ledger", hint="ridgefill ledger head"),
        ),
        links={value.id: lineage(value, states.get(value.id, Edge.OK)) for value in traced},
        ledger={
            "verdict": "OK-UNPINNED",
            "entries": 25,
            "head": digest("head"),
            "origin": "ridgefill/0123456789abcdef",
            "reached": "no head from you; no anchor from outside: the author's word",
            "limits": LIMITS,
        },
        ended="2026-11-30T09:15:00.000000Z",
        machine={"a1": MACHINE, "b22": MACHINE},
        reported=Reported(tables=tables(), plots=plots),
    )


def large(count: int = 1400) -> Report:
    """A study of so many values of five runs in one table, each with a query of its own."""
    cells = []
    for index in range(count):
        spec = Spec(
            statistic="paired_difference",
            metric=f"metric_{index % 35}",
            arm=f"Arm {index % 40}",
            baseline="Exact",
            task="long_documents",
            run=f"{index % 5:016x}",
            where={"row": index},
        )
        number = Fraction(index * 7919 % 20011, 20011) - Fraction(1, 3)
        cells.append(valued(f"t/Row {index // 8}/Column {index % 8}", spec, estimate(str(number)), spec.run))
    found = [one for index, cell in enumerate(cells) for one in checked(cell, 10 + index // 8)]
    return Report(
        study="large",
        strict=True,
        values=tuple(cells),
        checked=tuple(found),
        links={cell.id: lineage(cell) for cell in cells},
    )


def crowded() -> Report:
    """Ten arms with long names in plots of both kinds: more series and labels than there is room for."""
    names = [
        f"{arm} and {extra}" for arm in ("no fill", "identity", "map") for extra in ("rows", "a longer tail", "both")
    ]
    names.append("question-blind rows, under a name that is far too long")
    spec = Spec(statistic="mean", metric="loss", arm="Map")
    table = Table(id="t", file="f.md", name="T", rows="arm", columns={"novel": "loss", "key": "key_loss"})
    cells = [f"t/{name}/{column}" for name in names for column in ("novel", "key")]
    numbers = [str(Fraction(at * 7 % 11, 7)) for at in range(len(cells))]
    return Report(
        study="crowded",
        strict=False,
        values=tuple(valued(cell, spec, estimate(number)) for cell, number in zip(cells, numbers, strict=True)),
        reported=Reported(
            tables=(table,),
            plots=tuple(
                Plot(table="t", title=f"{kind} by {series}", series=series, kind=kind)
                for kind in ("line", "bar")
                for series in ("rows", "columns")
            ),
        ),
    )


def renamed(name: str) -> Report:
    """A small study in which every name that a person chooses is this one."""
    spec = Spec(statistic="mean", metric=name, arm=name, where={name: name})
    value = valued(f"t/{name}/{name}", spec, estimate("0.5"), run=name, refused="")
    decided = Decided(
        "C1",
        "P1",
        Verdict.CONFIRMED,
        name,
        f"mean of {name}, {name}: > 0.1 (95 % BCa interval), n = 60, seeds any",
        name,
        2,
        None,
        value,
    )
    table = Table(id="t", file="f.md", name=name, rows={name: name}, columns={name: name})
    return Report(
        study=name,
        strict=False,
        values=(value,),
        checked=(Checked(Standing.MISMATCH, name, 1, name, name, name, value.id, "value", name, "0.5", name, name),),
        decided=(decided,),
        findings=(warning("odd", name, name, hint=name),),
        links={value.id: lineage(value)},
        machine={name: {name: name}},
        reported=Reported(tables=(table,), plots=(Plot(table="t", title=name, x=name, y=name),)),
    )
