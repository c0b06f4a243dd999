"""Names are bytes, and the digest of a tree is the one a plain shell computes."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.manifest import check_name, escape, manifest, tree_digest, unescape
from provenance.pins import Walk
from provenance.tree import hash_tree

SHELL = "find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum -- | sha256sum"
AWKWARD = [
    b"plain",
    b"two words",
    b"new\nline",
    b"back\\slash",
    b"co:lon",
    b"\xff\xfe",
    b"caf\xc3\xa9",
    b"r\re",
    b"-n",
]


@given(st.binary())
def test_escape_is_ascii_and_undone_by_unescape(name: bytes) -> None:
    text = escape(name)
    assert text.isascii()
    assert text.isprintable()
    assert unescape(text) == name


@given(st.binary(), st.binary())
def test_two_names_never_share_an_escape(first: bytes, second: bytes) -> None:
    assert (escape(first) == escape(second)) == (first == second)


def test_unescape_takes_plain_utf8_and_refuses_a_lone_backslash() -> None:
    assert unescape("café") == "café".encode()
    with pytest.raises(ValueError, match="lone backslash"):
        unescape("a\\b")


@pytest.mark.parametrize("name", [b"../x", b"/etc/passwd", b"a/../b", b"a//b", b"", b".", b"a/./b", b"a\0b"])
def test_a_name_that_leaves_its_root_is_refused_by_name(name: bytes) -> None:
    with pytest.raises(ValueError, match="leaves its root") as caught:
        check_name(name)
    assert escape(name) in str(caught.value)


def test_the_digest_is_what_the_shell_says(tmp_path: Path) -> None:
    for folder in (b"", b"sub/", b"sub/deeper\n/"):
        root = os.fsencode(tmp_path) + b"/" + folder
        Path(os.fsdecode(root)).mkdir(exist_ok=True)
        for name in AWKWARD:
            Path(os.fsdecode(root + name)).write_bytes(folder + name)
    expected = subprocess.run(SHELL, shell=True, cwd=tmp_path, capture_output=True, check=True).stdout  # noqa: S602
    tree = hash_tree(tmp_path, Walk())
    assert len(tree.files) == 3 * len(AWKWARD)
    assert tree.digest == expected.split()[0].decode()


def test_order_is_that_of_the_bytes_and_not_of_the_escapes() -> None:
    digest = hashlib.sha256(b"").hexdigest()
    lines = manifest({"z": digest, "\\xff": digest, "\\x01": digest}).split(b"\n")
    assert [line[66:] for line in lines[:3]] == [b"\x01", b"z", b"\xff"]


def test_a_link_kept_as_text_is_never_taken_for_a_file() -> None:
    digest = hashlib.sha256(b"target").hexdigest()
    assert tree_digest({"a": digest}) != tree_digest({"a": "link:" + digest})


def test_a_digest_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not a sha256"):
        manifest({"a": "ABC"})
