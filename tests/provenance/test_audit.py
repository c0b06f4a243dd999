"""The command as a user meets it: each fault gives its exit code and names what it is about."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ledger.claims import read_claims
from ledger.events.amend import Amend
from ledger.events.retract import Retract
from provenance.audit import PARTS, audit
from provenance.pins import build_pin
from provenance.tree import SOURCE_WALK, hash_tree

if TYPE_CHECKING:
    from conftest import Study


def run(study: Study, part: str = "all", *options: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of `audit PART`, with a time limit: a check that hangs is no check."""
    command = [sys.executable, "-m", "provenance", part, "-C", str(study.folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("part", ["all", *PARTS])
def test_a_sound_study_holds_in_every_part(study: Study, part: str) -> None:
    code, out, err = run(study, part)
    assert (code, err) == (0, "")
    assert out.startswith("HOLDS: ")


def test_every_kind_of_pin_is_checked_once(study: Study) -> None:
    # 1 claim, 2 study files, model, data set, sealed samples, 1 outside file; maps; source; build, and as it ran
    assert [audit(study.folder, (part,)).checked for part in PARTS] == [7, 1, 2, 1]
    assert audit(study.folder, tuple(PARTS)).checked == 11


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _swap_keeping_stamps(path: Path) -> None:
    """Threat 18: other bytes, same length, same inode, mtime restored."""
    stat = path.stat()
    _flip(path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _edit_claims(study: Study) -> None:
    path = study.folder / "claims.toml"
    path.write_text(path.read_text().replace('threshold = "1.0"', 'threshold = "2.0"'))


def _consistent_maps(study: Study) -> None:
    """A map changed together with both lists of the folder: only the pin knows."""
    maps = study.folder / "maps"
    old = (maps / "proj.L9.safetensors").read_bytes()
    _flip(maps / "proj.L9.safetensors")
    digests = [hashlib.sha256(data).hexdigest() for data in (old, (maps / "proj.L9.safetensors").read_bytes())]
    manifest = maps / "ridgefill.json"
    manifest.write_text(manifest.read_text().replace(*digests))
    study.write_sums()


def _file_for_maps(study: Study) -> None:
    shutil.rmtree(study.folder / "maps")
    (study.folder / "maps").write_text("no folder")


def _out_of_the_study(study: Study) -> None:
    (study.folder / "model.bin").unlink()
    (study.folder / "model.bin").symlink_to(study.outside / "libengine.so")


def _delete_run(study: Study) -> None:
    shutil.rmtree(study.folder / "records" / study.run)


def _truncate_samples(study: Study) -> None:
    os.truncate(study.folder / "records" / study.run / "samples.parquet", 5)


def _external(study: Study, old: str, new: str) -> None:
    path = study.folder / "external.tsv"
    path.write_bytes(path.read_bytes().replace(old.encode(), new.encode()))


FAULTS: dict[str, tuple[Callable[[Study], Any], str, int, str]] = {
    "a byte of a map": (lambda s: _flip(s.folder / "maps" / "proj.L9.safetensors"), "maps", 5, "proj.L9.safetensors"),
    "map and lists together": (_consistent_maps, "maps", 5, "maps m8: proj.L9.safetensors"),
    "a list of the maps": (lambda s: _flip(s.folder / "maps" / "SHA256SUMS"), "maps", 5, "SHA256SUMS"),
    "ridgefill.json gone": (lambda s: (s.folder / "maps" / "ridgefill.json").unlink(), "maps", 5, "ridgefill.json"),
    "a map too many": (lambda s: (s.folder / "maps" / "x").write_text("x"), "maps", 5, "maps m8: x: was not there"),
    "maps gone": (lambda s: shutil.rmtree(s.folder / "maps"), "maps", 6, "'maps' is missing"),
    "model swapped": (lambda s: _swap_keeping_stamps(s.folder / "model.bin"), "files", 5, "model tiny: differs"),
    "model gone": (lambda s: (s.folder / "model.bin").unlink(), "files", 6, "'model.bin' is missing"),
    "model a link outwards": (_out_of_the_study, "files", 5, "a link out of the study's folder"),
    "study.toml edited": (lambda s: _flip(s.folder / "study.toml"), "files", 5, "study study.toml: differs"),
    "claims.toml edited": (_edit_claims, "files", 5, "claim faster: predictions: claims.toml differs"),
    "claims.toml broken": (lambda s: (s.folder / "claims.toml").write_text("["), "files", 5, "claims.toml"),
    "claims.toml gone": (lambda s: (s.folder / "claims.toml").unlink(), "files", 5, "'claims.toml' is missing"),
    "a file for the maps": (_file_for_maps, "maps", 5, "maps m8: is of another sort"),
    "data set edited": (lambda s: _flip(s.folder / "data" / "a.jsonl"), "files", 5, "dataset texts: a.jsonl"),
    "data set emptied": (lambda s: (s.folder / "data" / "a.jsonl").unlink(), "files", 6, "*.jsonl matches nothing"),
    "samples truncated": (_truncate_samples, "files", 5, "samples.parquet: differs in length"),
    "run deleted": (_delete_run, "files", 5, "samples.parquet' is missing"),
    "outside file edited": (lambda s: _flip(s.outside / "essay.txt"), "files", 5, "external.tsv: essay.txt: differs"),
    "outside file gone": (lambda s: (s.outside / "essay.txt").unlink(), "files", 6, "essay.txt' is missing"),
    "outside path escapes": (
        lambda s: _external(s, "essay.txt\t", "../essay.txt\t"),
        "files",
        2,
        "line 2: the name '../",
    ),
    "outside source escapes": (lambda s: _external(s, "path:", "path:../"), "files", 5, "is refused"),
    "table with CRLF": (lambda s: _external(s, "\n", "\r\n"), "files", 2, "external.tsv, line 1"),
    "source edited": (
        lambda s: _flip(s.outside / "toyengine" / "__init__.py"),
        "source",
        5,
        "toyengine: __init__.py: differs",
    ),
    "source added": (lambda s: (s.outside / "toyengine" / "x.py").write_text(""), "source", 5, "x.py: was not there"),
    "library replaced": (lambda s: _flip(s.library), "builds", 5, "libengine.so: differs"),
    "library gone": (lambda s: s.library.unlink(), "builds", 6, "none of its 1 binaries is on this machine"),
    "ledger edited": (lambda s: _external_ledger(s), "files", 3, "entry"),
    "ledger torn": (lambda s: os.truncate(s.store.path, s.store.path.stat().st_size - 30), "files", 4, "repair"),
    "ledger gone": (lambda s: s.store.path.unlink(), "files", 6, "there is no ledger.jsonl"),
    "ledger emptied": (lambda s: s.store.path.write_bytes(b""), "files", 6, "there is no entry"),
}


def _external_ledger(study: Study) -> None:
    study.store.path.write_bytes(study.store.path.read_bytes().replace(b"faster", b"slower", 1))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_gives_its_code_and_its_name_in_its_own_part_and_in_all(study: Study, fault: str) -> None:
    spoil, part, expected, named = FAULTS[fault]
    spoil(study)
    code, out, err = run(study, part)
    assert (code, named in err) == (expected, True), err
    assert not out.startswith("HOLDS")
    code, out, _ = run(study, "all", "--json")
    answer = json.loads(out)
    assert (answer["ok"], answer["exit_code"], code) == (False, code, code)
    assert code in {expected, 3, 5}


def test_one_difference_is_one_finding_with_expected_and_found(study: Study) -> None:
    _flip(study.folder / "maps" / "proj.L9.safetensors")
    _, out, _ = run(study, "maps", "--json")
    (finding,) = json.loads(out)["findings"]
    assert finding["code"] == "differs"
    assert len(finding["expected"]) == len(finding["found"]) == 64
    assert finding["expected"] != finding["found"]


def test_what_ran_and_was_not_pinned_is_told_from_the_ledger_alone(study: Study) -> None:
    start = study.begin()
    study.end(*start, pins=[build_pin("toy", {}, {"version": "1.1"})])
    report = audit(study.folder, ("builds",))
    told = {finding.where: finding for finding in report.findings if finding.code == "other-build"}
    assert f"run {start[0]}: build toy: version" in told
    assert told[f"run {start[0]}: build toy: version"].expected == "1.0"
    assert report.exit_code == 5


def test_an_amended_claim_is_expected_in_its_newest_version(study: Study) -> None:
    _edit_claims(study)
    assert audit(study.folder, ("files",)).exit_code == 5
    (claim,) = read_claims(study.folder)
    study.store.append(Amend(target=study.claim_version(), reason="a tighter rule", claim=claim))
    assert audit(study.folder, tuple(PARTS)).findings == []
    study.end(*study.begin())
    assert audit(study.folder, tuple(PARTS)).findings == []


def test_without_claims_toml_the_ledgers_text_counts_and_that_is_said(study: Study) -> None:
    (study.folder / "claims.toml").unlink()
    findings = audit(study.folder, ("files",)).findings
    assert [finding.code for finding in findings] == ["no-claims-file", "differs"]
    assert findings[0].exit_code == 0


def test_exploratory_unfinished_and_retracted_runs_carry_no_number_and_are_set_aside(study: Study) -> None:
    exploratory, start = study.begin(exploratory=True)
    study.end(exploratory, start)
    unfinished, _ = study.begin()
    _flip(study.folder / "records" / exploratory / "samples.parquet")
    report = audit(study.folder, tuple(PARTS))
    assert report.exit_code == 0
    assert {finding.where for finding in report.findings} == {f"runs {exploratory}", f"runs {unfinished}"}
    study.store.append(Retract(target=study.claim_version(), reason="wrong"))
    codes = {finding.code for finding in audit(study.folder, ("builds",)).findings}
    assert codes == {"left-out", "nothing-to-check"}


def test_a_ledger_cut_back_behind_its_signed_head_is_tampered(study: Study) -> None:
    study.sign_head()
    assert run(study)[0] == 0
    lines = study.store.path.read_bytes().splitlines(keepends=True)
    study.store.path.write_bytes(b"".join(lines[:-1]))  # without the finish: its pins would go unchecked
    code, out, err = run(study)
    assert (code, out[:8]) == (3, "TAMPERED"), err


def test_pins_too_many_for_a_line_are_read_from_beside_the_ledger(study: Study) -> None:
    for number in range(700):
        (study.folder / "data" / f"part-{number:04}.jsonl").write_text(f"{number}\n")
    study.store.path.write_bytes(b"".join(study.store.path.read_bytes().splitlines(keepends=True)[:2]))
    _delete_run(study)
    study.end(*study.begin())
    (body,) = study.store.bodies.iterdir()
    assert run(study)[0] == 0
    _flip(study.folder / "data" / "part-0333.jsonl")
    code, _, err = run(study)
    assert (code, err.count("\n"), "part-0333.jsonl: differs" in err) == (5, 1, True)
    body.unlink()
    code, _, err = run(study)
    assert (code, f"its body bodies/{body.name} is not there" in err) == (6, True)


@pytest.mark.parametrize("part", ["maps", "builds", "source"])
def test_nothing_to_check_is_never_fine(study: Study, part: str) -> None:
    shutil.copy(study.store.path, study.folder / "kept")
    lines = study.store.path.read_bytes().splitlines(keepends=True)
    study.store.path.write_bytes(b"".join(lines[:2]))  # genesis and claim
    code, out, err = run(study, part)
    assert (code, out[:11]) == (6, "NOT CHECKED")
    assert "nothing" in err or "no claim, finished run" in err


def test_bad_pins_in_the_ledger_are_findings_and_not_tracebacks(study: Study) -> None:
    digest = "0" * 64
    good = [pin.as_entry() for pin in study.pins()]
    bad: list[Any] = [
        {"kind": "model", "name": "x", "source": "path:../x", "digest": digest},
        {"kind": "model", "name": "x", "source": "what:x", "digest": digest},
        {"kind": "maps", "name": "x", "method": "sha256-tree", "digest": digest, "files": {"../x": digest}},
        {"name": 3},
        {},
    ]
    study.end(*study.begin(pins=good + bad))
    code, _, err = run(study)
    assert code == 5
    assert "'path:../x' is refused" in err
    assert "'../x' leaves its root" in err
    assert err.count("cannot be used") == 3


def test_a_read_only_study_is_audited_and_nothing_is_written(study: Study) -> None:
    walk = SOURCE_WALK.model_copy(update={"ignore": ()})
    before = hash_tree(study.folder, walk)
    stamps = {path: path.stat().st_mtime_ns for path in [study.folder, *study.folder.rglob("*")]}
    subprocess.run(["chmod", "-R", "a-w", study.folder], check=True)
    try:
        assert run(study)[0] == 0
    finally:
        subprocess.run(["chmod", "-R", "u+w", study.folder], check=True)
    assert hash_tree(study.folder, walk) == before
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


NO_WRITES = """
import os, sys
root = os.path.realpath(sys.argv[3])

def refuse(event, arguments):
    writes = event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    changes = event in {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink"}
    named = arguments and isinstance(arguments[0], (str, bytes, os.PathLike)) and os.fsdecode(arguments[0])
    if (writes or changes) and named and os.path.realpath(named).startswith(root):
        os.write(2, f"{event} {named}".encode())
        os._exit(99)

sys.addaudithook(refuse)
from ledger.console import guard
from provenance.cli import audit
guard(audit)
"""


def test_not_one_call_that_writes_is_made_in_the_study(study: Study) -> None:
    """Stronger than permissions, which root does not feel."""
    arguments = ["all", "-C", str(study.folder)]
    for spoil in (None, study.folder / "model.bin"):
        if spoil:
            _flip(spoil)
        done = subprocess.run(
            [sys.executable, "-c", NO_WRITES, *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == (5 if spoil else 0), done.stderr


def test_the_answer_has_the_same_bytes_whatever_the_hash_seed(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (study.folder / "model.bin", study.library, study.folder / "maps" / "proj.L8.safetensors"):
        _flip(path)
    answers = []
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        answers.append((run(study), run(study, "all", "--json")))
    assert answers[0] == answers[1]
    assert answers[0][0][0] == 5


def test_audit_reads_the_bytes_whatever_the_cache_says(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that vouches for the swapped file: the audit never asks it."""
    from provenance.cache import HashCache, default_cache_file

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = study.folder / "model.bin"
    pinned = next(pin for pin in study.pins() if pin.name == "tiny").digest
    _flip(model)
    cache = HashCache(default_cache_file())
    cache.put(model.stat(), pinned, started_ns=2**62)
    cache.save()
    assert HashCache(default_cache_file()).get(model.stat()) == pinned
    assert run(study, "files")[0] == 5


def test_help_names_every_part_and_an_unknown_one_is_usage() -> None:
    done = subprocess.run([sys.executable, "-m", "provenance", "--help"], capture_output=True, text=True, check=True)
    assert all(part in done.stdout for part in ("all", *PARTS))
    wrong = subprocess.run([sys.executable, "-m", "provenance", "nosuch"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
