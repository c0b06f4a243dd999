"""Many writers at once, and writers killed at any moment: real processes, real signals."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ledger.chain import leaf_hash
from ledger.errors import Torn
from ledger.events.note import NoteEntry
from ledger.repair import repair_ledger
from ledger.session import Session
from ledger.store import Store

WRITER = """
import sys
from pathlib import Path
from ledger.events.note import NoteEntry
from ledger.session import Session
session = Session(Path(sys.argv[1]))
sys.stdin.readline()  # so that all start at once
for number in range(int(sys.argv[3])):
    (entry,) = session.append(lambda _result: [NoteEntry(text=f"writer {sys.argv[2]} entry {number}")])
    print(entry.seq, entry.leaf, flush=True)
"""


def _holds(folder: Path) -> int:
    result = Session(folder).check()
    assert (result.exit_code, [f.line() for f in result.findings if f.severity == "error"]) == (0, [])
    return result.size


def test_six_processes_forty_appends(study: Path) -> None:
    """Bug log 3: head read before the lock. 240 entries, each acknowledged once, chain whole."""
    before = _holds(study)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(study), str(number), "40"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(6)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    told: list[str] = []
    for writer in writers:
        out, err = writer.communicate(timeout=120)
        assert (writer.returncode, err) == (0, "")
        told += out.splitlines()
    assert len(told) == len({line.split()[0] for line in told}) == 240
    assert _holds(study) == before + 240
    leaves = [leaf_hash(raw.removesuffix(b"\n")).hex() for raw in Store(study).lines()]
    assert all(leaves[int(seq)] == leaf for seq, leaf in map(str.split, told))


def test_bare_stores_in_six_processes_share_one_chain(tmp_path: Path, make: ModuleType) -> None:
    """The same without the verifying session around it: the lock alone must do."""
    store = Store(tmp_path / "study")
    vkey = make.Draft().vkey(make.private(1))
    store.create(make.Genesis(made_by="a test", name="x", origin=make.Draft().origin, key=vkey), make.LEDGER_ID)
    children = []
    for number in range(6):
        child = os.fork()
        if child == 0:
            status = 1
            with contextlib.suppress(BaseException):
                own = Store(tmp_path / "study")
                for count in range(40):
                    own.append(NoteEntry(text=f"{number} {count}"))
                status = 0
            os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    assert _holds(tmp_path / "study") == 241


class Victim:
    """A process of its own that appends until it is killed, and says each entry that was acknowledged."""

    def __init__(self, folder: Path, batch: int) -> None:
        read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(read)
                session = Session(folder)
                for number in range(10**9):
                    entries = session.append(
                        lambda _result, n=number: [NoteEntry(text=f"{os.getpid()} {n} {i}") for i in range(batch)]  # type: ignore[misc]
                    )
                    os.write(write, b"".join(b"%d %s\n" % (e.seq, e.leaf.encode()) for e in entries))
            except Torn:  # another victim was killed in the middle of a write: no one may append on top
                code = Torn.exit_code
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(write)
        self.out = read

    def kill(self) -> list[tuple[int, str]]:
        """SIGKILL; what it had said by then."""
        os.kill(self.pid, signal.SIGKILL)
        status = os.waitpid(self.pid, 0)[1]
        assert status == signal.SIGKILL or os.waitstatus_to_exitcode(status) == Torn.exit_code
        said = b""
        while chunk := os.read(self.out, 65_536):
            said += chunk
        os.close(self.out)
        words = (line.split() for line in said.decode().split("\n")[:-1])
        return [(int(seq), leaf) for seq, leaf in words]

    def wait(self) -> None:
        """Until it has said something: it is writing now."""
        select.select([self.out], [], [], 10)


@pytest.mark.slow
def test_two_hundred_writers_killed(study: Path) -> None:
    """Never TAMPERED, and no acknowledged entry lost; what a kill left torn is mended and goes on."""
    rng = random.Random(200)
    said: dict[int, str] = {}
    killed = torn = 0
    while killed < 200:
        victims = [Victim(study, batch=rng.choice([1, 1, 5, 60])) for _ in range(4)]
        victims[0].wait()
        for victim in victims:
            time.sleep(rng.random() * 0.02)
            for seq, leaf in victim.kill():
                assert said.setdefault(seq, leaf) == leaf
            killed += 1
        result = Session(study).check()
        assert result.verdict in ("OK-UNPINNED", "TORN"), [finding.line() for finding in result.findings]
        if result.verdict == "TORN":
            torn += 1
            repair_ledger(Session(study), accept_loss=False)
        leaves = [leaf_hash(raw.removesuffix(b"\n")).hex() for raw in Store(study).lines()]
        assert {seq: leaves[seq] for seq in said} == said
    assert len(said) > 200
    _holds(study)


def test_a_killed_writer_leaves_no_lock(study: Path) -> None:
    victim = Victim(study, 1)
    victim.wait()
    os.kill(victim.pid, signal.SIGSTOP)
    victim.kill()
    Session(study).append(lambda _result: [NoteEntry(text="after")])
    _holds(study)


@pytest.mark.parametrize("command", [["note", "x"], ["checkpoint"], ["register"]])
def test_an_interrupted_command_says_so(command: list[str], study: Path) -> None:
    """Ctrl-C while waiting for the lock: exit 130, one line, nothing entered."""
    import fcntl

    (study / "claims.toml").write_text((study / "claims.toml").read_text().replace('"C', '"D'))
    before = (study / "ledger.jsonl").read_bytes()
    with (study / "ledger.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running = subprocess.Popen(
            [sys.executable, "-m", "ledger", *command, "-C", str(study)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(2)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert err.strip() == "error: interrupted"
    assert (study / "ledger.jsonl").read_bytes() == before


def test_a_reader_that_goes_away_is_no_error(study: Path) -> None:
    for number in range(3):
        Session(study).append(lambda _result, n=number: [NoteEntry(text=f"{n} " + "x" * 15_000)] * 3)  # type: ignore[misc]
    for command in (["log"], ["show", "5"], ["verify", str(study), "--json"]):
        where: list[Any] = [] if command[0] == "verify" else ["-C", study]
        running = subprocess.Popen(
            [sys.executable, "-m", "ledger", *command, *map(str, where)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        err = running.stderr.read()
        running.stderr.close()
        assert (running.wait(timeout=60), b"Traceback" in err, b"Broken" in err) == (141, False, False)
