"""A whole study on disk: claims, ledger, a finished run, and everything its pins name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.claims import read_claims
from ledger.events.finish import Finish, Samples
from ledger.events.genesis import Genesis
from ledger.events.start import Start, run_id
from ledger.note import ED25519, Checkpoint, Note, VerifierKey, public_bytes, sign
from ledger.store import Store
from ledger.verify import verify
from provenance import external
from provenance.mapped import label
from provenance.measure import take
from provenance.pins import Pin, Walk, build_pin
from provenance.tree import SOURCE_WALK

ORIGIN = "toy.example/ledger"
CLAIMS = """
[[claim]]
id = "faster"
text = "The map arm is faster."

[[claim.prediction]]
id = "p1"
metric = "seconds"
statistic = "ratio"
comparator = "<"
threshold = "1.0"
n = 10
seeds = [1]
exclusions = "none"
stop_rule = "all samples"
"""


@dataclass
class Study:
    """A study folder; `outside` holds what lies elsewhere: the engine's package and its library."""

    folder: Path
    outside: Path
    store: Store
    key: Ed25519PrivateKey
    run: str = ""

    @property
    def library(self) -> Path:
        return self.outside / "libengine.so"

    def pins(self) -> list[Pin]:
        """Everything the run may use, as it is on the disk now."""
        return [
            take("study", "study.toml", "path:study.toml", self.folder),
            take("study", "claims.toml", "path:claims.toml", self.folder),
            take("model", "tiny", "path:model.bin", self.folder),
            take("maps", "m8", "path:maps", self.folder),
            take("dataset", "texts", "path:data", self.folder, walk=Walk(only=("*.jsonl",))),
            take("source", "toyengine", "package:toyengine", self.folder, walk=SOURCE_WALK),
            self.build(),
        ]

    def build(self, version: str = "1.0") -> Pin:
        digest = hashlib.sha256(self.library.read_bytes()).hexdigest()
        return build_pin("toy", {label(bytes(self.library)): digest}, {"version": version})

    def write_maps(self) -> None:
        """A map folder with both of its lists, as the format has it; the maps are a few bytes."""
        folder = self.folder / "maps"
        folder.mkdir()
        files = {f"proj.L{layer}.safetensors": b"map %d" % layer for layer in (8, 9)}
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        files["ridgefill.json"] = orjson.dumps({"format": 1, "split": 8, "files": digests})
        files["README.md"] = b"# maps"
        for name, data in files.items():
            (folder / name).write_bytes(data)
        self.write_sums()

    def write_sums(self) -> None:
        """SHA256SUMS over what is in the map folder now."""
        listed = sorted(path for path in (self.folder / "maps").iterdir() if path.suffix not in (".md", ""))
        lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in listed]
        (self.folder / "maps" / "SHA256SUMS").write_text("".join(lines))

    def begin(self, *, exploratory: bool = False, pins: list[Any] | None = None) -> tuple[str, str]:
        """A start entry: (run id, hash)."""
        claim = None if exploratory else self.claim_version()
        plain = [pin.as_entry() for pin in self.pins()] if pins is None else pins
        entry = self.store.append_with(
            lambda head: [
                Start(
                    run=run_id(head.leaf),
                    claims=[claim] if claim else [],
                    exploratory=exploratory,
                    pins=plain,
                    detail={},
                )
            ]
        )[0]
        return run_id(json.loads(entry.line)["prev"]), entry.leaf

    def claim_version(self) -> str:
        claim = verify(self.store.lines(), side_body=self.store.side_body).book.claim_named("faster")
        assert claim is not None
        return claim.version

    def sign_head(self) -> None:
        """checkpoints/head.note over the ledger as it is now."""
        result = verify(self.store.lines(), side_body=self.store.side_body)
        text = Checkpoint(ORIGIN, result.size, result.root).text()
        self.store.checkpoints.mkdir()
        note = Note(text, (sign(text, ORIGIN, self.key),))
        (self.store.checkpoints / "head.note").write_text(note.to_text())

    def end(self, run: str, start: str, pins: list[Pin] | None = None) -> None:
        """Sealed samples and a finish entry."""
        samples = self.folder / "records" / run / "samples.parquet"
        samples.parent.mkdir(parents=True)
        samples.write_bytes(b"sealed samples of " + run.encode())
        data = samples.read_bytes()
        self.store.append(
            Finish(
                run=run,
                start=start,
                status="complete",
                samples=Samples(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), rows=1),
                metrics={},
                detail={"pins": [pin.as_entry() for pin in pins or [self.build()]]},
            )
        )


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study with one registered claim and one finished run, all of it as pinned."""
    outside = tmp_path / "outside"
    (outside / "toyengine").mkdir(parents=True)
    (outside / "toyengine" / "__init__.py").write_text("answer = 42\n")
    (outside / "libengine.so").write_bytes(b"\x7fELF engine")
    (outside / "essay.txt").write_text("an essay that is not ours to ship\n")
    monkeypatch.setenv("PYTHONPATH", str(outside))
    monkeypatch.syspath_prepend(str(outside))
    folder = tmp_path / "study"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "a.jsonl").write_text("{}\n")
    (folder / "data" / "notes.txt").write_text("not part of the data\n")
    (folder / "model.bin").write_bytes(b"weights")
    (folder / "study.toml").write_text("name = 'toy'\n")
    (folder / "claims.toml").write_text(CLAIMS)
    essay = external.row_for(b"essay.txt", f"path:{outside}/essay.txt", folder, licence="unknown")
    external.write([essay], folder)
    made = Study(folder, outside, Store(folder), Ed25519PrivateKey.generate())
    made.write_maps()
    key = VerifierKey(ORIGIN, ED25519, public_bytes(made.key)).text()
    made.store.create(Genesis(made_by="a test", name="toy", origin=ORIGIN, key=key), "0" * 31 + "1")
    made.store.append(*read_claims(folder))
    made.run, start = made.begin()
    made.end(made.run, start)
    return made
