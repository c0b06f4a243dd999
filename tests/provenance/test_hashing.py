"""Files to digests: the same as hashlib's, whatever the size; and a cache that stamps cannot fool."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from ledger.errors import Differs
from provenance.cache import RACY_NS, HashCache
from provenance.hashing import LARGE, Hashed, NotAFileError, hash_descriptor, hash_file, hash_files, open_file


@pytest.mark.parametrize("size", [0, 1, 262_143, 262_144, 262_145, LARGE - 1, LARGE, 3 * LARGE + 7])
def test_digest_and_length_are_hashlibs(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    file = tmp_path / "file"
    file.write_bytes(content)
    assert hash_file(os.fsencode(file)) == Hashed(hashlib.sha256(content).hexdigest(), size)


def test_many_files_large_and_small_and_one_that_is_gone(tmp_path: Path) -> None:
    expected = {}
    for index, size in enumerate([10, LARGE * 2, 20, LARGE, 0, LARGE * 3]):
        content = os.urandom(size)
        path = os.fsencode(tmp_path / str(index))
        Path(os.fsdecode(path)).write_bytes(content)
        expected[path] = Hashed(hashlib.sha256(content).hexdigest(), size)
    gone = os.fsencode(tmp_path / "gone")
    results = hash_files([*((path, hashed.size) for path, hashed in expected.items()), (gone, 5)])
    assert isinstance(results.pop(gone), FileNotFoundError)
    assert results == expected


def test_links_folders_and_pipes_are_not_opened_as_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "."):
        with pytest.raises(OSError, match=r"symbolic links|regular file"):
            open_file(os.fsencode(tmp_path / name))
    with pytest.raises(NotAFileError, match="not a regular file"):
        open_file(os.fsencode(tmp_path / "pipe"))


@pytest.mark.parametrize("how", ["ab", "r+b"])
def test_a_file_that_grows_or_is_overwritten_while_it_is_hashed_is_refused(tmp_path: Path, how: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * LARGE)
    time.sleep(0.02)  # past the file system's clock tick
    written = threading.Event()

    def write(_: int) -> None:
        if not written.is_set():
            written.set()
            with file.open(how) as out:
                out.write(b"y")

    descriptor = open_file(os.fsencode(file))
    try:
        with pytest.raises(Differs, match="changed while it was being hashed"):
            hash_descriptor(descriptor, write)
    finally:
        os.close(descriptor)


def _file(tmp_path: Path, content: bytes) -> Path:
    file = tmp_path / "file"
    file.write_bytes(content)
    return file


def test_the_cache_answers_for_a_file_older_than_its_hashing(tmp_path: Path) -> None:
    file = _file(tmp_path, b"first")
    cache = HashCache(tmp_path / "cache" / "digests.json")
    stat = file.stat()
    cache.put(stat, "f" * 64, started_ns=stat.st_ctime_ns + RACY_NS + 1)
    cache.save()
    again = HashCache(tmp_path / "cache" / "digests.json")
    assert hash_file(os.fsencode(file), again).sha256 == "f" * 64


def test_a_racily_clean_file_is_not_cached(tmp_path: Path) -> None:
    file = _file(tmp_path, b"first")
    cache = HashCache(tmp_path / "digests.json")
    hash_file(os.fsencode(file), cache)
    assert cache.get(file.stat()) is None


def test_a_swap_with_its_mtime_restored_is_seen_through_ctime(tmp_path: Path) -> None:
    file = _file(tmp_path, b"first")
    stat = file.stat()
    cache = HashCache(tmp_path / "digests.json")
    cache.put(stat, hashlib.sha256(b"first").hexdigest(), started_ns=stat.st_ctime_ns + RACY_NS + 1)
    time.sleep(0.02)  # past the file system's clock tick
    with file.open("r+b") as out:
        out.write(b"SWAPP")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (stat.st_mtime_ns, stat.st_ino)
    assert hash_file(os.fsencode(file), cache).sha256 == hashlib.sha256(b"SWAPP").hexdigest()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff\xff"])
def test_a_damaged_cache_is_an_empty_one(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "digests.json").write_bytes(damage)
    file = _file(tmp_path, b"x")
    assert HashCache(tmp_path / "digests.json").get(file.stat()) is None


def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file where a folder should be")
    HashCache(tmp_path / "blocked" / "digests.json").save()
    assert (tmp_path / "blocked").is_file()
