"""Walking a tree: which files there are, under recorded rules, and what is refused by name."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_ISDIR

from ledger.errors import CannotCheck, Differs
from provenance.cache import HashCache
from provenance.hashing import Advance, hash_files
from provenance.manifest import escape, tree_digest
from provenance.pins import Walk

# Left out of trees of source code: what tools write beside the code they run.
SOURCE_WALK = Walk(
    links="text",
    ignore=(
        ".git",
        ".venv",
        "__pycache__",
        "*.pyc",
        "*.egg-info",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".hypothesis",
        "node_modules",
    ),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An entry of a tree that is not taken, and why."""

    name: str
    why: str


@dataclass
class Listing:
    """What a walk found. Names are bytes relative to the root; `files` maps them to (path to open, bytes)."""

    files: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    links: dict[bytes, bytes] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Tree:
    """A hashed tree: {escaped name: sha256}, total bytes, and the digest over the manifest."""

    files: dict[str, str]
    size: int

    @property
    def digest(self) -> str:
        return tree_digest(self.files)


def list_tree(root: Path, walk: Walk, *, within: Path | None = None) -> Listing:
    """List a tree; links may lead to files under `within` (default: the root itself).

    Raises CannotCheck when the root cannot be walked or a pattern of `walk.only` matches nothing.
    """
    top = os.fsencode(root)
    limit = os.path.realpath(os.fsencode(within or root))
    listing = Listing()
    unmatched = set(walk.only)
    try:
        entries = list(_entries(top, b"", walk.ignore, listing.refused))
    except OSError as error:
        raise CannotCheck(
            f"'{escape(top)}' cannot be walked", expected="a folder", found=error.strerror or str(error)
        ) from None
    for name, entry in entries:
        if walk.only:
            matching = {pattern for pattern in walk.only if fnmatchcase(name, os.fsencode(pattern))}
            if not matching:
                continue
            unmatched -= matching
        _take(listing, name, entry, walk, limit)
    if unmatched:
        raise CannotCheck(
            f"the pattern {', '.join(sorted(unmatched))} matches nothing in '{escape(top)}'",
            expected="at least one file",
            found="none",
            hint="correct the pattern, or put the files there",
        )
    return listing


def hash_tree(
    root: Path,
    walk: Walk,
    *,
    within: Path | None = None,
    cache: HashCache | None = None,
    advance: Advance | None = None,
) -> Tree:
    """Hash a tree. Raises Differs naming what is refused, CannotCheck for an empty or absent one."""
    listing = list_tree(root, walk, within=within)
    hashed = hash_files(listing.files.values(), cache=cache, advance=advance)
    files: dict[str, str] = {}
    size = 0
    refused = list(listing.refused)
    for name, (path, _) in listing.files.items():
        result = hashed[path]
        if isinstance(result, OSError):
            refused.append(Refusal(escape(name), result.strerror or str(result)))
        elif isinstance(result, Differs):
            refused.append(Refusal(escape(name), result.message))
        else:
            files[escape(name)] = result.sha256
            size += result.size
    for name, target in listing.links.items():
        files[escape(name)] = "link:" + hashlib.sha256(target).hexdigest()
    if refused:
        first, *rest = sorted(refused, key=lambda refusal: refusal.name)
        more = f" (and {len(rest)} more)" if rest else ""
        raise Differs(f"'{first.name}' is refused: {first.why}{more}", hint="remove it, or ignore it by name")
    if not files:
        raise CannotCheck(f"there is no file in '{escape(os.fsencode(root))}'", expected="at least one", found="none")
    return Tree(files, size)


def _entries(
    root: bytes, below: bytes, ignore: tuple[str, ...], refused: list[Refusal]
) -> Iterator[tuple[bytes, os.DirEntry[bytes]]]:
    """Every entry that is no folder, in no particular order. Raises OSError when the root cannot be read."""
    patterns = [os.fsencode(pattern) for pattern in ignore]
    folders = [below]
    while folders:
        folder = folders.pop()
        try:
            scan = os.scandir(root + b"/" + folder if folder else root)
        except OSError as error:
            if not folder:
                raise
            refused.append(Refusal(escape(folder), error.strerror or str(error)))
            continue
        with scan:
            for entry in scan:
                if patterns and any(fnmatchcase(entry.name, pattern) for pattern in patterns):
                    continue
                name = folder + b"/" + entry.name if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                else:
                    yield name, entry


def _take(listing: Listing, name: bytes, entry: os.DirEntry[bytes], walk: Walk, limit: bytes) -> None:
    try:
        if entry.is_symlink():
            if walk.links == "text":
                listing.links[name] = os.fsencode(Path(os.fsdecode(entry.path)).readlink())
                return
            target = os.path.realpath(entry.path, strict=True)
            stat = Path(os.fsdecode(target)).stat()
            why = _refuse_link(target, stat, limit)
            if why:
                listing.refused.append(Refusal(escape(name), why))
                return
            listing.files[name] = (target, stat.st_size)
        elif entry.is_file(follow_symlinks=False):
            listing.files[name] = (entry.path, entry.stat(follow_symlinks=False).st_size)
        else:
            listing.refused.append(Refusal(escape(name), "neither a file nor a folder nor a link"))
    except FileNotFoundError:
        listing.refused.append(Refusal(escape(name), "a link to nothing"))
    except OSError as error:
        listing.refused.append(Refusal(escape(name), f"a link that loops or cannot be read ({error.strerror})"))


def _refuse_link(target: bytes, stat: os.stat_result, limit: bytes) -> str:
    """Why a link to `target` is not followed; empty when it is."""
    if target != limit and not target.startswith(limit.rstrip(b"/") + b"/"):
        return "a link out of the root"
    if S_ISDIR(stat.st_mode):
        return "a link to a folder, which could loop"
    return ""
