"""The state of our own source: what git says, what git hides, and what the bytes say.

Git is asked, not believed: every file of the commit is hashed here as git would hash it, so a change
shows whatever the index was told (`assume-unchanged`, `skip-worktree`, a clean filter, a replace ref).
Every state is recorded in words; only a claim that demands a clean tree makes one fatal.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from functools import partial
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

import orjson
from pydantic import BaseModel, ConfigDict

from ledger.errors import Differs
from provenance.gitcall import Answer, ask, steering_variables
from provenance.hashing import open_file
from provenance.manifest import escape
from provenance.measure import take
from provenance.pins import Pin
from provenance.tree import SOURCE_WALK

_LISTED = 100  # names kept of each list; the count is kept in full


class Names(BaseModel):
    """How many names, and the first hundred of them, escaped."""

    model_config = ConfigDict(frozen=True)
    count: int
    first: list[str]


class SourceState(BaseModel):
    """What is known of the repository around a folder. `state` says in words what was found."""

    model_config = ConfigDict(frozen=True)
    state: str
    commit: str = ""
    head: str = ""  # "branch NAME", "detached" or "unborn NAME"
    shallow: bool = False
    remotes: dict[str, str] = {}
    changed: Names = Names(count=0, first=[])  # bytes differ from the commit's, absent, or not yet committed
    untracked: Names = Names(count=0, first=[])  # not ignored by a rule in the tree itself
    hidden: list[str] = []  # what `git status` would not have told
    left_aside: list[str] = []  # variables that would have steered git
    submodules: list[str] = []

    @property
    def clean(self) -> bool:
        """Whether the bytes are exactly those of `commit`."""
        stray = self.changed.count + self.untracked.count + len(self.hidden)
        return bool(self.commit) and stray == 0 and all(line.endswith(" clean") for line in self.submodules)


def source_pin(package: str, base: Path) -> Pin:
    """Our own digest of a package's source as it will be imported: the evidence, with or without git."""
    return take("source", package, f"package:{package}", base, walk=SOURCE_WALK)


def capture(folder: Path) -> SourceState:
    """The state of the repository that holds `folder`. Never raises for a state of the repository."""
    if not folder.is_dir():
        return SourceState(state="there is no such folder")
    top = ask(folder, "rev-parse", "--show-toplevel")
    if top.status != 0:
        return SourceState(state=_why_unknown(top), left_aside=steering_variables())
    root = Path(os.fsdecode(top.out.removesuffix(b"\n")))
    commit = ask(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    branch = ask(root, "symbolic-ref", "--quiet", "--short", "HEAD")
    unborn = commit.status != 0
    head = ("unborn " if unborn else "branch ") + branch.text if branch.status == 0 else "detached"
    recorded = {} if unborn else _recorded(root)
    index = {item[2:]: chr(item[0]) for item in ask(root, "ls-files", "-v", "-z").items}
    submodules = [_submodule(root, name, oid) for name, (kind, oid) in recorded.items() if kind == b"160000"]
    changed = [name for name, (kind, oid) in recorded.items() if kind != b"160000" and _differs(root, name, kind, oid)]
    changed += [name for name in index if name not in recorded]
    in_tree = ask(root, "ls-files", "--others", "--exclude-per-directory=.gitignore", "-z").items
    shown = set(ask(root, "ls-files", "--others", "--exclude-standard", "-z").items)
    return SourceState(
        state="a git repository without a commit" if unborn else "a git repository",
        commit=commit.text,
        head=head,
        shallow=ask(root, "rev-parse", "--is-shallow-repository").text == "true",
        remotes=_remotes(root),
        changed=_names(changed),
        untracked=_names(in_tree),
        hidden=_flags(index)
        + [f"excluded outside the tree's own rules: {escape(name)}" for name in in_tree if name not in shown]
        + [f"replace ref: {line}" for line in ask(root, "replace", "--list").text.splitlines()],
        left_aside=steering_variables(),
        submodules=submodules,
    )


def capture_editable() -> dict[str, SourceState]:
    """The state of every project that is installed in editable mode: it can change between two runs."""
    return {name: capture(folder) for name, folder in sorted(editable_projects().items()) if folder.is_dir()}


def editable_projects() -> dict[str, Path]:
    """Distribution name -> folder of each editable install (PEP 610 direct_url.json)."""
    projects = {}
    for distribution in metadata.distributions():
        text = distribution.read_text("direct_url.json")
        direct = orjson.loads(text) if text else {}
        if direct.get("dir_info", {}).get("editable"):
            projects[distribution.metadata["Name"]] = Path(unquote(urlsplit(direct["url"]).path))
    return projects


def require_clean(state: SourceState, where: str) -> None:
    """Raise Differs, naming the first difference, unless the bytes are exactly those of a commit."""
    if state.clean:
        return
    stray = [
        *(f"changed: {name}" for name in state.changed.first),
        *(f"untracked: {name}" for name in state.untracked.first),
        *state.hidden,
        *(line for line in state.submodules if not line.endswith(" clean")),
    ]
    raise Differs(
        f"the source of {where} is not exactly a commit",
        expected="a clean tree",
        found=stray[0] + (f" (and {len(stray) - 1} more)" if len(stray) > 1 else "") if stray else state.state,
        hint="commit or remove what differs, or run with --exploratory",
    )


def _why_unknown(top: Answer) -> str:
    if "dubious ownership" in top.error:
        return "git refuses: the repository belongs to another user (see safe.directory in git's manual)"
    if "not a git repository" in top.error:
        return "not in a git repository"
    return top.error or f"git failed with status {top.status}"


def _flags(index: dict[bytes, str]) -> list[str]:
    """`ls-files -v`: a lower-case tag is assume-unchanged, S or s is skip-worktree."""
    lines = [f"assume-unchanged: {escape(name)}" for name, tag in index.items() if tag.islower()]
    return lines + [f"skip-worktree: {escape(name)}" for name, tag in index.items() if tag in "Ss"]


def _recorded(root: Path) -> dict[bytes, tuple[bytes, str]]:
    """Name -> (mode, object id) of every file, link and submodule of the commit."""
    recorded = {}
    for item in ask(root, "ls-tree", "-r", "-z", "--full-tree", "HEAD").items:
        facts, name = item.split(b"\t", 1)
        kind, _, oid = facts.split(b" ")
        recorded[name] = (kind, oid.decode())
    return recorded


def _differs(root: Path, name: bytes, kind: bytes, oid: str) -> bool:
    """Whether the bytes on disk are not those of the commit, hashed as git hashes a blob."""
    path = root / os.fsdecode(name)
    try:
        if kind == b"120000":
            target = os.fsencode(path.readlink())
            return _blob(oid, len(target), [target]) != oid
        descriptor = open_file(os.fsencode(path))
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            return _blob(oid, size, iter(partial(file.read, 1 << 20), b"")) != oid
    except OSError:  # absent, a link or a pipe instead of a file, or not to be read
        return True


def _blob(like: str, size: int, chunks: Iterable[bytes]) -> str:
    """The object id git gives to a blob, with the hash function of another id."""
    state = hashlib.sha1(usedforsecurity=False) if len(like) == 40 else hashlib.sha256()
    state.update(b"blob %d\0" % size)
    for chunk in chunks:
        state.update(chunk)
    return state.hexdigest()


def _submodule(root: Path, name: bytes, oid: str) -> str:
    folder = root / os.fsdecode(name)
    label = f"submodule {escape(name)} at {oid[:12]}:"
    if not (folder / ".git").exists():
        return f"{label} not checked out"
    inside = capture(folder)
    if not inside.commit:
        return f"{label} {inside.state}"
    if inside.commit != oid:
        return f"{label} another commit is checked out, {inside.commit[:12]}"
    return f"{label} clean" if inside.clean else f"{label} changed"


def _remotes(root: Path) -> dict[str, str]:
    """Name -> address, without a user or token that may stand in it; a folder's address would tell of a machine."""
    remotes = {}
    for line in ask(root, "config", "--get-regexp", r"^remote\..*\.url$").text.splitlines():
        key, _, url = line.partition(" ")
        remotes[escape(os.fsencode(key.removeprefix("remote.").removesuffix(".url")))] = _public(url)
    return remotes


def _public(url: str) -> str:
    """Git takes what has neither a scheme nor a host before a colon for a path (git-fetch(1), GIT URLS)."""
    if url.startswith("file:") or not re.match(r"[^/]*:", url):
        return "a local folder"
    return re.sub(r"//[^/@]*@", "//", url)


def _names(names: list[bytes]) -> Names:
    ordered = sorted(names)
    return Names(count=len(ordered), first=[escape(name) for name in ordered[:_LISTED]])
